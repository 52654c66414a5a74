//! What the database must have: what is missing, and how it is added.
//!
//! The tables belong to the other application. Whatever is there stays as it
//! is; what is missing is added, and nothing is ever taken away or changed.

use std::collections::HashMap;

use deadpool_postgres::Pool;
use tokio_postgres::types::Type;

use crate::database::{self, DatabaseError, Param};
use crate::mapping::{MESSAGES, MOMENT};

/// The tables that a worker reads or writes, with the columns that each must have.
const TABLES: [(&str, &[(&str, &str)]); 7] = [
    (MESSAGES, &MESSAGE_COLUMNS),
    ("pending_care_documentations", &DOCUMENT_COLUMNS),
    ("whatsapp_care_sessions", &SESSION_COLUMNS),
    ("patient_qr_codes", &[("patient_id", "TEXT"), ("agency_id", "TEXT")]),
    ("patients", &[("id", "TEXT PRIMARY KEY"), ("agency_id", "TEXT")]),
    ("nurse_tour_audit", &AUDIT_COLUMNS),
    ("nurse_tour_cool_downs", &[("name", "TEXT PRIMARY KEY"), ("until", "TIMESTAMPTZ NOT NULL")]),
];

const MESSAGE_COLUMNS: [(&str, &str); 34] = [
    ("message_sid", "TEXT PRIMARY KEY"),
    ("from_number", "TEXT"),
    ("agency_id", "TEXT"),
    ("message_type", "TEXT"),
    ("media_url", "TEXT"),
    ("media_blob_id", "TEXT"),
    ("current_stage", "TEXT"),
    ("status", "TEXT"),
    ("processing_status", "TEXT"),
    ("transcript_text", "TEXT"),
    ("analysis_json", "TEXT"),
    ("failed_stage", "TEXT"),
    ("failed_reason", "TEXT"),
    ("retry_count", "INTEGER DEFAULT 0"),
    ("received_at", "TEXT"),
    ("processed_at", "TEXT"),
    ("body", "TEXT"),
    ("profile_name", "TEXT"),
    ("locked_by", "TEXT"),
    ("locked_until", "TEXT"),
    ("next_attempt_at", "TEXT"),
    ("fence", "BIGINT NOT NULL DEFAULT 0"),
    ("crash_count", "INTEGER NOT NULL DEFAULT 0"),
    ("claim_id", "TEXT"),
    ("audio_bytes", "BIGINT"),
    ("audio_sha256", "TEXT"),
    ("audio_type", "TEXT"),
    ("patient_id", "TEXT"),
    ("patient_name", "TEXT"),
    ("care_session_id", "TEXT"),
    ("transcript_language", "TEXT"),
    ("transcript_model", "TEXT"),
    ("analysis_model", "TEXT"),
    ("document_id", "TEXT"),
];

const DOCUMENT_COLUMNS: [(&str, &str); 18] = [
    ("id", "TEXT PRIMARY KEY"),
    ("phone_number", "TEXT"),
    ("patient_id", "TEXT"),
    ("patient_name", "TEXT"),
    ("service_date", "TEXT"),
    ("raw_content", "TEXT"),
    ("translated_content_de", "TEXT"),
    ("translated_content_en", "TEXT"),
    ("translated_content_ar", "TEXT"),
    ("translated_content_tr", "TEXT"),
    ("original_language", "TEXT"),
    ("kh_codes", "JSONB"),
    ("structured_data", "JSONB"),
    ("alerts", "JSONB"),
    ("status", "TEXT"),
    ("agency_id", "TEXT"),
    ("message_sid", "TEXT"),
    ("created_at", "TEXT"),
];

const SESSION_COLUMNS: [(&str, &str); 6] = [
    ("id", "TEXT PRIMARY KEY"),
    ("phone_number", "TEXT"),
    ("patient_id", "TEXT"),
    ("patient_name", "TEXT"),
    ("expires_at", "TEXT"),
    ("created_at", "TEXT"),
];

const AUDIT_COLUMNS: [(&str, &str); 19] = [
    ("seq", "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY"),
    ("message_sid", "TEXT NOT NULL"),
    ("at", "TIMESTAMPTZ NOT NULL"),
    ("worker", "TEXT"),
    ("fence", "BIGINT"),
    ("from_stage", "TEXT"),
    ("to_stage", "TEXT"),
    ("from_status", "TEXT"),
    ("to_status", "TEXT"),
    ("attempt", "INTEGER"),
    ("outcome", "TEXT NOT NULL"),
    ("reason", "TEXT"),
    ("provider", "TEXT"),
    ("model", "TEXT"),
    ("prompt_sha256", "TEXT"),
    ("input_sha256", "TEXT"),
    ("output_sha256", "TEXT"),
    ("bytes", "BIGINT"),
    ("duration_ms", "BIGINT"),
];

/// Indexes by name: the seed's, and ours. None has a column that a stage writes, so that the write of a stage
/// need not touch them.
const INDEXES: [(&str, &str); 8] = [
    (
        "idx_pending_docs_message_idempotent",
        "CREATE UNIQUE INDEX IF NOT EXISTS idx_pending_docs_message_idempotent ON pending_care_documentations \
         (agency_id, message_sid) WHERE message_sid IS NOT NULL",
    ),
    (
        "idx_pending_docs_message",
        "CREATE UNIQUE INDEX IF NOT EXISTS idx_pending_docs_message ON pending_care_documentations (message_sid) \
         WHERE message_sid IS NOT NULL",
    ),
    (
        "idx_whatsapp_messages_claim",
        "CREATE INDEX IF NOT EXISTS idx_whatsapp_messages_claim ON whatsapp_inbound_messages \
         (processing_status, locked_until, next_attempt_at, received_at) WHERE message_type = 'voice'",
    ),
    // For the claim: oldest first, and last the moment from which a message may be claimed, so that those that wait or
    // are held are passed over without being read.
    (
        "idx_whatsapp_messages_due",
        "CREATE INDEX IF NOT EXISTS idx_whatsapp_messages_due ON whatsapp_inbound_messages \
         ({received_at} NULLS FIRST, message_sid, coalesce(CASE WHEN processing_status = 'PROCESSING' THEN {locked_until} \
         ELSE {next_attempt_at} END, '-infinity'::timestamptz)) \
         WHERE processing_status IN ('READY', 'RETRY', 'PROCESSING') AND message_type = 'voice'",
    ),
    (
        "idx_whatsapp_messages_tries",
        "CREATE INDEX IF NOT EXISTS idx_whatsapp_messages_tries ON whatsapp_inbound_messages (retry_count) \
         WHERE processing_status IN ('READY', 'RETRY') AND message_type = 'voice'",
    ),
    (
        "idx_nurse_tour_audit_at",
        "CREATE INDEX IF NOT EXISTS idx_nurse_tour_audit_at ON nurse_tour_audit (at)",
    ),
    (
        "idx_nurse_tour_audit_message",
        "CREATE INDEX IF NOT EXISTS idx_nurse_tour_audit_message ON nurse_tour_audit (message_sid, seq)",
    ),
    (
        "idx_whatsapp_care_sessions_phone",
        "CREATE INDEX IF NOT EXISTS idx_whatsapp_care_sessions_phone ON whatsapp_care_sessions \
         (regexp_replace(phone_number, '^whatsapp:', ''))",
    ),
];

/// Functions, each with the trigger that calls it where there is one, and what both are for.
const PROGRAMS: [(&str, Option<&str>, &str, &str); 4] = [
    (MOMENT, None, "the function nurse_tour_moment", include_str!("../sql/moment.sql")),
    ("nurse_tour_bind", None, "the function nurse_tour_bind", include_str!("../sql/bind.sql")),
    (
        "nurse_tour_audit_is_append_only",
        Some("nurse_tour_audit_guard"),
        "the guard that keeps nurse_tour_audit append-only",
        include_str!("../sql/audit_guard.sql"),
    ),
    (
        "nurse_tour_announce",
        Some("nurse_tour_announce"),
        "the trigger that announces new messages",
        include_str!("../sql/announce.sql"),
    ),
];

/// Something that is missing, and the SQL that adds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// What is missing: `the column fence of whatsapp_inbound_messages`.
    pub what: String,
    /// What adds it.
    pub sql: String,
}

/// The types of the columns that the worker knows.
#[derive(Debug, Clone, Default)]
pub struct Types(HashMap<(String, String), String>);

impl Types {
    /// Reads them.
    pub async fn read(pool: &Pool) -> Result<Self, DatabaseError> {
        let tables: Vec<&str> = TABLES.iter().map(|(table, _)| *table).collect();
        let rows =
            database::rows(pool, include_str!("../sql/types.sql"), &[(&tables, Type::TEXT_ARRAY)]).await?;
        Ok(Self(rows.iter().map(|row| ((row.get(0), row.get(1)), row.get(2))).collect()))
    }

    /// A moment as a column takes it: RFC 3339 in UTC where it is text.
    pub fn moment(&self, table: &str, column: &str, expression: &str) -> String {
        match self.of(table, column) {
            kind if kind.ends_with("without time zone") => format!("(({expression}) AT TIME ZONE 'UTC')"),
            kind if kind.starts_with("timestamp") => expression.to_owned(),
            _ => {
                format!("to_char(({expression}) AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"')")
            }
        }
    }

    /// A message's column of time as a moment, as the store reads it: what an index keeps must be the same.
    fn read_moment(&self, column: &str) -> String {
        match self.of(MESSAGES, column) {
            kind if kind.ends_with("without time zone") => format!("({column} AT TIME ZONE 'UTC')"),
            kind if kind.starts_with("timestamp") => column.to_owned(),
            _ => format!("{MOMENT}({column})"),
        }
    }

    fn of(&self, table: &str, column: &str) -> &str {
        self.0.get(&(table.to_owned(), column.to_owned())).map_or("text", String::as_str)
    }

    fn has(&self, table: &str, column: Option<&str>) -> bool {
        self.0.keys().any(|(found, name)| found == table && column.is_none_or(|column| name == column))
    }
}

/// What is missing, in the order in which it is to be added. Changes nothing.
pub async fn missing(pool: &Pool) -> Result<Vec<Missing>, DatabaseError> {
    let types = Types::read(pool).await?;
    let mut found = tables_and_columns(&types);
    if types.has(MESSAGES, None) {
        let params: [Param<'_>; 2] = [(&MESSAGES, Type::TEXT), (&"message_sid", Type::TEXT)];
        let row = database::row(pool, include_str!("../sql/unique.sql"), &params).await?;
        if !row.get::<_, bool>(0) {
            let sql = "CREATE UNIQUE INDEX IF NOT EXISTS idx_whatsapp_messages_sid ON whatsapp_inbound_messages \
                       (message_sid)";
            found.push(Missing { what: "the rule that message_sid is unique".into(), sql: sql.into() });
        }
    }
    // Before the indexes, one of which keeps what a function answers.
    for (function, trigger, what, sql) in PROGRAMS {
        let params: [Param<'_>; 3] = [(&function, Type::TEXT), (&trigger, Type::TEXT), (&sql, Type::TEXT)];
        let row = database::row(pool, include_str!("../sql/program.sql"), &params).await?;
        if !row.get::<_, bool>(0) {
            found.push(Missing { what: format!("{what}, as this version has it"), sql: sql.to_owned() });
        }
    }
    for (name, sql) in INDEXES {
        let row = database::row(pool, "SELECT to_regclass($1) IS NOT NULL", &[(&name, Type::TEXT)]).await?;
        if !row.get::<_, bool>(0) {
            let sql = ["received_at", "locked_until", "next_attempt_at"]
                .into_iter()
                .fold(sql.to_owned(), |sql, column| {
                    sql.replace(&format!("{{{column}}}"), &types.read_moment(column))
                });
            found.push(Missing { what: format!("the index {name}"), sql });
        }
    }
    Ok(found)
}

/// The words that are written, and where.
const WORDS: [(&str, &str, &[&str]); 3] = [
    (MESSAGES, "processing_status", &["READY", "RETRY", "PROCESSING", "DONE", "FAILED", "TRIAGE"]),
    (MESSAGES, "status", &["completed"]),
    ("pending_care_documentations", "status", &["pending", "triage"]),
];

/// Constraints of the other application that would refuse a word of ours. Only their owner can change them.
pub async fn refusals(pool: &Pool) -> Result<Vec<String>, DatabaseError> {
    let mut found = Vec::new();
    for (table, column, words) in WORDS {
        let params: [Param<'_>; 3] =
            [(&table, Type::TEXT), (&column, Type::TEXT), (&words, Type::TEXT_ARRAY)];
        let rows = database::rows(pool, include_str!("../sql/refusals.sql"), &params).await?;
        let told = rows.iter().map(|row| {
            let (name, word): (&str, &str) = (row.get(0), row.get(1));
            format!("the constraint {name} of {table} does not know {column} = '{word}'")
        });
        found.extend(told);
    }
    Ok(found)
}

fn tables_and_columns(types: &Types) -> Vec<Missing> {
    let mut found = Vec::new();
    for (table, columns) in TABLES {
        if !types.has(table, None) {
            let list: Vec<String> = columns.iter().map(|(name, kind)| format!("{name} {kind}")).collect();
            let sql = format!("CREATE TABLE IF NOT EXISTS {table} ({})", list.join(", "));
            found.push(Missing { what: format!("the table {table}"), sql });
            continue;
        }
        for (name, kind) in columns.iter().filter(|(name, _)| !types.has(table, Some(name))) {
            let kind = kind.replace(" PRIMARY KEY", "");
            let sql = format!("ALTER TABLE {table} ADD COLUMN IF NOT EXISTS {name} {kind}");
            found.push(Missing { what: format!("the column {name} of {table}"), sql });
        }
    }
    found
}

/// Adds what is missing, all or nothing, and says what it added. Safe to
/// repeat, and to run from several machines at once.
pub async fn migrate(pool: &Pool) -> Result<Vec<String>, DatabaseError> {
    let mut client = pool.get().await?;
    let transaction = client.transaction().await?;
    transaction.batch_execute("SELECT pg_advisory_xact_lock(hashtext('nurse-tour migrate'))").await?;
    // What another has just added is seen from here on.
    let missing = missing(pool).await?;
    for one in &missing {
        transaction
            .batch_execute(&one.sql)
            .await
            .map_err(|error| DatabaseError::migrating(&one.what, &error))?;
    }
    transaction.commit().await?;
    Ok(missing.into_iter().map(|one| one.what).collect())
}
