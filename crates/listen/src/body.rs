//! Reading a body: never more than its limit, never slower than its pace.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http::header::CONTENT_LENGTH;
use http_body_util::BodyExt;
use hyper::body::Body;
use windlass_engine::world::World;

use crate::timer;

/// Why a body was not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// It is larger than it may be.
    #[error("the body is larger than {0} bytes")]
    TooLarge(usize),
    /// It came too slowly.
    #[error("the body came too slowly")]
    TooSlow,
    /// The connection ended within it.
    #[error("the body ended before its end")]
    Cut,
}

/// The whole body. A pause of more than `idle_ms` within it ends the request.
pub async fn read_body<B: Body<Data = Bytes> + Unpin>(
    headers: &HeaderMap,
    mut body: B,
    bytes_max: usize,
    idle_ms: u64,
    world: &Arc<dyn World>,
) -> Result<Bytes, BodyError> {
    let declared = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if declared.is_some_and(|bytes| bytes > bytes_max as u64) {
        return Err(BodyError::TooLarge(bytes_max));
    }
    let mut whole = Bytes::new();
    let mut more = BytesMut::new();
    loop {
        let frame = tokio::select! {
            biased;
            frame = body.frame() => frame,
            () = timer(world, idle_ms) => return Err(BodyError::TooSlow),
        };
        let Some(frame) = frame else { break };
        let frame = frame.map_err(|_| BodyError::Cut)?;
        let Ok(data) = frame.into_data() else { continue };
        if whole.len() + more.len() + data.len() > bytes_max {
            return Err(BodyError::TooLarge(bytes_max));
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
