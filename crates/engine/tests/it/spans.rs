//! What a subscriber of `tracing` gets: a span for each attempt and step, and their starts, ends and retries at `info`.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context as LayerContext, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use windlass_engine::core::trace::TraceParent;
use windlass_engine::{Context, Failure};

use crate::stage::{Note, Stage};

/// Fields by their names.
#[derive(Debug, Clone, Default, PartialEq)]
struct Fields(BTreeMap<&'static str, String>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}

impl Fields {
    fn get(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }
}

/// Something that was said, and in which spans, the innermost first.
#[derive(Debug, Clone)]
struct Said {
    level: Level,
    fields: Fields,
    within: Vec<(&'static str, Fields)>,
}

#[derive(Clone, Default)]
struct Hearing {
    events: Arc<Mutex<Vec<Said>>>,
    spans: Arc<Mutex<Vec<&'static str>>>,
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Hearing {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: LayerContext<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        self.spans.lock().unwrap().push(attributes.metadata().name());
        context.span(id).unwrap().extensions_mut().insert(fields);
    }

    fn on_record(&self, id: &Id, values: &tracing::span::Record<'_>, context: LayerContext<'_, S>) {
        let span = context.span(id).unwrap();
        values.record(span.extensions_mut().get_mut::<Fields>().unwrap());
    }

    fn on_event(&self, event: &Event<'_>, context: LayerContext<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let within = context.event_scope(event).into_iter().flatten();
        let within = within.map(|span| (span.name(), span.extensions().get::<Fields>().unwrap().clone()));
        let said = Said { level: *event.metadata().level(), fields, within: within.collect() };
        self.events.lock().unwrap().push(said);
    }
}

#[tokio::test]
async fn attempts_and_steps_are_spans() {
    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let hearing = Hearing::default();
    let subscriber = tracing_subscriber::registry().with(hearing.clone());
    let heard = tracing::subscriber::set_default(subscriber);
    let stage = Stage::new();
    stage.policy(|policy| policy.ladder = "1s".parse().unwrap()).await;
    let id = stage.enqueue_with("secret", |job| job.traceparent(PARENT)).await;
    let worker = stage.worker().handle(async |_: Note, ctx: Context| {
        let looked = ctx.step("look", async || {
            tracing::info!("in the step");
            Ok(7)
        });
        looked.await?;
        if ctx.attempt() == 1 { Err(Failure::retry("not yet, my secret"))? } else { Ok(()) }
    });
    worker.run_until_idle().await.unwrap();
    drop(heard);

    let events = hearing.events.lock().unwrap().clone();
    let of_attempts = events.iter().filter(|said| said.within.iter().any(|(name, _)| *name == "attempt"));
    let of_attempts: Vec<&Said> = of_attempts.collect();
    let words: Vec<&str> = of_attempts.iter().map(|said| said.fields.get("message")).collect();
    let expected = [
        "the attempt begins",
        "in the step",
        "the attempt has failed; it is tried again as long as the ladder says",
        "the attempt begins",
        "the attempt has ended",
    ];
    assert_eq!(words, expected);
    assert!(of_attempts.iter().all(|said| said.level == Level::INFO), "{of_attempts:?}");
    assert_eq!(of_attempts[4].fields.get("outcome"), "\"completed\"");
    assert!(
        !of_attempts[2].fields.get("took_ms").is_empty() && !of_attempts[2].fields.get("next").is_empty()
    );

    let fence = stage.job(id).await.fence;
    for (said, attempt, fence) in [(of_attempts[0], "1", fence - 1), (of_attempts[4], "2", fence)] {
        let (name, fields) = said.within.last().unwrap();
        assert_eq!(*name, "attempt");
        let expected = [
            ("kind", "note".to_owned()),
            ("job_id", id.to_string()),
            ("queue", "default".to_owned()),
            ("attempt", attempt.to_owned()),
            ("fence", fence.to_string()),
            ("traceparent", format!("{:?}", TraceParent::new(PARENT).unwrap().as_str())),
        ];
        assert_eq!(*fields, Fields(expected.into_iter().collect()));
    }
    // A step is inside of its attempt, and one that is stored is not run again.
    let spans: Vec<&str> = of_attempts[1].within.iter().map(|(name, _)| *name).collect();
    assert_eq!((spans, of_attempts[1].within[0].1.get("step")), (vec!["step", "attempt"], "look"));
    let made = hearing.spans.lock().unwrap().iter().filter(|name| **name == "step").count();
    assert_eq!(made, 1);
    // What a handler says of its error is kept with the job, and not in the log.
    assert!(!format!("{events:?}").contains("secret"), "{events:?}");
}
