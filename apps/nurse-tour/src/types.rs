//! The columns that the tables really have, and how a value is written into each.

use std::collections::HashMap;

use deadpool_postgres::Pool;
use tokio_postgres::types::Type;

use crate::database::{self, DatabaseError};
use crate::mapping::{MESSAGES, MOMENT};
use crate::schema::TABLES;

/// How long the id of a document is that is made of a message's: `pd_` and 34 letters.
const MADE_ID_CHARS: usize = 37;
/// How long a UUID is as text.
const UUID_CHARS: usize = 36;

/// A column as it is.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    /// Its type, as Postgres writes it.
    pub(crate) kind: String,
    /// Whether it must be filled.
    pub(crate) not_null: bool,
    /// Whether it is filled by itself.
    pub(crate) has_default: bool,
    /// The sequence that its default takes numbers from.
    pub(crate) sequence: Option<String>,
    /// The words that it knows, when it is an enum.
    pub(crate) words: Option<Vec<String>>,
    /// What it is filled with by itself, as SQL.
    pub(crate) default: Option<String>,
    /// Whether it names a row of another table.
    pub(crate) points: bool,
}

impl Found {
    pub(crate) fn is_text(&self) -> bool {
        self.kind == "text" || self.kind.starts_with("character")
    }

    pub(crate) fn is_integer(&self) -> bool {
        matches!(self.kind.as_str(), "bigint" | "integer" | "smallint")
    }

    /// How many letters it holds at most, when that is limited.
    pub(crate) fn chars_max(&self) -> Option<usize> {
        self.kind.strip_prefix("character varying(")?.strip_suffix(')')?.parse().ok()
    }
}

/// The columns of the tables that the worker knows.
#[derive(Debug, Clone, Default)]
pub struct Types(HashMap<(String, String), Found>);

impl Types {
    /// Reads them.
    pub async fn read(pool: &Pool) -> Result<Self, DatabaseError> {
        let tables: Vec<&str> = TABLES.iter().map(|(table, _)| *table).collect();
        let rows =
            database::rows(pool, include_str!("../sql/types.sql"), &[(&tables, Type::TEXT_ARRAY)]).await?;
        let found = rows.iter().map(|row| {
            let found = Found {
                kind: row.get(2),
                not_null: row.get(3),
                has_default: row.get(4),
                sequence: row.get(6),
                words: row.get(7),
                default: row.get(8),
                points: row.get(9),
            };
            ((row.get(0), row.get(1)), found)
        });
        Ok(Self(found.collect()))
    }

    /// A moment as a column takes it: RFC 3339 in UTC where it is text.
    pub fn moment(&self, table: &str, column: &str, expression: &str) -> String {
        match self.kind(table, column) {
            kind if kind.ends_with("without time zone") => format!("(({expression}) AT TIME ZONE 'UTC')"),
            kind if kind.starts_with("timestamp") => expression.to_owned(),
            _ => {
                format!("to_char(({expression}) AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"')")
            }
        }
    }

    /// A day as a column takes it, from text such as `2026-01-31`.
    pub(crate) fn day(&self, table: &str, column: &str, expression: &str) -> String {
        match self.kind(table, column) {
            kind if kind.ends_with("with time zone") => {
                format!("(({expression})::timestamp AT TIME ZONE 'UTC')")
            }
            kind if self.is_text(table, column) || kind.is_empty() => format!("({expression})"),
            kind => format!("({expression})::{kind}"),
        }
    }

    /// An id or a word as a column takes it, from text. Where it cannot be an empty text it is missing instead.
    pub(crate) fn word(&self, table: &str, column: &str, expression: &str) -> String {
        match self.is_text(table, column) {
            true => format!("({expression})"),
            false => format!("nullif({expression}, '')::{}", self.kind(table, column)),
        }
    }

    /// A value that may be missing, for a column that must be filled: then it is the column's own default.
    pub(crate) fn or_default(&self, table: &str, column: &str, expression: &str) -> String {
        match self.of(table, column) {
            Some(Found { not_null: true, default: Some(default), .. }) => {
                format!("coalesce({expression}, {default})")
            }
            _ => expression.to_owned(),
        }
    }

    /// The patient of a document. Where the column only takes the ids of patients, nobody is NULL, else an empty text.
    pub(crate) fn patient(&self, table: &str, column: &str, expression: &str) -> String {
        match self.of(table, column) {
            Some(found) if found.points && found.is_text() => format!("nullif({expression}, '')"),
            _ => self.word(table, column, &format!("coalesce({expression}, '')")),
        }
    }

    /// JSON as a column takes it: as JSON, as text that holds it, or a list as an array.
    pub(crate) fn json(&self, table: &str, column: &str, expression: &str) -> String {
        let kind = self.kind(table, column);
        match kind.strip_suffix("[]") {
            Some("json" | "jsonb") => {
                format!("ARRAY(SELECT e FROM jsonb_array_elements({expression}) AS l (e))::{kind}")
            }
            Some(_) => {
                format!("ARRAY(SELECT e FROM jsonb_array_elements_text({expression}) AS l (e))::{kind}")
            }
            // A cast to a shorter text would cut it off in silence.
            None if self.is_text(table, column) => format!("({expression})::text"),
            None => format!("({expression})::{kind}"),
        }
    }

    /// A message's column of time as a moment, as the store reads it: what an index keeps must be the same.
    pub(crate) fn read_moment(&self, column: &str) -> String {
        match self.kind(MESSAGES, column) {
            kind if kind.ends_with("without time zone") => format!("({column} AT TIME ZONE 'UTC')"),
            kind if kind.starts_with("timestamp") => column.to_owned(),
            _ => format!("{MOMENT}({column})"),
        }
    }

    /// The id, as text, of a new row for a message whose id is `sid`: made of that, or as the column makes its own.
    /// A message that is worked again gets the same, but for numbers, which are drawn anew.
    pub(crate) fn new_id(&self, table: &str, prefix: &str, sid: &str) -> String {
        let uuid = format!("md5('{prefix}' || {sid})::uuid::text");
        match self.of(table, "id") {
            Some(found) if found.kind == "uuid" => uuid,
            Some(found) if found.chars_max().is_some_and(|chars| chars < MADE_ID_CHARS) => uuid,
            Some(Found { sequence: Some(sequence), .. }) => {
                format!("nextval('{}'::regclass)::text", sequence.replace('\'', "''"))
            }
            _ => format!("'{prefix}' || {sid}"),
        }
    }

    /// Whether [`Types::new_id`] gives something that the column takes.
    pub(crate) fn takes_new_id(found: &Found) -> bool {
        match found.is_integer() {
            true => found.sequence.is_some(),
            false => {
                found.kind == "uuid"
                    || found.is_text() && found.chars_max().is_none_or(|chars| chars >= UUID_CHARS)
            }
        }
    }

    /// The name of the patient `p`, by whatever columns the table of patients has for it.
    pub(crate) fn name_of_patient(&self) -> String {
        let has = |column: &str| self.has("patients", Some(column));
        let whole = ["name", "full_name", "patient_name"].into_iter().find(|column| has(column));
        let name = match whole {
            Some(column) => format!("p.{column}::text"),
            None if has("first_name") && has("last_name") => {
                "concat_ws(' ', p.first_name::text, p.last_name::text)".to_owned()
            }
            None => return "NULL".to_owned(),
        };
        format!("(SELECT nullif(btrim({name}), '') FROM patients p WHERE p.id::text = $4)")
    }

    pub(crate) fn of(&self, table: &str, column: &str) -> Option<&Found> {
        self.0.get(&(table.to_owned(), column.to_owned()))
    }

    /// The columns of a table.
    pub(crate) fn columns<'a>(&'a self, table: &'a str) -> impl Iterator<Item = (&'a str, &'a Found)> {
        self.0.iter().filter(move |((of, _), _)| of == table).map(|((_, name), found)| (name.as_str(), found))
    }

    pub(crate) fn has(&self, table: &str, column: Option<&str>) -> bool {
        self.0.keys().any(|(found, name)| found == table && column.is_none_or(|column| name == column))
    }

    fn kind(&self, table: &str, column: &str) -> &str {
        self.of(table, column).map_or("text", |found| found.kind.as_str())
    }

    fn is_text(&self, table: &str, column: &str) -> bool {
        self.of(table, column).is_none_or(Found::is_text)
    }
}
