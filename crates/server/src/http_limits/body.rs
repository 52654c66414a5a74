//! Reading a body: never more than its limit, never slower than its pace.

use std::sync::Arc;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, StatusCode};
use http_body_util::BodyExt;
use windlass::world::World;

use super::timer;
use crate::answer::Refusal;

/// The whole body. A pause of more than `idle_ms` within it ends the request.
pub(crate) async fn read_body(
    headers: &HeaderMap,
    mut body: Body,
    bytes_max: usize,
    idle_ms: u64,
    world: &Arc<dyn World>,
) -> Result<Bytes, Refusal> {
    let declared = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if declared.is_some_and(|bytes| bytes > bytes_max as u64) {
        return Err(Refusal::too_large("body", bytes_max));
    }
    let mut whole = Bytes::new();
    let mut more = BytesMut::new();
    loop {
        let frame = tokio::select! {
            biased;
            frame = body.frame() => frame,
            () = timer(world, idle_ms) => return Err(too_slow()),
        };
        let Some(frame) = frame else { break };
        let frame = frame.map_err(|_| Refusal::field("body", "ended before its end"))?;
        let Ok(data) = frame.into_data() else { continue };
        if whole.len() + more.len() + data.len() > bytes_max {
            return Err(Refusal::too_large("body", bytes_max));
        }
        // Most bodies come in one piece, which is not copied.
        if whole.is_empty() && more.is_empty() {
            whole = data;
        } else {
            more.extend_from_slice(&data);
        }
    }
    if more.is_empty() {
        return Ok(whole);
    }
    let mut all = BytesMut::with_capacity(whole.len() + more.len());
    all.extend_from_slice(&whole);
    all.extend_from_slice(&more);
    Ok(all.freeze())
}

fn too_slow() -> Refusal {
    let message = "the body came too slowly; nothing was changed. Send it again";
    Refusal::new(StatusCode::REQUEST_TIMEOUT, "too_slow", message)
}
