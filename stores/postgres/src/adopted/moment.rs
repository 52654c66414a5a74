//! How moments are read from a table, and written into it.

/// A day that there is: a text that only looks like one must not make a whole claim fail.
const DAY: &str = "([12]\\d{3}-?((0[13578]|1[02])-?(0[1-9]|[12]\\d|3[01])|(0[469]|11)-?(0[1-9]|[12]\\d|30)\
     |02-?(0[1-9]|1\\d|2[0-8]))|[12]\\d(0[48]|[2468][048]|[13579][26])-?02-?29|(1[26]|2[048])00-?02-?29)";
/// A time of day.
const TIME: &str = "[T ]([01]\\d|2[0-3]):?[0-5]\\d(:?[0-5]\\d([.,]\\d{1,9})?)?";
/// A zone.
const ZONE: &str = "([Zz]|[+-](0\\d|1[0-4])(:?[0-5]\\d)?)";

/// The time of a statement: the one that a test gave, or the database's.
pub(crate) const NOW: &str = "coalesce(to_timestamp($1::bigint / 1000.0), clock_timestamp())";

/// A column as a moment. Text may have any ISO form, and is UTC without a
/// zone; text that is no moment counts as none.
pub(crate) fn read(column: &str, text: bool) -> String {
    if !text {
        return column.to_owned();
    }
    let clean = format!("btrim(replace({column}, ',', '.'))");
    format!(
        "(CASE WHEN {column} ~ '^\\s*{DAY}\\s*$' THEN ({clean} || ' 00:00:00+00')::timestamptz \
         WHEN {column} ~ '^\\s*{DAY}{TIME}\\s*{ZONE}\\s*$' THEN {clean}::timestamptz \
         WHEN {column} ~ '^\\s*{DAY}{TIME}\\s*$' THEN ({clean} || '+00')::timestamptz END)"
    )
}

/// How a moment is written: RFC 3339 in UTC where the column is text.
pub(crate) fn write(expression: &str, text: bool) -> String {
    if text {
        format!("to_char(({expression}) AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"')")
    } else {
        format!("({expression})")
    }
}
