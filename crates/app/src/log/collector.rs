//! The collector: hears events with the spans around them, and hands each on as a line.

use std::sync::Arc;

use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;
use windlass_engine::core::time::Clock;

use super::line::{Fields, Hearing, Line};
use super::{Admits, Form, Out};

/// A layer of a subscriber that writes lines.
pub struct Collector {
    pub(super) form: Box<dyn Form>,
    pub(super) outs: Vec<Box<dyn Out>>,
    pub(super) admits: Admits,
    pub(super) clock: Arc<dyn Clock>,
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Collector {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        (self.admits)(metadata)
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut heard = Hearing::default();
        attributes.record(&mut heard);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(heard.fields);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let mut heard = Hearing::default();
        values.record(&mut heard);
        let Some(span) = context.span(id) else { return };
        if let Some(fields) = span.extensions_mut().get_mut::<Fields>() {
            heard.fields.into_iter().for_each(|(name, value)| fields.put(name, value));
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut heard = Hearing::default();
        event.record(&mut heard);
        let mut scope = Fields::default();
        for span in context.event_scope(event).into_iter().flat_map(|scope| scope.from_root()) {
            if let Some(fields) = span.extensions().get::<Fields>() {
                fields.iter().for_each(|(name, value)| scope.put(name, value.clone()));
            }
        }
        let Hearing { message, fields: said } = heard;
        let level = *event.metadata().level();
        let line = Line { at: self.clock.wall(), level, message, scope, said };
        let mut text = self.form.text(&line);
        text.push('\n');
        self.outs.iter().for_each(|out| out.write(&text));
    }
}
