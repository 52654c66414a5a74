//! What a table lacks, in plain words.

use std::collections::HashMap;

use tokio_postgres::types::Type;

use super::columns::{Use, columns};
use super::mapping::Mapping;
use super::statements::{claim_index, quote};
use crate::error::Fault;
use crate::link::Link;

/// Something that a table lacks, and the SQL that would add it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What is missing or wrong.
    pub what: String,
    /// What would put it right; nothing when that is for a person to decide.
    pub sql: Option<String>,
    /// Whether the table can be worked all the same, only slower.
    pub only_slow: bool,
}

/// The columns of a table with their types; nothing when there is no such table.
pub(crate) async fn column_types(link: &Link, table: &str) -> Result<Option<HashMap<String, String>>, Fault> {
    let params: [crate::link::Param<'_>; 1] = [(&table, Type::TEXT)];
    let rows = link.rows(include_str!("../../sql/adopted/columns.sql"), &params).await?;
    let pairs = rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?)));
    let columns = pairs.collect::<Result<HashMap<String, String>, Fault>>()?;
    Ok((!columns.is_empty()).then_some(columns))
}

/// Everything that the mapping names and the table lacks.
pub(crate) async fn findings(link: &Link, mapping: &Mapping) -> Result<Vec<Finding>, Fault> {
    let table = &mapping.table;
    let Some(types) = column_types(link, table).await? else {
        let what = format!("there is no table {table}, or this role may not see it");
        return Ok(vec![Finding { what, sql: None, only_slow: false }]);
    };
    let mut found: Vec<Finding> = columns(mapping)
        .into_iter()
        .filter_map(|(column, used)| finding(table, column, used, &types))
        .collect();
    if found.is_empty() {
        let params: [crate::link::Param<'_>; 2] = [(table, Type::TEXT), (&mapping.status, Type::TEXT)];
        let row = link.row(include_str!("../../sql/adopted/indexed.sql"), &params).await?;
        if !row.try_get::<_, bool>(0)? {
            found.push(Finding {
                what: format!(
                    "no index of {table} is by {}: every claim reads the whole table",
                    mapping.status
                ),
                sql: Some(claim_index(mapping, &types)),
                only_slow: true,
            });
        }
    }
    Ok(found)
}

fn finding(table: &str, column: &str, used: Use, types: &HashMap<String, String>) -> Option<Finding> {
    let Some(found) = types.get(column) else {
        let add =
            new_type(used).map(|kind| format!("ALTER TABLE {table} ADD COLUMN {} {kind}", quote(column)));
        return Some(Finding { what: format!("{table} has no column {column}"), sql: add, only_slow: false });
    };
    let wrong = !takes(used, found);
    // A fence is a moment and more, which does not fit into less; what is counted in it so far does.
    let widens = used == Use::Fence && takes(Use::Number, found);
    let sql = widens.then(|| format!("ALTER TABLE {table} ALTER COLUMN {} TYPE bigint", quote(column)));
    let what = || format!("{table}.{column} is of type {found}; it must be {}", wanted(used));
    wrong.then(|| Finding { what: what(), sql, only_slow: false })
}

fn takes(used: Use, found: &str) -> bool {
    let text = is_text(found);
    match used {
        Use::Id => text || matches!(found, "uuid" | "bigint" | "integer" | "smallint"),
        Use::Text => text,
        Use::Time => text || found.starts_with("timestamp"),
        Use::Number => matches!(found, "bigint" | "integer" | "smallint"),
        Use::Fence => found == "bigint",
        Use::Output => text || matches!(found, "json" | "jsonb"),
        Use::Field | Use::Any => true,
    }
}

fn wanted(used: Use) -> &'static str {
    match used {
        Use::Id => "text, uuid or an integer",
        Use::Text => "text",
        Use::Time => "timestamp with time zone, or text",
        Use::Number => "an integer",
        Use::Fence => "bigint",
        Use::Output => "text, json or jsonb",
        Use::Field | Use::Any => "anything",
    }
}

/// The type of a column that is added; nothing when only its owner can know.
fn new_type(used: Use) -> Option<&'static str> {
    match used {
        Use::Text => Some("text"),
        Use::Time => Some("timestamptz"),
        Use::Number | Use::Fence => Some("bigint NOT NULL DEFAULT 0"),
        Use::Output => Some("jsonb"),
        Use::Id | Use::Field | Use::Any => None,
    }
}

pub(crate) fn is_text(found: &str) -> bool {
    found == "text" || found.starts_with("character")
}
