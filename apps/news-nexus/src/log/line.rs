//! One line: local time, level, message, `key=value` pairs.

use std::fmt::{self, Write};

use tracing::field::{Field, Visit};
use tracing::{Event, Level};
use windlass_engine::core::time::Time;

/// The longest line; what is longer is cut.
const LINE_BYTES_MAX: usize = 16 * 1024;

/// The line of an event.
pub(super) fn of_event(now: Time, event: &Event<'_>) -> String {
    let mut parts = Parts::default();
    event.record(&mut parts);
    finish(now, event.metadata().level(), &parts.message, &parts.pairs)
}

/// A line without pairs.
pub(super) fn plain(now: Time, level: &Level, text: &str) -> String {
    finish(now, level, &escaped(text), "")
}

fn finish(now: Time, level: &Level, message: &str, pairs: &str) -> String {
    let mut line = format!("{} [{level}] {message}{pairs}", local(now));
    if line.len() > LINE_BYTES_MAX {
        let end = (0..=LINE_BYTES_MAX).rev().find(|at| line.is_char_boundary(*at)).unwrap_or(0);
        line.truncate(end);
        line.push('…');
    }
    line.push('\n');
    line
}

fn local(now: Time) -> String {
    let zoned =
        jiff::Timestamp::from_millisecond(now.ms()).map(|at| at.to_zoned(jiff::tz::TimeZone::system()));
    zoned.map_or_else(|_| now.to_string(), |at| at.strftime("%Y-%m-%d %H:%M:%S").to_string())
}

#[derive(Default)]
struct Parts {
    message: String,
    pairs: String,
}

impl Parts {
    fn add(&mut self, field: &Field, text: &str) {
        let text = escaped(text);
        if field.name() == "message" {
            self.message = text;
            return;
        }
        let quote = text.is_empty() || text.contains([' ', '"', '=']);
        let text = if quote { format!("\"{}\"", text.replace('"', "\\\"")) } else { text };
        // A String takes what it is given.
        let _ = write!(self.pairs, " {}={text}", field.name());
    }
}

impl Visit for Parts {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field, &format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, value);
    }
}

/// Control characters, line breaks among them, and what turns the direction of
/// writing are spelled out: nobody outside can write a line of their own.
fn escaped(text: &str) -> String {
    let turns =
        |c: char| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}');
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() || turns(c) { out.extend(c.escape_default()) } else { out.push(c) }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fault 65: what comes from outside cannot begin a line or speak to a terminal.
    #[test]
    fn fault_65_a_line_stays_a_line() {
        let line = plain(Time::MIN, &Level::WARN, "a\r\n2026 [ERROR] b\u{1b}[31m\u{202e}");
        assert!(line.ends_with("[WARN] a\\r\\n2026 [ERROR] b\\u{1b}[31m\\u{202e}\n"), "{line}");
        assert_eq!(line.lines().count(), 1);
        assert!(plain(Time::MIN, &Level::WARN, &"ü".repeat(20_000)).len() < 17_000);
    }
}
