//! When a row runs again. Mirrors `computeNextRunAt` of Agenda; where its versions differ, the row itself says which
//! one wrote it.

use jiff::civil::Time as ClockTime;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use mongodb::bson::{Bson, DateTime, Document};
use windlass_core::policy::cron::CronLine;
use windlass_core::time::Time;

use super::interval::interval_ms;

/// Agenda 6 looks this many days ahead for one that is not skipped.
const SKIP_DAYS_MAX: usize = 8;

/// What is known of when a row runs again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Next {
    /// Never: it runs once, or its end has come.
    Never,
    /// Then.
    At(DateTime),
    /// Nobody can tell, for this reason; Agenda notes it as a failure and runs the row all the same.
    Unreadable(String),
}

/// When a row that starts now runs again.
pub(crate) fn next(row: &Document, now: DateTime, zone: &str) -> Next {
    let zone = row.get_str("repeatTimezone").ok().filter(|zone| !zone.is_empty()).unwrap_or(zone);
    let found = match (row.get("repeatInterval"), row.get_str("repeatAt")) {
        (Some(interval), _) if is_said(interval) => from_interval(row, interval, now, zone),
        (_, Ok(at)) if !at.is_empty() => from_repeat_at(at, now, zone),
        _ => return Next::Never,
    };
    match found.map(|at| constrained(row, at, zone)) {
        Ok(Some(at)) => Next::At(at),
        Ok(None) => Next::Never,
        Err(why) => Next::Unreadable(why),
    }
}

/// Whether a row runs more than once.
pub(crate) fn repeats(row: &Document) -> bool {
    row.get("repeatInterval").is_some_and(is_said) || row.get_str("repeatAt").is_ok_and(|at| !at.is_empty())
}

fn is_said(interval: &Bson) -> bool {
    !matches!(interval, Bson::Null) && interval.as_str() != Some("")
}

/// A number of milliseconds, a cron line, or an interval in words.
fn from_interval(row: &Document, interval: &Bson, now: DateTime, zone: &str) -> Result<DateTime, String> {
    let number = match interval {
        Bson::Int32(ms) => Some(f64::from(*ms)),
        Bson::Int64(ms) => Some(*ms as f64),
        Bson::Double(ms) => Some(*ms),
        Bson::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    if let Some(ms) = number.filter(|ms: &f64| ms.is_finite() && *ms > 0.0 && *ms < 1e15) {
        return Ok(plus_ms(now, ms.round() as i64));
    }
    let text = interval.as_str().unwrap_or_default();
    if let Some(ms) = interval_ms(text) {
        return Ok(plus_ms(now, ms));
    }
    let unreadable =
        |why: String| format!("failed to calculate nextRunAt due to invalid repeat interval ({text}): {why}");
    let line = CronLine::new(text, zone).map_err(|why| unreadable(why.to_string()))?;
    let after = |at: DateTime| {
        let next = line.next_after(Time::from_ms(at.timestamp_millis()));
        next.map(|next| DateTime::from_millis(next.ms()))
            .ok_or_else(|| unreadable("it never comes".to_owned()))
    };
    let next = after(now)?;
    // Before Agenda 6 a line begins with its first run after the start date, and not with that date.
    match moment(row.get("startDate")) {
        Some(start) if start > next && !is_of_6(row) => after(start),
        _ => Ok(next),
    }
}

/// A time of the day, such as `3:30pm`: the next one that comes.
fn from_repeat_at(text: &str, now: DateTime, zone: &str) -> Result<DateTime, String> {
    let invalid = || "failed to calculate repeatAt time due to invalid format".to_owned();
    let clock = clock_time(text).ok_or_else(invalid)?;
    let zone = zone_of(zone).ok_or_else(invalid)?;
    let today =
        Timestamp::from_millisecond(now.timestamp_millis()).map_err(|_| invalid())?.to_zoned(zone.clone());
    for days in 0..=1 {
        let day = today.date().checked_add(days.days()).map_err(|_| invalid())?;
        let at = zone.to_zoned(day.to_datetime(clock)).map_err(|_| invalid())?;
        if at.timestamp() > today.timestamp() {
            return Ok(DateTime::from_millis(at.timestamp().as_millisecond()));
        }
    }
    Err(invalid())
}

/// `15:30`, `3:30pm`, `3pm`, `3 pm`, `noon`, `midnight`, each also after an "at".
fn clock_time(text: &str) -> Option<ClockTime> {
    let text = text.trim().to_ascii_lowercase();
    let text = text.strip_prefix("at ").unwrap_or(&text).trim();
    match text {
        "noon" => return ClockTime::new(12, 0, 0, 0).ok(),
        "midnight" => return ClockTime::new(0, 0, 0, 0).ok(),
        _ => {}
    }
    let (digits, half) = match (text.strip_suffix("am"), text.strip_suffix("pm")) {
        (Some(digits), _) => (digits.trim(), Some(0)),
        (_, Some(digits)) => (digits.trim(), Some(12)),
        _ => (text, None),
    };
    let (hour, minute) = digits.split_once(':').unwrap_or((digits, "0"));
    let (hour, minute): (i8, i8) = (hour.parse().ok()?, minute.parse().ok()?);
    let hour = match half {
        Some(half) if (1..=12).contains(&hour) => hour % 12 + half,
        Some(_) => return None,
        None if digits.contains(':') => hour,
        None => return None,
    };
    ClockTime::new(hour, minute, 0, 0).ok()
}

/// What start and end dates and skipped days leave of a moment.
fn constrained(row: &Document, at: DateTime, zone: &str) -> Option<DateTime> {
    let at = moment(row.get("startDate")).map_or(at, |start| start.max(at));
    let at = skipped(row, at, zone)?;
    match moment(row.get("endDate")) {
        Some(end) if at > end => None,
        _ => Some(at),
    }
}

/// Agenda 6 skips days of the week (0 is Sunday); before it, an interval is added to every run.
fn skipped(row: &Document, at: DateTime, zone: &str) -> Option<DateTime> {
    let days = match row.get("skipDays") {
        Some(Bson::String(text)) => return Some(plus_ms(at, interval_ms(text).unwrap_or(0))),
        Some(Bson::Array(days)) if !days.is_empty() => days,
        _ => return Some(at),
    };
    let days: Vec<i64> = days.iter().filter_map(whole).collect();
    let mut day = Timestamp::from_millisecond(at.timestamp_millis()).ok()?.to_zoned(zone_of(zone)?);
    for _ in 0..SKIP_DAYS_MAX {
        if !days.contains(&i64::from(day.weekday().to_sunday_zero_offset())) {
            return Some(DateTime::from_millis(day.timestamp().as_millisecond()));
        }
        day = day.checked_add(1.day()).ok()?;
    }
    None
}

fn whole(bson: &Bson) -> Option<i64> {
    match bson {
        Bson::Int32(number) => Some(i64::from(*number)),
        Bson::Int64(number) => Some(*number),
        Bson::Double(number) => Some(*number as i64),
        _ => None,
    }
}

/// Agenda 6 writes every field that it knows, and is the only one that knows this.
fn is_of_6(row: &Document) -> bool {
    row.contains_key("debounceStartedAt")
}

/// A date, or one as text.
fn moment(bson: Option<&Bson>) -> Option<DateTime> {
    match bson? {
        Bson::DateTime(at) => Some(*at),
        Bson::String(text) => DateTime::parse_rfc3339_str(text).ok(),
        _ => None,
    }
}

fn zone_of(name: &str) -> Option<TimeZone> {
    jiff::tz::TimeZoneDatabase::bundled().get(name).ok()
}

pub(crate) fn plus_ms(at: DateTime, ms: i64) -> DateTime {
    DateTime::from_millis(at.timestamp_millis().saturating_add(ms))
}

#[cfg(test)]
mod tests {
    use mongodb::bson::doc;

    use super::*;

    fn at(text: &str) -> DateTime {
        DateTime::parse_rfc3339_str(text).unwrap()
    }

    /// A Monday.
    const NOW: &str = "2026-03-02T10:00:30Z";

    #[test]
    fn rows_run_again_when_agenda_says() {
        let friday = Bson::Array(vec![Bson::Int32(2), Bson::Int32(3), Bson::Int32(4)]);
        for (row, expected) in [
            (doc! {}, None),
            (doc! { "repeatInterval": Bson::Null, "repeatAt": Bson::Null }, None),
            (doc! { "repeatInterval": "5 minutes" }, Some("2026-03-02T10:05:30Z")),
            (doc! { "repeatInterval": 5000 }, Some("2026-03-02T10:00:35Z")),
            (doc! { "repeatInterval": "5000" }, Some("2026-03-02T10:00:35Z")),
            (doc! { "repeatInterval": "*/15 * * * *" }, Some("2026-03-02T10:15:00Z")),
            (doc! { "repeatInterval": "*/20 * * * * *" }, Some("2026-03-02T10:00:40Z")),
            (
                doc! { "repeatInterval": "0 9 * * *", "repeatTimezone": "America/New_York" },
                Some("2026-03-02T14:00:00Z"),
            ),
            (doc! { "repeatInterval": "1 day", "skipDays": friday.clone() }, Some("2026-03-06T10:00:30Z")),
            (doc! { "repeatInterval": "1 day", "skipDays": "2 days" }, Some("2026-03-05T10:00:30Z")),
            (doc! { "repeatInterval": "1 day", "endDate": at("2026-03-03T00:00:00Z") }, None),
            (
                doc! { "repeatInterval": "0 9 * * *", "startDate": at("2026-04-01T08:00:00Z") },
                Some("2026-04-01T09:00:00Z"),
            ),
            (
                doc! { "repeatInterval": "0 9 * * *", "startDate": at("2026-04-01T08:00:00Z"), "debounceStartedAt": Bson::Null },
                Some("2026-04-01T08:00:00Z"),
            ),
            (doc! { "repeatAt": "3:30pm" }, Some("2026-03-02T15:30:00Z")),
            (doc! { "repeatAt": "9:00" }, Some("2026-03-03T09:00:00Z")),
        ] {
            let found = next(&row, at(NOW), "UTC");
            assert_eq!(found, expected.map_or(Next::Never, |text| Next::At(at(text))), "{row}");
        }
        for row in [doc! { "repeatInterval": "now and then" }, doc! { "repeatAt": "soon" }] {
            assert!(matches!(next(&row, at(NOW), "UTC"), Next::Unreadable(_)), "{row}");
        }
    }
}
