//! Whether what is there is what is needed: types, columns that must be filled, constraints that refuse our words.
//!
//! What this deliberately does not do: it puts nothing right. The tables are somebody else's.

use deadpool_postgres::Pool;
use tokio_postgres::types::Type;

use crate::database::{self, DatabaseError, Param};
use crate::mapping::MESSAGES;
use crate::schema::{DOCUMENTS, SESSIONS, TABLES, WORDS};
use crate::types::{Found, Types};

/// What a column may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fit {
    /// Text.
    Text,
    /// An id: text, a UUID or an integer.
    Id,
    /// The id of rows that are made here: text, a UUID, or an integer that counts by itself.
    NewId,
    /// One of a few words: text or an enum.
    Word,
    /// A list: JSON, text that holds it, or an array.
    List,
    /// An object: JSON, or text that holds it.
    Object,
    /// A day.
    Date,
    /// A moment.
    Moment,
    /// A number.
    Number,
    /// What the store that works the table looks at by itself.
    Source,
}

impl Fit {
    fn takes(self, found: &Found) -> bool {
        let kind = found.kind.as_str();
        let json = matches!(kind, "json" | "jsonb");
        match self {
            Self::Text => found.is_text(),
            Self::Id => found.is_text() || found.is_integer() || kind == "uuid",
            Self::NewId => Types::takes_new_id(found),
            Self::Word => found.is_text() || found.words.is_some(),
            Self::List => found.is_text() || json || is_list(kind),
            Self::Object => found.is_text() || json,
            Self::Date => found.is_text() || kind == "date" || kind.starts_with("timestamp"),
            Self::Moment => found.is_text() || kind.starts_with("timestamp"),
            Self::Number => found.is_text() || found.is_integer() || kind.starts_with("numeric"),
            Self::Source => true,
        }
    }

    fn wanted(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Id => "text, uuid or an integer",
            Self::NewId => "text of at least 36 letters, uuid, or an integer with a sequence",
            Self::Word => "text, or an enum",
            Self::List => "jsonb, json, text, text[] or jsonb[]",
            Self::Object => "jsonb, json or text",
            Self::Date => "date, a timestamp or text",
            Self::Moment => "a timestamp or text",
            Self::Number => "an integer",
            Self::Source => "what the store says",
        }
    }
}

fn is_list(kind: &str) -> bool {
    let item = kind.strip_suffix("[]").unwrap_or_default();
    matches!(item, "text" | "json" | "jsonb") || item.starts_with("character varying")
}

/// What would make every message fail, or every call of the webhook. Only the owner of the tables can put it right.
pub async fn wrong(pool: &Pool) -> Result<Vec<String>, DatabaseError> {
    let types = Types::read(pool).await?;
    let mut found = misfits(&types);
    for table in [DOCUMENTS, SESSIONS, MESSAGES] {
        let row = database::row(pool, include_str!("../sql/filled.sql"), &[(&table, Type::TEXT)]).await?;
        let (inserted, updated): (bool, bool) = (row.get(0), row.get(1));
        if !inserted {
            found.extend(unfilled(&types, table));
        }
        if table == MESSAGES && !updated {
            found.extend(emptied(&types));
        }
    }
    Ok(found)
}

/// Columns that the store works with, seen from their types alone: for a table that is not whole yet.
pub async fn unfit_for_the_store(pool: &Pool) -> Result<Vec<String>, DatabaseError> {
    let types = Types::read(pool).await?;
    let fits = |name: &str| match name {
        "locked_until" | "next_attempt_at" => Fit::Moment,
        "retry_count" | "crash_count" | "fence" => Fit::Number,
        "processing_status" | "current_stage" => Fit::Word,
        _ => Fit::Text,
    };
    let (_, columns) = TABLES[0];
    let of_store = columns.iter().filter(|(_, _, fit)| *fit == Fit::Source);
    let found = of_store.filter_map(|(name, _, _)| Some((name, types.of(MESSAGES, name)?)));
    let unfit = found.filter(|(name, found)| !fits(name).takes(found));
    Ok(unfit
        .map(|(name, found)| {
            format!("{MESSAGES}.{name} is of type {}; it must be {}", found.kind, fits(name).wanted())
        })
        .collect())
}

fn misfits(types: &Types) -> Vec<String> {
    let mut wrong = Vec::new();
    for (table, columns) in TABLES {
        for (column, _, fit) in columns {
            let Some(found) = types.of(table, column) else { continue };
            if !fit.takes(found) {
                wrong.push(format!(
                    "{table}.{column} is of type {}; it must be {}",
                    found.kind,
                    fit.wanted()
                ));
            }
            // Nobody knows whom some notes are about; as text that is an empty one, which is nobody's id.
            if table == DOCUMENTS && *column == "patient_id" && found.not_null {
                if found.points {
                    wrong.push(format!(
                        "{table}.{column} must be filled and points to another table; allow NULL, since some notes are \
                         about nobody who is known"
                    ));
                } else if !found.is_text() {
                    wrong.push(format!("{table}.{column} must be filled; it must be text, or allow NULL"));
                }
            }
        }
    }
    wrong
}

/// Columns that must be filled, and that neither we nor they themselves fill.
fn unfilled(types: &Types, table: &str) -> Vec<String> {
    let ours = TABLES.iter().find(|(name, _)| *name == table).map_or(&[][..], |(_, columns)| columns);
    let left = |column: &str| match table {
        // What the webhook inserts; the rest of the columns comes later.
        MESSAGES => !WEBHOOK_COLUMNS.contains(&column) && !EMPTIED.contains(&column),
        _ => !ours.iter().any(|(name, _, _)| *name == column) || MAY_BE_NULL.contains(&(table, column)),
    };
    let mut found: Vec<String> = types
        .columns(table)
        .filter(|(column, found)| found.not_null && !found.has_default && left(column))
        .map(|(column, _)| {
            format!(
                "{table}.{column} must be filled (NOT NULL) and has no default; give it one, or allow NULL"
            )
        })
        .collect();
    found.sort();
    found
}

/// Columns that must be filled, and that are emptied when a message ends or is tried again: no default helps there.
fn emptied(types: &Types) -> Vec<String> {
    let must = |column: &&&str| types.of(MESSAGES, column).is_some_and(|found| found.not_null);
    let told = |column: &&str| {
        format!("{MESSAGES}.{column} must be filled (NOT NULL), and NULL is written into it; allow NULL")
    };
    EMPTIED.iter().filter(must).map(told).collect()
}

/// What the worker empties in a message.
const EMPTIED: [&str; 5] = ["failed_reason", "failed_stage", "locked_by", "locked_until", "next_attempt_at"];
/// What the webhook fills when it inserts a message.
const WEBHOOK_COLUMNS: [&str; 8] = [
    "message_sid",
    "from_number",
    "message_type",
    "body",
    "received_at",
    "current_stage",
    "retry_count",
    "fence",
];
/// What is not in every document, or not in every session: then its default is taken.
const MAY_BE_NULL: [(&str, &str); 6] = [
    (DOCUMENTS, "translated_content_de"),
    (DOCUMENTS, "translated_content_en"),
    (DOCUMENTS, "translated_content_ar"),
    (DOCUMENTS, "translated_content_tr"),
    (DOCUMENTS, "original_language"),
    (SESSIONS, "patient_name"),
];

/// Constraints and enums of the other application that would refuse a word of ours. Only their owner can change them.
pub async fn refusals(pool: &Pool) -> Result<Vec<String>, DatabaseError> {
    let types = Types::read(pool).await?;
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
        found.extend(unknown(&types, table, column, words));
    }
    Ok(found)
}

/// Of those what no message could be claimed or end with, and what is certain: a constraint may be about other rows.
pub async fn unknown_words(pool: &Pool) -> Result<Vec<String>, DatabaseError> {
    let types = Types::read(pool).await?;
    let of_messages = WORDS.into_iter().filter(|(table, _, _)| *table == MESSAGES);
    Ok(of_messages.flat_map(|(table, column, words)| unknown(&types, table, column, words)).collect())
}

/// Words that an enum does not know, or that are too long for their column.
fn unknown(types: &Types, table: &str, column: &str, words: &[&str]) -> Vec<String> {
    let Some(found) = types.of(table, column) else { return Vec::new() };
    let mut told = Vec::new();
    if let Some(known) = &found.words {
        let unknown = words.iter().filter(|word| !known.iter().any(|known| known == *word));
        told.extend(unknown.map(|word| format!("the enum of {table}.{column} does not know '{word}'")));
    }
    let longest = words.iter().max_by_key(|word| word.len());
    if let (Some(chars), Some(word)) = (found.chars_max(), longest)
        && word.len() > chars
    {
        told.push(format!("{table}.{column} holds {chars} letters; '{word}' has more"));
    }
    told
}
