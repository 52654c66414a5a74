//! The log: lines as the seed has them, or JSON, on stdout.
//!
//! `2025-01-19T10:30:01.000Z [INFO] Claimed 3 messages workerId="worker_123"`.
//! Values are JSON, so no text can begin a line of its own. What a message's
//! task says carries that message's id, by its span and not by a global.

use std::sync::Arc;

use serde_json::Value;
use tracing::{Level, Metadata};
use windlass_app::log::{Fields, Form, Line, Log};
use windlass_engine::core::time::Clock;

use crate::names::Names;

/// A log on stdout; `debug` says more. What a panic says may hold a patient's
/// name, so only where it was is told.
pub(crate) fn log(
    form: impl Form,
    debug: bool,
    clock: Arc<dyn Clock>,
    worker: Option<(String, Arc<Names>)>,
) -> Log {
    let (worker, names) = worker.unzip();
    Log::new(OfMessages { form, worker, names }, clock)
        .admit(move |metadata| admits(metadata, debug))
        .quiet_panics()
}

/// Only what is ours is written: others might log an address or a statement,
/// and the door the path of the webhook.
fn admits(metadata: &Metadata<'_>, debug: bool) -> bool {
    let target = metadata.target();
    let ours = target == "windlass_nurse_tour" || target.starts_with("windlass_nurse_tour::");
    let engine = target == "windlass" || target.starts_with("windlass_");
    let level = metadata.level();
    if target.starts_with("windlass_app::door") {
        return false;
    }
    match debug {
        true => (ours || engine) && *level <= Level::DEBUG,
        false => (ours && *level <= Level::INFO) || (engine && *level <= Level::WARN),
    }
}

/// A form whose lines name the worker, and messages instead of jobs.
struct OfMessages<F> {
    form: F,
    worker: Option<String>,
    /// Which message a job is that somebody speaks of.
    names: Option<Arc<Names>>,
}

impl<F: Form> Form for OfMessages<F> {
    fn text(&self, line: &Line) -> String {
        let mut all = Fields::default();
        if let Some(worker) = &self.worker {
            all.put("workerId", worker.as_str());
        }
        line.scope.iter().for_each(|(name, value)| all.put(name, value.clone()));
        for (name, value) in line.said.iter() {
            let (name, value) = self.in_our_words(name, value.clone());
            all.put(name, value);
        }
        self.form.text(&Line { scope: Fields::default(), said: all, ..line.clone() })
    }
}

impl<F> OfMessages<F> {
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

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tracing_subscriber::layer::SubscriberExt;
    use windlass_app::log::{Json, Lines, Out, quiet_panics};
    use windlass_engine::core::id::JobId;
    use windlass_engine::world::SimWorld;

    use super::*;

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<String>>>);

    impl Out for Kept {
        fn write(&self, line: &str) {
            self.0.lock().unwrap().push(line.trim_end_matches('\n').to_owned());
        }
    }

    fn lines(form: impl Form, debug: bool, say: impl FnOnce()) -> Vec<String> {
        let kept = Kept::default();
        let clock = Arc::new(SimWorld::new(1));
        let names = Arc::new(Names::default());
        names.put(JobId(uuid::Uuid::from_u128(7)), "SM7");
        let layer = log(form, debug, clock, Some(("w1".into(), names))).out(kept.clone()).collector();
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
            lines(Lines, false, say),
            [
                "2026-01-01T00:00:00.000Z [INFO] Stage TRANSCRIBED complete workerId=\"w1\" messageSid=\"SM1\" stage=\"TRANSCRIBED\"",
                "2026-01-01T00:00:00.000Z [INFO] two lines workerId=\"w1\" n=3 text=\"a\\nb\\u001b[31m\"",
            ]
        );
        assert_eq!(lines(Lines, true, say).len(), 3, "debug says more, and still nothing of others");
    }

    /// What the engine says of a job, and the store of a row, names the message.
    #[test]
    fn jobs_and_rows_are_messages() {
        let found = lines(Lines, false, || {
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
        let lines = lines(Json, false, say);
        let first: Value = serde_json::from_str(&lines[0]).unwrap();
        assert_eq!(
            (&first["level"], &first["messageSid"], &first["workerId"]),
            (&"INFO".into(), &"SM1".into(), &"w1".into())
        );
    }

    #[test]
    fn a_panic_says_only_where_it_was() {
        let found = lines(Lines, false, || {
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
        let found = lines(Lines, false, || {
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
