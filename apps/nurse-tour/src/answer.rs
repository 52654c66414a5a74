//! Answers in plain words, over connections with this app's limits.

use axum::response::Response;
use http::StatusCode;
use windlass_app::door::{AnswerForm, BodyLimits, Door, Refusal, text};

const CROWDED: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
/// A form of Twilio's is far smaller, and Twilio gives up after 15 seconds.
const BODY: BodyLimits = BodyLimits { bytes_max: 64 * 1024, idle_ms: 5_000, total_ms: 14_000 };
const CONNECTIONS_MAX: usize = 256;
const SHUTDOWN_MS: u64 = 5_000;

/// A sentence on a line.
pub(crate) fn plain(status: StatusCode, body: &str) -> Response {
    text(status, "text/plain; charset=utf-8", format!("{body}\n"))
}

/// A refusal in our own words.
pub(crate) fn refusal(status: StatusCode, message: impl Into<String>) -> Refusal {
    Refusal::new(status, "refused", message)
}

/// Refusals are a sentence on a line.
pub(crate) struct Plain;

impl Plain {
    /// A door with this form and this app's limits.
    pub(crate) fn door(door: Door) -> Door {
        let limits = windlass_app::door::Limits {
            connections_max: CONNECTIONS_MAX,
            // A proxy speaks for many.
            peer_connections_max: CONNECTIONS_MAX,
            loopback_connections_max: CONNECTIONS_MAX,
            shutdown_ms: SHUTDOWN_MS,
            ..windlass_app::door::Limits::default()
        };
        door.form(Self, CROWDED).body(BODY).limits(limits).one_request_each()
    }
}

impl AnswerForm for Plain {
    fn answer(&self, refusal: Refusal) -> Response {
        let Refusal { status, code, message, details: _, cause: _ } = refusal;
        match code {
            "unauthorized" => plain(status, "send `Authorization: Bearer …` with WORKER_HTTP_TOKEN"),
            _ => plain(status, &message),
        }
    }
}
