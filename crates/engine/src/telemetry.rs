//! Traces over the store: where a job was enqueued, and the span of its attempt.
//!
//! Without the feature `opentelemetry` nothing is taken from the current span;
//! what a caller says is carried all the same.

use windlass_core::trace::TraceParent;

/// The current span, as a parent of what is enqueued in it.
#[cfg(feature = "opentelemetry")]
pub(crate) fn current() -> Option<TraceParent> {
    use opentelemetry::trace::TraceContextExt;
    use tracing_opentelemetry::OpenTelemetrySpanExt;

    let context = tracing::Span::current().context();
    let span = context.span();
    let here = span.span_context();
    let text = format!("00-{}-{}-{:02x}", here.trace_id(), here.span_id(), here.trace_flags().to_u8() & 1);
    // Nobody is tracing when it has no number.
    if here.is_valid() { TraceParent::new(&text).ok() } else { None }
}

/// Makes `span` a child of the span in which its job was enqueued.
#[cfg(feature = "opentelemetry")]
pub(crate) fn adopt(span: &tracing::Span, parent: Option<TraceParent>) {
    use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState};
    use tracing_opentelemetry::OpenTelemetrySpanExt;

    let Some(parent) = parent else { return };
    let (trace, flags) = (TraceId::from_hex(parent.trace_id()), u8::from_str_radix(parent.flags(), 16));
    let (Ok(trace), Ok(from), Ok(flags)) = (trace, SpanId::from_hex(parent.span_id()), flags) else { return };
    let from = SpanContext::new(trace, from, TraceFlags::new(flags), true, TraceState::default());
    // Refused only by a collector that has begun the span already; it then stands alone.
    let _ = span.set_parent(opentelemetry::Context::new().with_remote_span_context(from));
}

#[cfg(not(feature = "opentelemetry"))]
pub(crate) fn current() -> Option<TraceParent> {
    None
}

#[cfg(not(feature = "opentelemetry"))]
pub(crate) fn adopt(_: &tracing::Span, _: Option<TraceParent>) {}
