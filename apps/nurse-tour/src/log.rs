//! The log: lines as the seed has them, or JSON, on stdout.
//!
//! `2025-01-19T10:30:01.000Z [INFO] Claimed 3 messages workerId="worker_123"`.
//! Values are JSON, so no text can begin a line of its own. What a message's
//! task says carries that message's id, by its span and not by a global.

use std::fmt::{self, Write as _};
use std::io::Write as _;
use std::sync::Arc;

use serde_json::Value;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use windlass_engine::core::time::Clock;

use crate::names::Names;

/// How the lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// As the seed has them.
    Lines,
    /// One JSON object a line.
    Json,
}

/// Starts logging to stdout, for the whole process. `debug` says more.
pub fn start(form: Form, debug: bool, clock: Arc<dyn Clock>, worker: Option<(String, Arc<Names>)>) {
    let (worker, names) = worker.unzip();
    let layer = Lines { form, debug, clock, worker, names, out: Box::new(std::io::stdout()) };
    // Somebody who logs already goes on to do so.
    let _ = tracing::subscriber::set_global_default(tracing_subscriber::registry().with(layer));
    quiet_panics();
}

/// What a panic says may hold a patient's name; only where it was is told.
fn quiet_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(|at| format!("{}:{}", at.file(), at.line())).unwrap_or_default();
        tracing::error!(target: "windlass_nurse_tour", place, "Panic");
    }));
}

/// Where lines go.
trait Out: Send + Sync {
    fn line(&self, line: &str);
}

impl Out for std::io::Stdout {
    fn line(&self, line: &str) {
        // Nobody reads on: the work is done all the same.
        let _ = writeln!(self.lock(), "{line}");
    }
}

struct Lines {
    form: Form,
    debug: bool,
    clock: Arc<dyn Clock>,
    worker: Option<String>,
    /// Which message a job is that somebody speaks of.
    names: Option<Arc<Names>>,
    out: Box<dyn Out>,
}

/// The fields of a span or an event, in the order in which they were said.
#[derive(Default, Clone)]
struct Fields {
    message: String,
    pairs: Vec<(&'static str, Value)>,
}

impl Fields {
    /// Said again, a field has its newest value.
    fn put(&mut self, name: &'static str, value: Value) {
        match self.pairs.iter_mut().find(|(known, _)| *known == name) {
            Some((_, old)) => *old = value,
            None => self.pairs.push((name, value)),
        }
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            name => self.put(name, Value::String(format!("{value:?}"))),
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => value.clone_into(&mut self.message),
            name => self.put(name, Value::String(value.to_owned())),
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field.name(), value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field.name(), value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field.name(), value.into());
    }
}

impl Lines {
    /// Only what is ours is written: others might log an address or a statement.
    fn wants(&self, metadata: &Metadata<'_>) -> bool {
        let target = metadata.target();
        let ours = target == "windlass_nurse_tour" || target.starts_with("windlass_nurse_tour::");
        let engine = target == "windlass"
            || target.starts_with("windlass_engine::")
            || target.starts_with("windlass_");
        let level = metadata.level();
        match self.debug {
            true => (ours || engine) && *level <= Level::DEBUG,
            false => (ours && *level <= Level::INFO) || (engine && *level <= Level::WARN),
        }
    }

    fn write(&self, level: &Level, fields: Fields) {
        let time = self.clock.wall().to_string();
        let Fields { message, pairs } = fields;
        let line = match self.form {
            Form::Lines => {
                let mut line = format!("{time} [{level}] {}", plain(&message));
                for (name, value) in pairs {
                    let _ = write!(line, " {name}={value}");
                }
                line
            }
            Form::Json => {
                let head =
                    [("time", time.into()), ("level", level.as_str().into()), ("message", message.into())];
                let all = head.into_iter().chain(pairs);
                let parts = all.map(|(name, value)| format!("{}:{value}", Value::from(name)));
                format!("{{{}}}", parts.collect::<Vec<_>>().join(","))
            }
        };
        self.out.line(&line);
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Lines {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        self.wants(metadata)
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut said = Fields::default();
        event.record(&mut said);
        let mut all = Fields { message: said.message, pairs: Vec::new() };
        if let Some(worker) = &self.worker {
            all.put("workerId", worker.as_str().into());
        }
        for span in context.event_scope(event).into_iter().flat_map(|scope| scope.from_root()) {
            if let Some(fields) = span.extensions().get::<Fields>() {
                fields.pairs.iter().for_each(|(name, value)| all.put(name, value.clone()));
            }
        }
        for (name, value) in said.pairs {
            let (name, value) = self.in_our_words(name, value);
            all.put(name, value);
        }
        self.write(event.metadata().level(), all);
    }
}

impl Lines {
    /// The engine speaks of jobs, and the store of rows. Here both are messages.
    fn in_our_words(&self, name: &'static str, value: Value) -> (&'static str, Value) {
        let sid = match (name, value.as_str()) {
            ("job_id", Some(job)) => self.names.as_ref().and_then(|names| names.of_text(job)),
            ("row", Some(row)) => Some(row.to_owned()),
            _ => None,
        };
        match sid {
            Some(sid) => ("messageSid", sid.into()),
            None => (name, value),
        }
    }
}

/// A text on one line.
fn plain(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use windlass_engine::core::id::JobId;
    use windlass_engine::world::SimWorld;

    use super::*;

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<String>>>);

    impl Out for Kept {
        fn line(&self, line: &str) {
            self.0.lock().unwrap().push(line.to_owned());
        }
    }

    fn lines(form: Form, debug: bool, say: impl FnOnce()) -> Vec<String> {
        let kept = Kept::default();
        let clock = Arc::new(SimWorld::new(1));
        let names = Arc::new(Names::default());
        names.put(JobId(uuid::Uuid::from_u128(7)), "SM7");
        let (worker, out) = (Some("w1".into()), Box::new(kept.clone()));
        let layer = Lines { form, debug, clock, worker, names: Some(names), out };
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), say);
        let lines = kept.0.lock().unwrap();
        lines.clone()
    }

    fn say() {
        let span = tracing::info_span!("message", messageSid = "SM1");
        span.in_scope(|| tracing::info!(stage = "TRANSCRIBED", "Stage {} complete", "TRANSCRIBED"));
        tracing::debug!("more");
        tracing::warn!(target: "hyper", "https://somewhere/secret");
        tracing::info!(n = 3, text = "a\nb\u{1b}[31m", "two\nlines");
    }

    #[test]
    fn lines_as_the_seed_has_them() {
        assert_eq!(
            lines(Form::Lines, false, say),
            [
                "2026-01-01T00:00:00.000Z [INFO] Stage TRANSCRIBED complete workerId=\"w1\" messageSid=\"SM1\" stage=\"TRANSCRIBED\"",
                "2026-01-01T00:00:00.000Z [INFO] two lines workerId=\"w1\" n=3 text=\"a\\nb\\u001b[31m\"",
            ]
        );
        assert_eq!(lines(Form::Lines, true, say).len(), 3, "debug says more, and still nothing of others");
    }

    /// What the engine says of a job, and the store of a row, names the message.
    #[test]
    fn jobs_and_rows_are_messages() {
        let found = lines(Form::Lines, false, || {
            let (known, unknown) = (JobId(uuid::Uuid::from_u128(7)), JobId(uuid::Uuid::from_u128(8)));
            tracing::warn!(target: "windlass_engine::runtime", job_id = %known, "lease lost");
            tracing::warn!(target: "windlass_engine::runtime", job_id = %unknown, "lease lost");
            tracing::warn!(target: "windlass_postgres::adopted", row = "SM9", "closed a row");
        });
        assert!(found[0].ends_with("lease lost workerId=\"w1\" messageSid=\"SM7\""), "{found:?}");
        assert!(found[1].contains("job_id=") && !found[1].contains("messageSid"), "{found:?}");
        assert!(found[2].ends_with("messageSid=\"SM9\""), "{found:?}");
    }

    #[test]
    fn lines_of_json() {
        let lines = lines(Form::Json, false, say);
        let first: Value = serde_json::from_str(&lines[0]).unwrap();
        assert_eq!(
            (&first["level"], &first["messageSid"], &first["workerId"]),
            (&"INFO".into(), &"SM1".into(), &"w1".into())
        );
    }

    #[test]
    fn a_panic_says_only_where_it_was() {
        let found = lines(Form::Lines, false, || {
            quiet_panics();
            let panicked = std::panic::catch_unwind(|| panic!("canary {}", "Erika"));
            drop(std::panic::take_hook());
            assert!(panicked.is_err());
        });
        assert!(
            found.len() == 1 && found[0].contains("[ERROR] Panic") && found[0].contains("log.rs:"),
            "{found:?}"
        );
        assert!(!found[0].contains("canary") && !found[0].contains("Erika"));
    }

    /// Weakness 19: what one task says never carries the id of another's message.
    #[test]
    fn weakness_19_each_line_has_its_own_message() {
        let found = lines(Form::Lines, false, || {
            let (a, b) =
                (tracing::info_span!("m", messageSid = "A"), tracing::info_span!("m", messageSid = "B"));
            for (span, own) in [(&a, "A"), (&b, "B"), (&a, "A")] {
                span.in_scope(|| tracing::info!(own, "line"));
            }
            tracing::info!("nobody's");
        });
        for line in &found[..3] {
            let own = if line.contains("own=\"A\"") { "A" } else { "B" };
            assert!(line.contains(&format!("messageSid=\"{own}\"")), "{line}");
        }
        assert!(!found[3].contains("messageSid"));
    }
}
