//! How a line looks.

use std::fmt::Write;

use clap::ValueEnum;
use serde_json::Value;

use super::line::Line;

/// How a line looks.
pub trait Form: Send + Sync + 'static {
    /// The text of a line, without its end. Nothing in it may begin a line of
    /// its own or speak to a terminal: much of it comes from outside.
    fn text(&self, line: &Line) -> String;
}

/// `2026-01-19T10:30:01.000Z [INFO] message key="value"`: values are JSON.
#[derive(Debug, Clone, Copy, Default)]
pub struct Lines;

impl Form for Lines {
    fn text(&self, line: &Line) -> String {
        let plain = line.message.chars().map(|letter| if letter.is_control() { ' ' } else { letter });
        let mut text = format!("{} [{}] {}", line.at, line.level, plain.collect::<String>());
        for (name, value) in line.fields() {
            // A String takes what it is given.
            let _ = write!(text, " {name}={value}");
        }
        text
    }
}

/// One JSON object a line: `time`, `level`, `message`, and the fields.
#[derive(Debug, Clone, Copy, Default)]
pub struct Json;

impl Form for Json {
    fn text(&self, line: &Line) -> String {
        let head = [
            ("time", line.at.to_string().into()),
            ("level", line.level.as_str().into()),
            ("message", line.message.as_str().into()),
        ];
        let all = head.into_iter().chain(line.fields());
        let parts = all.map(|(name, value)| format!("{}:{value}", Value::from(name)));
        format!("{{{}}}", parts.collect::<Vec<_>>().join(","))
    }
}

/// How log lines look, as an operator chooses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogForm {
    /// `TIME [LEVEL] message key="value"`
    Lines,
    /// One JSON object a line
    Json,
}

impl Form for LogForm {
    fn text(&self, line: &Line) -> String {
        match self {
            Self::Lines => Lines.text(line),
            Self::Json => Json.text(line),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tracing_subscriber::layer::SubscriberExt;
    use windlass_engine::world::SimWorld;

    use super::*;
    use crate::log::{Log, Out};

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<String>>);

    impl Out for Kept {
        fn write(&self, line: &str) {
            self.0.lock().unwrap().push_str(line);
        }
    }

    fn said(form: impl Form) -> String {
        let kept = Kept::default();
        let log = Log::new(form, Arc::new(SimWorld::new(1))).out(kept.clone());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(log.collector()), || {
            let span = tracing::info_span!("job", job = "j1", n = tracing::field::Empty);
            span.record("n", 7);
            span.in_scope(|| tracing::info!(job = "j2", ratio = 0.5, "one\ntwo {}", "three"));
            tracing::info!(target: "hyper", "an address");
            tracing::debug!("more");
        });
        let text = kept.0.lock().unwrap();
        text.clone()
    }

    #[test]
    fn lines() {
        let expected = "2026-01-01T00:00:00.000Z [INFO] one two three job=\"j2\" n=7 ratio=0.5\n";
        assert_eq!(said(Lines), expected);
    }

    #[test]
    fn lines_of_json() {
        let line: Value = serde_json::from_str(&said(Json)).unwrap();
        assert_eq!(
            (&line["message"], &line["n"], &line["job"]),
            (&"one\ntwo three".into(), &7.into(), &"j2".into())
        );
    }
}
