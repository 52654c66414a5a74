//! The feed in memory: asked of the store when it may have changed, and not for each reader.

use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use windlass_engine::ShelfError;
use windlass_engine::world::World;

use crate::archive::Archive;
use crate::feed::{Feed, Wish, etag};

/// How often the store is asked whether anything has changed, at most.
const LOOK_MS: u64 = 100;
/// How old a feed becomes without being built anew: articles go away by their age, of which nobody hears.
const AGE_MS_MAX: u64 = 60_000;

/// The feed with its first page, ready to be sent.
pub struct Ready {
    /// The feed.
    pub feed: Feed,
    /// Its first page.
    pub first: Body,
    rev: Option<u64>,
    built_ms: u64,
}

/// A body in both forms, with its word.
#[derive(Clone)]
pub struct Body {
    /// As it is.
    pub plain: Bytes,
    /// Compressed.
    pub gzip: Bytes,
    /// The word that changes when it does.
    pub etag: String,
}

impl Body {
    /// A body, compressed once.
    pub fn new(text: String) -> Self {
        let plain = Bytes::from(text);
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        // Memory takes what is written.
        let gzip = encoder.write_all(&plain).and_then(|()| encoder.finish()).unwrap_or_default();
        Self { etag: etag(&plain), gzip: gzip.into(), plain }
    }
}

/// The cache.
pub struct Cache {
    archive: Archive,
    world: Arc<dyn World>,
    ready: RwLock<Option<Arc<Ready>>>,
    looked_ms: AtomicU64,
    /// One at a time looks.
    looking: tokio::sync::Mutex<()>,
}

impl Cache {
    /// An empty cache.
    pub fn new(archive: Archive, world: Arc<dyn World>) -> Self {
        let (ready, looking) = (RwLock::default(), tokio::sync::Mutex::default());
        Self { archive, world, ready, looked_ms: AtomicU64::new(0), looking }
    }

    /// The feed as it is, or was a moment ago. While one looks, others get what is there. When the store does
    /// not answer, they get what it last said, if it ever said something.
    pub async fn ready(&self) -> Result<Arc<Ready>, ShelfError> {
        let now_ms = self.world.boot_ms();
        let there = self.there();
        if let Some(ready) = &there
            && now_ms.saturating_sub(self.looked_ms.load(Ordering::Relaxed)) < LOOK_MS
        {
            return Ok(ready.clone());
        }
        let guard = match (&there, self.looking.try_lock()) {
            (_, Ok(guard)) => guard,
            (Some(ready), Err(_)) => return Ok(ready.clone()),
            (None, Err(_)) => self.looking.lock().await,
        };
        let looked = self.look(now_ms).await;
        drop(guard);
        match (looked, there) {
            (Ok(ready), _) => Ok(ready),
            (Err(error), Some(ready)) => {
                tracing::warn!(%error, "The store did not answer; the feed is as it was");
                Ok(ready)
            }
            (Err(error), None) => Err(error),
        }
    }

    async fn look(&self, now_ms: u64) -> Result<Arc<Ready>, ShelfError> {
        let newest = self.archive.articles.scan().by_rev().descending().limit(1).await?;
        let rev = newest.entries.first().map(|entry| entry.rev);
        self.looked_ms.store(now_ms, Ordering::Relaxed);
        if let Some(ready) = self.there()
            && ready.rev == rev
            && now_ms.saturating_sub(ready.built_ms) < AGE_MS_MAX
        {
            return Ok(ready);
        }
        // What changes while the index is read has a later revision, and is seen at the next look.
        let taken_ms = self.archive.taken_ms().await?;
        let feed = Feed::new(self.archive.index().await?).since_taken(taken_ms);
        let first = Body::new(feed.json(&Wish::default()));
        let ready = Arc::new(Ready { feed, first, rev, built_ms: now_ms });
        *self.ready.write().unwrap_or_else(PoisonError::into_inner) = Some(ready.clone());
        Ok(ready)
    }

    fn there(&self) -> Option<Arc<Ready>> {
        self.ready.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
