//! Spans of attempts and steps for a collector that speaks OTLP.
//!
//! A program with an OpenTelemetry of its own needs only the feature
//! `opentelemetry`; this is for those who have none yet.

use std::borrow::Cow;

use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{ExporterBuildError, SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};
use tracing::Subscriber;
use tracing_opentelemetry::OpenTelemetryLayer;
use tracing_subscriber::registry::LookupSpan;

/// Sends what was traced when it is dropped; keep it until the end of `main`.
#[must_use = "what was traced last is sent when this is dropped"]
pub struct Sending(SdkTracerProvider);

/// A layer for `tracing_subscriber::registry()` that sends spans to the
/// collector which `OTEL_EXPORTER_OTLP_ENDPOINT` names
/// (`http://localhost:4318` when it is not set), over plain HTTP: a collector
/// stands beside the program, and encrypts what leaves the machine.
pub fn layer<S>(
    service: impl Into<Cow<'static, str>>,
) -> Result<(OpenTelemetryLayer<S, SdkTracer>, Sending), ExporterBuildError>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    sent_by(SpanExporter::builder().with_http().build()?, service)
}

/// The same, to an address of one's own, such as `http://collector:4318/v1/traces`.
pub fn layer_to<S>(
    service: impl Into<Cow<'static, str>>,
    address: &str,
) -> Result<(OpenTelemetryLayer<S, SdkTracer>, Sending), ExporterBuildError>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    sent_by(SpanExporter::builder().with_http().with_endpoint(address).build()?, service)
}

fn sent_by<S>(
    exporter: SpanExporter,
    service: impl Into<Cow<'static, str>>,
) -> Result<(OpenTelemetryLayer<S, SdkTracer>, Sending), ExporterBuildError>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    let resource = Resource::builder().with_service_name(service.into()).build();
    let provider = SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource).build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("windlass"));
    Ok((layer, Sending(provider)))
}

impl Drop for Sending {
    fn drop(&mut self) {
        // Nobody is left who could do anything about it.
        let _ = self.0.shutdown();
    }
}
