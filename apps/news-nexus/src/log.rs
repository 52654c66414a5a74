//! The log: local time, level, message, `key=value` pairs; on the console, in
//! a file, or both, as `NODE_ENV` says.

use std::fmt::Write;
use std::sync::Arc;

use serde_json::Value;
use tracing::Level;
use windlass_app::log::{Fields, Form, Line, Log, LogFile, Out};
use windlass_engine::core::time::{Clock, Time};

use crate::settings::{Mode, Settings};

/// The longest line; what is longer is cut.
const LINE_BYTES_MAX: usize = 16 * 1024;

/// Begins to log. What others log (HTTP, the engine) is shown from warnings on.
pub(crate) fn start(settings: &Settings, clock: Arc<dyn Clock>) {
    let (console, file, level) = match settings.mode {
        Mode::Development => (true, false, Level::DEBUG),
        Mode::Testing => (true, true, Level::INFO),
        Mode::Production => (false, true, Level::INFO),
    };
    let mut log = Log::new(Pairs, clock).admit(move |metadata| {
        let own = metadata.target().starts_with("windlass");
        *metadata.level() <= if own { level } else { Level::WARN }
    });
    if console {
        log = log.out(std::io::stderr());
    }
    if file {
        log = log.out(settings.log.clone());
    }
    log.start();
}

/// Writes one error to the log file alone: for a program that does not start.
pub(crate) fn last_words(file: &LogFile, text: &str, clock: &dyn Clock) {
    let line = line(clock.wall(), &Level::ERROR, text, &Fields::default());
    file.write(&format!("{line}\n"));
}

/// The form of the program before this one.
struct Pairs;

impl Form for Pairs {
    fn text(&self, said: &Line) -> String {
        line(said.at, &said.level, &said.message, &said.said)
    }
}

fn line(now: Time, level: &Level, message: &str, pairs: &Fields) -> String {
    let mut line = format!("{} [{level}] {}", local(now), escaped(message));
    for (name, value) in pairs.iter() {
        let text = escaped(value.as_str().map_or_else(|| Value::to_string(value), str::to_owned).as_str());
        let quote = text.is_empty() || text.contains([' ', '"', '=']);
        let text = if quote { format!("\"{}\"", text.replace('"', "\\\"")) } else { text };
        // A String takes what it is given.
        let _ = write!(line, " {name}={text}");
    }
    if line.len() > LINE_BYTES_MAX {
        let end = (0..=LINE_BYTES_MAX).rev().find(|at| line.is_char_boundary(*at)).unwrap_or(0);
        line.truncate(end);
        line.push('…');
    }
    line
}

fn local(now: Time) -> String {
    let zoned =
        jiff::Timestamp::from_millisecond(now.ms()).map(|at| at.to_zoned(jiff::tz::TimeZone::system()));
    zoned.map_or_else(|_| now.to_string(), |at| at.strftime("%Y-%m-%d %H:%M:%S").to_string())
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
        let none = Fields::default();
        let plain = line(Time::MIN, &Level::WARN, "a\r\n2026 [ERROR] b\u{1b}[31m\u{202e}", &none);
        assert!(plain.ends_with("[WARN] a\\r\\n2026 [ERROR] b\\u{1b}[31m\\u{202e}"), "{plain}");
        assert_eq!(plain.lines().count(), 1);
        assert!(line(Time::MIN, &Level::WARN, &"ü".repeat(20_000), &none).len() < 17_000);
    }

    #[test]
    fn pairs_are_quoted_where_they_must_be() {
        let mut pairs = Fields::default();
        for (name, value) in
            [("a", Value::from(3)), ("b", "x y".into()), ("c", "".into()), ("d", "p\"q".into())]
        {
            pairs.put(name, value);
        }
        pairs.put("e", "plain\n");
        let text = line(Time::MIN, &Level::INFO, "said", &pairs);
        assert!(text.ends_with("[INFO] said a=3 b=\"x y\" c=\"\" d=\"p\\\"q\" e=plain\\n"), "{text}");
    }
}
