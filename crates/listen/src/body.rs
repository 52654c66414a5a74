//! Reading a body: never more than its limit, never slower than its pace.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http::header::CONTENT_LENGTH;
use http_body_util::BodyExt;
use hyper::body::Body;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
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
    /// Other bodies take all the memory that there is for them.
    #[error("too many large bodies at once")]
    NoRoom,
}

/// Bytes of a body that cost nothing of a pool: most bodies are smaller.
const FREE_BYTES: usize = 64 * 1024;
const KIB: usize = 1024;

/// Memory for large bodies, shared by connections: each takes of it as its body comes, not before.
#[derive(Debug, Clone)]
pub struct BodyPool(Arc<Semaphore>);

/// What a body has taken of its pool, given back when this is dropped.
#[derive(Debug, Default)]
pub struct BodyHold(Option<OwnedSemaphorePermit>);

impl BodyPool {
    /// A pool of so many bytes.
    pub fn new(bytes: usize) -> Self {
        Self(Arc::new(Semaphore::new(bytes / KIB)))
    }

    /// Lets a hold grow to what a body of so many bytes needs, if there is as much.
    fn grow(&self, hold: &mut BodyHold, bytes: usize) -> Result<(), BodyError> {
        let needed = bytes.saturating_sub(FREE_BYTES).div_ceil(KIB);
        let missing = needed.saturating_sub(hold.0.as_ref().map_or(0, OwnedSemaphorePermit::num_permits));
        if missing == 0 {
            return Ok(());
        }
        let missing = u32::try_from(missing).map_err(|_| BodyError::NoRoom)?;
        let more = self.0.clone().try_acquire_many_owned(missing).map_err(|_| BodyError::NoRoom)?;
        match &mut hold.0 {
            Some(held) => held.merge(more),
            None => hold.0 = Some(more),
        }
        Ok(())
    }
}

/// How a body may come.
#[derive(Debug, Clone, Copy)]
pub struct BodyLimits<'p> {
    /// Its bytes.
    pub bytes_max: usize,
    /// The longest pause within it.
    pub idle_ms: u64,
    /// Whose memory it takes; nothing when the number of connections is bound enough.
    pub pool: Option<&'p BodyPool>,
}

/// The whole body, and its hold on the pool. A pause that is too long ends the request.
pub async fn read_body<B: Body<Data = Bytes> + Unpin>(
    headers: &HeaderMap,
    mut body: B,
    limits: BodyLimits<'_>,
    world: &Arc<dyn World>,
) -> Result<(Bytes, BodyHold), BodyError> {
    let BodyLimits { bytes_max, idle_ms, pool } = limits;
    let declared = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if declared.is_some_and(|bytes| bytes > bytes_max as u64) {
        return Err(BodyError::TooLarge(bytes_max));
    }
    let mut hold = BodyHold::default();
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
        let bytes = whole.len() + more.len() + data.len();
        if bytes > bytes_max {
            return Err(BodyError::TooLarge(bytes_max));
        }
        if let Some(pool) = pool {
            pool.grow(&mut hold, bytes)?;
        }
        // Most bodies come in one piece, which is not copied.
        if whole.is_empty() && more.is_empty() {
            whole = data;
        } else {
            more.extend_from_slice(&data);
        }
    }
    if more.is_empty() {
        return Ok((whole, hold));
    }
    let mut all = BytesMut::with_capacity(whole.len() + more.len());
    all.extend_from_slice(&whole);
    all.extend_from_slice(&more);
    Ok((all.freeze(), hold))
}
