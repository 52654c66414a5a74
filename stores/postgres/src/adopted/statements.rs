//! The statements for one table, made from the templates in `sql/adopted`.

use std::collections::HashMap;

use super::check::is_text;
use super::mapping::{Mapping, Stage};

/// The statements for one table.
pub(crate) struct Statements {
    names: Vec<(&'static str, String)>,
    pub(crate) claim: String,
    pub(crate) again: String,
    pub(crate) settled: String,
    pub(crate) expire: String,
    pub(crate) next_expiry: String,
    next_attempt_text: bool,
    locked_until_text: bool,
    /// Which output columns are text, not JSON, by column.
    pub(crate) text_columns: Vec<String>,
}

/// A moment of text in any ISO form; without a zone it is UTC. Text that is no
/// moment counts as none.
const MOMENT_OF_TEXT: &str = "CASE WHEN {c} ~ '^\\s*\\d{4}-?\\d\\d-?\\d\\d\\s*$' THEN (btrim({c}) || ' 00:00:00+00')::timestamptz \
     WHEN {c} ~ '^\\s*\\d{4}-?\\d\\d-?\\d\\d[T ]\\d\\d(:?\\d\\d(:?\\d\\d([.,]\\d+)?)?)?\\s*([Zz]|[+-]\\d\\d(:?\\d\\d)?)\\s*$' \
     THEN replace({c}, ',', '.')::timestamptz \
     WHEN {c} ~ '^\\s*\\d{4}-?\\d\\d-?\\d\\d[T ]\\d\\d(:?\\d\\d(:?\\d\\d([.,]\\d+)?)?)?\\s*$' \
     THEN (btrim(replace({c}, ',', '.')) || '+00')::timestamptz END";

/// The time of a statement: the one that a test gave, or the database's.
const NOW: &str = "coalesce(to_timestamp($1::bigint / 1000.0), clock_timestamp())";

impl Statements {
    pub(crate) fn of(mapping: &Mapping, types: &HashMap<String, String>) -> Self {
        let is_text_column = |column: &str| types.get(column).is_some_and(|found| is_text(found));
        let next_attempt_text = is_text_column(&mapping.next_attempt);
        let locked_until_text = is_text_column(&mapping.locked_until);
        let lock_end = moment("moment.now + $6::bigint * interval '1 millisecond'", locked_until_text);
        let order = quote(mapping.order.as_ref().unwrap_or(&mapping.id));
        let of = |column: &str| format!("t.{}", quote(column));
        let number = |column: &Option<String>, none: &str| {
            column.as_ref().map_or(none.to_owned(), |column| format!("coalesce({}, 0)", of(column)))
        };
        let crashes = number(&mapping.crashes, "0");
        let set_error = |text: &str| {
            mapping.error.as_ref().map_or(String::new(), |column| format!(", {} = {text}", quote(column)))
        };
        let crash = mapping.crashes.as_ref();
        let names = vec![
            ("{now}", NOW.to_owned()),
            ("{table}", mapping.table.clone()),
            ("{id}", quote(&mapping.id)),
            ("{id_type}", types.get(&mapping.id).cloned().unwrap_or_else(|| "text".to_owned())),
            ("{status}", quote(&mapping.status)),
            ("{owner}", quote(&mapping.owner)),
            ("{tries}", quote(&mapping.tries)),
            ("{running}", literal(&mapping.words.running)),
            ("{failed}", literal(&mapping.words.failed)),
            ("{retry}", literal(&mapping.words.retry)),
            ("{next_attempt}", read_moment(&of(&mapping.next_attempt), next_attempt_text)),
            ("{locked_until}", read_moment(&of(&mapping.locked_until), locked_until_text)),
            ("{locked_until_column}", quote(&mapping.locked_until)),
            ("{lock_end}", lock_end),
            ("{order}", format!("t.{order}, t.{}", quote(&mapping.id))),
            ("{order_text}", format!("t.{order}")),
            ("{predicate}", mapping.predicate.clone().unwrap_or_else(|| "true".to_owned())),
            ("{payload}", payload(mapping)),
            ("{fence}", number(&mapping.fence, "0")),
            (
                "{fence_is}",
                mapping.fence.as_ref().map_or("$4::bigint IS NOT NULL".to_owned(), |column| {
                    format!("{} = $4::bigint", of(column))
                }),
            ),
            (
                "{set_fence}",
                mapping.fence.as_ref().map_or(String::new(), |column| {
                    format!(", {} = coalesce({}, 0) + 1", quote(column), of(column))
                }),
            ),
            ("{crashes}", crashes.clone()),
            (
                "{crashes_left}",
                format!(
                    "(CASE WHEN t.{} = {} THEN {crashes} + 1 < {} ELSE true END)",
                    quote(&mapping.status),
                    literal(&mapping.words.running),
                    mapping.crashes_max
                ),
            ),
            (
                "{set_crashes}",
                crash.map_or(String::new(), |column| {
                    format!(
                        ", {} = CASE WHEN due.crashed THEN {crashes} + 1 ELSE {crashes} END",
                        quote(column)
                    )
                }),
            ),
            (
                "{add_crash}",
                crash.map_or(String::new(), |column| format!(", {} = {crashes} + 1", quote(column))),
            ),
            ("{set_crash_error}", set_error(&literal(windlass_core::transition::LEASE_RAN_OUT))),
            ("{stage}", mapping.stage.as_ref().map_or("NULL".to_owned(), |stage| of(&stage.column))),
            ("{outputs}", outputs(mapping.stage.as_ref())),
        ];
        let text_columns =
            mapping.stage.iter().flat_map(|stage| &stage.steps).filter_map(|step| step.output.clone());
        let text_columns = text_columns.filter(|column| is_text_column(column)).collect();
        Self {
            claim: fill(include_str!("../../sql/adopted/claim.sql"), &names),
            again: fill(include_str!("../../sql/adopted/again.sql"), &names),
            settled: fill(include_str!("../../sql/adopted/settled.sql"), &names),
            expire: fill(include_str!("../../sql/adopted/expire.sql"), &names),
            next_expiry: fill(include_str!("../../sql/adopted/next_expiry.sql"), &names),
            names,
            next_attempt_text,
            locked_until_text,
            text_columns,
        }
    }

    /// A guarded write that sets these columns; its own parameters begin with `$5`.
    pub(crate) fn write(&self, set: &str) -> String {
        fill(&include_str!("../../sql/adopted/write.sql").replace("{set}", set), &self.names)
    }

    /// The value of the lock's column, `$5` milliseconds from now.
    pub(crate) fn new_lock(&self) -> String {
        moment("m.now + $5::bigint * interval '1 millisecond'", self.locked_until_text)
    }

    /// The value of the next attempt's column, at the milliseconds of a parameter.
    pub(crate) fn next_attempt(&self, parameter: &str) -> String {
        moment(&format!("to_timestamp({parameter}::bigint / 1000.0)"), self.next_attempt_text)
    }
}

fn fill(template: &str, names: &[(&'static str, String)]) -> String {
    names.iter().fold(template.to_owned(), |sql, (name, value)| sql.replace(name, value))
}

/// How a moment is written: RFC 3339 in UTC where the column is text.
fn moment(expression: &str, text: bool) -> String {
    if text {
        format!("to_char(({expression}) AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"')")
    } else {
        format!("({expression})")
    }
}

fn read_moment(column: &str, text: bool) -> String {
    if text { format!("({})", MOMENT_OF_TEXT.replace("{c}", column)) } else { column.to_owned() }
}

fn payload(mapping: &Mapping) -> String {
    let pairs = mapping.payload.iter().map(|column| format!("{}, t.{}", literal(column), quote(column)));
    format!("json_build_object({})", pairs.collect::<Vec<_>>().join(", "))
}

fn outputs(stage: Option<&Stage>) -> String {
    let steps = stage.map(|stage| stage.steps.as_slice()).unwrap_or_default();
    let output = |step: &super::mapping::StepColumn| {
        step.output.as_ref().map_or("NULL".to_owned(), |column| format!("t.{}::text", quote(column)))
    };
    format!("ARRAY[{}]", steps.iter().map(output).collect::<Vec<_>>().join(", "))
}

/// A name as SQL.
pub(crate) fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A text as SQL.
pub(crate) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
