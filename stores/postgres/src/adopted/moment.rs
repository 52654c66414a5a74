//! How moments are read from a table, and written into it.

use super::check::is_text;

/// A day that there is: a text that only looks like one must not make a whole claim fail.
const DAY: &str = "([12]\\d{3}-?((0[13578]|1[02])-?(0[1-9]|[12]\\d|3[01])|(0[469]|11)-?(0[1-9]|[12]\\d|30)\
     |02-?(0[1-9]|1\\d|2[0-8]))|[12]\\d(0[48]|[2468][048]|[13579][26])-?02-?29|(1[26]|2[048])00-?02-?29)";
/// A time of day.
const TIME: &str = "[T ]([01]\\d|2[0-3]):?[0-5]\\d(:?[0-5]\\d([.,]\\d{1,9})?)?";
/// A zone.
const ZONE: &str = "([Zz]|[+-](0\\d|1[0-4])(:?[0-5]\\d)?)";

/// The time of a statement: the one that a test gave, or the database's.
pub(crate) const NOW: &str = "coalesce(to_timestamp($1::bigint / 1000.0), clock_timestamp())";

/// How a column keeps a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// As text.
    Text,
    /// As a time without a zone, which is UTC.
    Plain,
    /// As a time with its zone.
    Zoned,
}

impl Form {
    /// The form of a column of this type.
    pub(crate) fn of(kind: Option<&str>) -> Self {
        match kind {
            Some(kind) if is_text(kind) => Self::Text,
            Some(kind) if kind.ends_with("without time zone") => Self::Plain,
            _ => Self::Zoned,
        }
    }
}

/// A column as a moment. Text may have any ISO form, and is UTC without a
/// zone; text that is no moment counts as none.
pub(crate) fn read(column: &str, form: Form, function: Option<&str>) -> String {
    match (form, function) {
        (Form::Zoned, _) => column.to_owned(),
        (Form::Plain, _) => format!("({column} AT TIME ZONE 'UTC')"),
        (Form::Text, Some(function)) => format!("{function}({column})"),
        (Form::Text, None) => spelled(column),
    }
}

/// Without a function: the forms one after the other.
fn spelled(column: &str) -> String {
    let clean = format!("btrim(replace({column}, ',', '.'))");
    format!(
        "(CASE WHEN {column} ~ '^\\s*{DAY}\\s*$' THEN ({clean} || ' 00:00:00+00')::timestamptz \
         WHEN {column} ~ '^\\s*{DAY}{TIME}\\s*{ZONE}\\s*$' THEN {clean}::timestamptz \
         WHEN {column} ~ '^\\s*{DAY}{TIME}\\s*$' THEN ({clean} || '+00')::timestamptz END)"
    )
}

/// How a moment is written: RFC 3339 in UTC where the column is text.
pub(crate) fn write(expression: &str, form: Form) -> String {
    match form {
        Form::Text => {
            format!("to_char(({expression}) AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"')")
        }
        Form::Plain => format!("(({expression}) AT TIME ZONE 'UTC')"),
        Form::Zoned => format!("({expression})"),
    }
}
