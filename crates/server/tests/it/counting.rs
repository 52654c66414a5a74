//! A store in memory that counts the claims and cancels that it sees, and whose audits can take their time.

use std::collections::BTreeMap;
use std::sync::Mutex;

use async_trait::async_trait;
use windlass_engine::core::audit::{AuditBite, AuditFrom};
use windlass_engine::core::decorate::{SourceDecorator, StoreDecorator};
use windlass_engine::core::error::StoreError;
use windlass_engine::core::id::{JobId, QueueName};
use windlass_engine::core::memory::MemoryStore;
use windlass_engine::core::store::{CancelAnswer, ClaimAnswer, ClaimRequest, Source, Store};
use windlass_engine::world::SimWorld;

pub struct Counting {
    inner: MemoryStore,
    claims: Mutex<BTreeMap<QueueName, u32>>,
    cancels: Mutex<Vec<usize>>,
    audits: Option<(SimWorld, u64)>,
}

impl Counting {
    pub fn new(inner: MemoryStore) -> Self {
        Self { inner, claims: Mutex::default(), cancels: Mutex::default(), audits: None }
    }

    /// An audit of it has ten bites, each of so long.
    pub fn auditing(inner: MemoryStore, world: SimWorld, bite_ms: u64) -> Self {
        Self { audits: Some((world, bite_ms)), ..Self::new(inner) }
    }

    /// How many jobs each cancel had.
    pub fn cancels(&self) -> Vec<usize> {
        self.cancels.lock().unwrap().clone()
    }

    /// How many claims have named a queue.
    pub fn claims(&self) -> BTreeMap<QueueName, u32> {
        self.claims.lock().unwrap().clone()
    }
}

#[async_trait]
impl SourceDecorator for Counting {
    fn source(&self) -> &dyn Source {
        &self.inner
    }

    async fn claim(&self, request: ClaimRequest) -> Result<ClaimAnswer, StoreError> {
        for queue in &request.queues {
            *self.claims.lock().unwrap().entry(queue.clone()).or_default() += 1;
        }
        self.inner.claim(request).await
    }
}

#[async_trait]
impl StoreDecorator for Counting {
    fn store(&self) -> &dyn Store {
        &self.inner
    }

    async fn cancel_all(&self, ids: Vec<JobId>) -> Result<Vec<CancelAnswer>, StoreError> {
        self.cancels.lock().unwrap().push(ids.len());
        self.inner.cancel_all(ids).await
    }

    async fn audit_bite(&self, from: AuditFrom) -> Result<AuditBite, StoreError> {
        let bite = self.inner.audit_bite(from).await?;
        let Some((world, bite_ms)) = &self.audits else { return Ok(bite) };
        world.advance(*bite_ms);
        let next = Some(AuditFrom { part: 0, at: from.at + 1 }).filter(|next| next.at < 10);
        Ok(AuditBite { next, done: from.at + 1, of: 10, ..bite })
    }
}
