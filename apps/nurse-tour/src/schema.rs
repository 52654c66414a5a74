//! What the database must have: what is missing, and how it is added.
//!
//! The tables belong to the other application. Whatever is there stays as it
//! is; what is missing is added, and nothing is ever taken away or changed.

use deadpool_postgres::Pool;
use tokio_postgres::types::Type;

use crate::database::{self, DatabaseError, Param};
use crate::fit::Fit;
pub use crate::fit::{refusals, unfit_for_the_store, unknown_words, wrong};
use crate::mapping::{MESSAGES, MOMENT};
pub use crate::migrate::migrate;
pub use crate::types::Types;

/// A column: its name, how it is added, and what it may be when it is there.
pub(crate) type Column = (&'static str, &'static str, Fit);

/// The table of documents.
pub(crate) const DOCUMENTS: &str = "pending_care_documentations";
/// The table of care sessions.
pub(crate) const SESSIONS: &str = "whatsapp_care_sessions";

/// The tables that a worker reads or writes, with the columns that each must have.
pub(crate) const TABLES: [(&str, &[Column]); 8] = [
    (MESSAGES, &MESSAGE_COLUMNS),
    (DOCUMENTS, &DOCUMENT_COLUMNS),
    (SESSIONS, &SESSION_COLUMNS),
    ("patient_qr_codes", &[("patient_id", "TEXT", Fit::Id), ("agency_id", "TEXT", Fit::Id)]),
    ("patients", &[("id", "TEXT PRIMARY KEY", Fit::Id), ("agency_id", "TEXT", Fit::Id)]),
    ("nurse_tour_audit", &AUDIT_COLUMNS),
    ("nurse_tour_cool_downs", &COOL_DOWN_COLUMNS),
    ("nurse_tour_stops", &STOP_COLUMNS),
];

const COOL_DOWN_COLUMNS: [Column; 4] = [
    ("name", "TEXT PRIMARY KEY", Fit::Text),
    ("until", "TIMESTAMPTZ NOT NULL", Fit::Moment),
    ("why", "TEXT", Fit::Text),
    ("trial_until", "TIMESTAMPTZ", Fit::Moment),
];

const STOP_COLUMNS: [Column; 5] = [
    ("worker", "TEXT NOT NULL", Fit::Text),
    ("provider", "TEXT NOT NULL", Fit::Text),
    ("why", "TEXT", Fit::Text),
    ("since", "TIMESTAMPTZ NOT NULL", Fit::Moment),
    ("until", "TIMESTAMPTZ NOT NULL", Fit::Moment),
];

const MESSAGE_COLUMNS: [Column; 34] = [
    ("message_sid", "TEXT PRIMARY KEY", Fit::Source),
    ("from_number", "TEXT", Fit::Text),
    ("agency_id", "TEXT", Fit::Id),
    ("message_type", "TEXT", Fit::Text),
    ("media_url", "TEXT", Fit::Text),
    ("media_blob_id", "TEXT", Fit::Text),
    ("current_stage", "TEXT", Fit::Source),
    ("status", "TEXT", Fit::Word),
    ("processing_status", "TEXT", Fit::Source),
    ("transcript_text", "TEXT", Fit::Text),
    ("analysis_json", "TEXT", Fit::Object),
    ("failed_stage", "TEXT", Fit::Text),
    ("failed_reason", "TEXT", Fit::Source),
    ("retry_count", "INTEGER DEFAULT 0", Fit::Source),
    ("received_at", "TEXT", Fit::Moment),
    ("processed_at", "TEXT", Fit::Moment),
    ("body", "TEXT", Fit::Text),
    ("profile_name", "TEXT", Fit::Text),
    ("locked_by", "TEXT", Fit::Source),
    ("locked_until", "TEXT", Fit::Source),
    ("next_attempt_at", "TEXT", Fit::Source),
    ("fence", "BIGINT NOT NULL DEFAULT 0", Fit::Source),
    ("crash_count", "INTEGER NOT NULL DEFAULT 0", Fit::Source),
    ("claim_id", "TEXT", Fit::Source),
    ("audio_bytes", "BIGINT", Fit::Number),
    ("audio_sha256", "TEXT", Fit::Text),
    ("audio_type", "TEXT", Fit::Text),
    ("patient_id", "TEXT", Fit::Id),
    ("patient_name", "TEXT", Fit::Text),
    ("care_session_id", "TEXT", Fit::Id),
    ("transcript_language", "TEXT", Fit::Text),
    ("transcript_model", "TEXT", Fit::Text),
    ("analysis_model", "TEXT", Fit::Text),
    ("document_id", "TEXT", Fit::Id),
];

const DOCUMENT_COLUMNS: [Column; 18] = [
    ("id", "TEXT PRIMARY KEY", Fit::NewId),
    ("phone_number", "TEXT", Fit::Text),
    ("patient_id", "TEXT", Fit::Id),
    ("patient_name", "TEXT", Fit::Text),
    ("service_date", "TEXT", Fit::Date),
    ("raw_content", "TEXT", Fit::Text),
    ("translated_content_de", "TEXT", Fit::Text),
    ("translated_content_en", "TEXT", Fit::Text),
    ("translated_content_ar", "TEXT", Fit::Text),
    ("translated_content_tr", "TEXT", Fit::Text),
    ("original_language", "TEXT", Fit::Text),
    ("kh_codes", "JSONB", Fit::List),
    ("structured_data", "JSONB", Fit::Object),
    ("alerts", "JSONB", Fit::List),
    ("status", "TEXT", Fit::Word),
    ("agency_id", "TEXT", Fit::Id),
    ("message_sid", "TEXT", Fit::Text),
    ("created_at", "TEXT", Fit::Moment),
];

const SESSION_COLUMNS: [Column; 6] = [
    ("id", "TEXT PRIMARY KEY", Fit::NewId),
    ("phone_number", "TEXT", Fit::Text),
    ("patient_id", "TEXT", Fit::Id),
    ("patient_name", "TEXT", Fit::Text),
    ("expires_at", "TEXT", Fit::Moment),
    ("created_at", "TEXT", Fit::Moment),
];

const AUDIT_COLUMNS: [Column; 19] = [
    ("seq", "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY", Fit::Number),
    ("message_sid", "TEXT NOT NULL", Fit::Text),
    ("at", "TIMESTAMPTZ NOT NULL", Fit::Moment),
    ("worker", "TEXT", Fit::Text),
    ("fence", "BIGINT", Fit::Number),
    ("from_stage", "TEXT", Fit::Text),
    ("to_stage", "TEXT", Fit::Text),
    ("from_status", "TEXT", Fit::Text),
    ("to_status", "TEXT", Fit::Text),
    ("attempt", "INTEGER", Fit::Number),
    ("outcome", "TEXT NOT NULL", Fit::Text),
    ("reason", "TEXT", Fit::Text),
    ("provider", "TEXT", Fit::Text),
    ("model", "TEXT", Fit::Text),
    ("prompt_sha256", "TEXT", Fit::Text),
    ("input_sha256", "TEXT", Fit::Text),
    ("output_sha256", "TEXT", Fit::Text),
    ("bytes", "BIGINT", Fit::Number),
    ("duration_ms", "BIGINT", Fit::Number),
];

/// Indexes by name: the seed's, and ours. None has a column that a stage writes, so that the write of a stage
/// need not touch them.
const INDEXES: [(&str, &str, &str); 9] = [
    (
        "idx_pending_docs_message_idempotent",
        DOCUMENTS,
        "CREATE UNIQUE INDEX IF NOT EXISTS idx_pending_docs_message_idempotent ON pending_care_documentations \
         (agency_id, message_sid) WHERE message_sid IS NOT NULL",
    ),
    (
        "idx_pending_docs_message",
        DOCUMENTS,
        "CREATE UNIQUE INDEX IF NOT EXISTS idx_pending_docs_message ON pending_care_documentations (message_sid) \
         WHERE message_sid IS NOT NULL",
    ),
    (
        "idx_whatsapp_messages_claim",
        MESSAGES,
        "CREATE INDEX IF NOT EXISTS idx_whatsapp_messages_claim ON whatsapp_inbound_messages \
         (processing_status, locked_until, next_attempt_at, received_at) WHERE message_type = 'voice'",
    ),
    // For the claim: oldest first, and last the moment from which a message may be claimed, so that those that wait or
    // are held are passed over without being read.
    (
        "idx_whatsapp_messages_due",
        MESSAGES,
        "CREATE INDEX IF NOT EXISTS idx_whatsapp_messages_due ON whatsapp_inbound_messages \
         ({received_at} NULLS FIRST, message_sid, coalesce(CASE WHEN processing_status = 'PROCESSING' THEN {locked_until} \
         ELSE {next_attempt_at} END, '-infinity'::timestamptz)) \
         WHERE processing_status IN ('READY', 'RETRY', 'PROCESSING') AND message_type = 'voice'",
    ),
    (
        "idx_whatsapp_messages_tries",
        MESSAGES,
        "CREATE INDEX IF NOT EXISTS idx_whatsapp_messages_tries ON whatsapp_inbound_messages (retry_count) \
         WHERE processing_status IN ('READY', 'RETRY') AND message_type = 'voice'",
    ),
    (
        "idx_nurse_tour_audit_at",
        "nurse_tour_audit",
        "CREATE INDEX IF NOT EXISTS idx_nurse_tour_audit_at ON nurse_tour_audit (at)",
    ),
    (
        "idx_nurse_tour_audit_message",
        "nurse_tour_audit",
        "CREATE INDEX IF NOT EXISTS idx_nurse_tour_audit_message ON nurse_tour_audit (message_sid, seq)",
    ),
    (
        "idx_whatsapp_care_sessions_phone",
        SESSIONS,
        "CREATE INDEX IF NOT EXISTS idx_whatsapp_care_sessions_phone ON whatsapp_care_sessions \
         (regexp_replace(phone_number, '^whatsapp:', ''))",
    ),
    (
        "idx_nurse_tour_stops",
        "nurse_tour_stops",
        "CREATE UNIQUE INDEX IF NOT EXISTS idx_nurse_tour_stops ON nurse_tour_stops (worker, provider)",
    ),
];

/// The rule that a message is there once, where the owner of the table has none.
const SID_INDEX: (&str, &str) = (
    "idx_whatsapp_messages_sid",
    "CREATE UNIQUE INDEX IF NOT EXISTS idx_whatsapp_messages_sid ON whatsapp_inbound_messages (message_sid)",
);

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
    /// Whether it is built beside the work of others, in a transaction of its own.
    pub beside: bool,
}

/// What is missing, in the order in which it is to be added. Changes nothing.
pub async fn missing(pool: &Pool) -> Result<Vec<Missing>, DatabaseError> {
    let types = Types::read(pool).await?;
    let mut found = tables_and_columns(&types);
    // Before the indexes, one of which keeps what a function answers.
    for (function, trigger, what, sql) in PROGRAMS {
        let params: [Param<'_>; 3] = [(&function, Type::TEXT), (&trigger, Type::TEXT), (&sql, Type::TEXT)];
        let row = database::row(pool, include_str!("../sql/program.sql"), &params).await?;
        if !row.get::<_, bool>(0) {
            let what = format!("{what}, as this version has it");
            found.push(Missing { what, sql: sql.to_owned(), beside: false });
        }
    }
    if types.has(MESSAGES, None) {
        let params: [Param<'_>; 2] = [(&MESSAGES, Type::TEXT), (&"message_sid", Type::TEXT)];
        let row = database::row(pool, include_str!("../sql/unique.sql"), &params).await?;
        if !row.get::<_, bool>(0) {
            let (name, sql) = SID_INDEX;
            found.extend(
                index(pool, &types, name, MESSAGES, sql, "the rule that message_sid is unique").await?,
            );
        }
    }
    for (name, table, sql) in INDEXES {
        found.extend(index(pool, &types, name, table, sql, &format!("the index {name}")).await?);
    }
    Ok(found)
}

/// An index that is missing, or whose building broke off.
async fn index(
    pool: &Pool,
    types: &Types,
    name: &str,
    table: &str,
    sql: &str,
    what: &str,
) -> Result<Vec<Missing>, DatabaseError> {
    let found = database::rows(pool, include_str!("../sql/index.sql"), &[(&name, Type::TEXT)]).await?;
    let usable = found.first().map(|row| row.get::<_, bool>(0));
    if usable == Some(true) {
        return Ok(Vec::new());
    }
    // A table that is made on the same occasion has no rows and nobody who works with it.
    let beside = types.has(table, None);
    let sql =
        ["received_at", "locked_until", "next_attempt_at"].into_iter().fold(sql.to_owned(), |sql, column| {
            sql.replace(&format!("{{{column}}}"), &types.read_moment(column))
        });
    let sql = if beside { sql.replacen("INDEX IF", "INDEX CONCURRENTLY IF", 1) } else { sql };
    let mut missing = Vec::new();
    if usable == Some(false) {
        let sql = format!("DROP INDEX CONCURRENTLY IF EXISTS {name}");
        missing.push(Missing { what: format!("{what}, without its broken predecessor"), sql, beside: true });
    }
    missing.push(Missing { what: what.to_owned(), sql, beside });
    Ok(missing)
}

/// The words that are written, and where.
pub(crate) const WORDS: [(&str, &str, &[&str]); 5] = [
    (MESSAGES, "processing_status", &["READY", "RETRY", "PROCESSING", "DONE", "FAILED", "TRIAGE"]),
    (MESSAGES, "status", &["completed"]),
    (
        MESSAGES,
        "current_stage",
        &["RECEIVED", "AUDIO_STORED", "TRANSCRIBED", "ANALYZED", "DOC_CREATED", "COMPLETED"],
    ),
    (MESSAGES, "failed_stage", &["AUDIO_STORED", "TRANSCRIBED", "ANALYZED", "DOC_CREATED", "COMPLETED"]),
    (DOCUMENTS, "status", &["pending", "triage"]),
];

fn tables_and_columns(types: &Types) -> Vec<Missing> {
    let mut found = Vec::new();
    for (table, columns) in TABLES {
        if !types.has(table, None) {
            let list: Vec<String> = columns.iter().map(|(name, kind, _)| format!("{name} {kind}")).collect();
            let sql = format!("CREATE TABLE IF NOT EXISTS {table} ({})", list.join(", "));
            found.push(Missing { what: format!("the table {table}"), sql, beside: false });
            continue;
        }
        for (name, kind, _) in columns.iter().filter(|(name, _, _)| !types.has(table, Some(name))) {
            let kind = kind.replace(" PRIMARY KEY", "");
            let sql = format!("ALTER TABLE {table} ADD COLUMN IF NOT EXISTS {name} {kind}");
            found.push(Missing { what: format!("the column {name} of {table}"), sql, beside: false });
        }
    }
    found
}
