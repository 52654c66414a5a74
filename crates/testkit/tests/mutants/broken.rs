//! A store that is broken in one way.

use std::marker::PhantomData;

use async_trait::async_trait;
use windlass_core::decorate::{SourceDecorator, StoreDecorator};
use windlass_core::error::StoreError;
use windlass_core::event::{Event, Position};
use windlass_core::id::{BudgetName, JobId, Label, QueueName, RecordKey, ShelfName};
use windlass_core::job::{Job, NewJob};
use windlass_core::policy::budget::BudgetPolicy;
use windlass_core::policy::queue::QueuePolicy;
use windlass_core::record::{BatchAnswer, Record, RecordBatch, RecordPage, Records, Scan};
use windlass_core::store::*;
use windlass_core::time::Time;
use windlass_testkit::memory::MemoryStore;

use super::Flaw;

/// A store in memory with a flaw.
pub struct Broken<F> {
    pub inner: MemoryStore,
    pub flaw: PhantomData<F>,
}

impl<F: Flaw> Broken<F> {
    fn lease(&self, lease: LeaseRef, now: Time) -> LeaseRef {
        F::lease(&self.inner.book(), lease, now)
    }
}

#[async_trait]
impl<F: Flaw> SourceDecorator for Broken<F> {
    fn source(&self) -> &dyn Source {
        &self.inner
    }

    async fn claim(&self, request: ClaimRequest) -> Result<ClaimAnswer, StoreError> {
        let now = self.inner.now().await?;
        F::claimed(&mut self.inner.book(), now);
        let ClaimAnswer { leases, next_due_in_ms, instance } = self.inner.claim(F::claim(request)).await?;
        Ok(ClaimAnswer { leases: F::leases(leases), next_due_in_ms, instance })
    }

    async fn renew(&self, leases: Vec<LeaseRef>) -> Result<RenewAnswer, StoreError> {
        let now = self.inner.now().await?;
        self.inner.renew(leases.into_iter().map(|lease| self.lease(lease, now)).collect()).await
    }

    async fn store_steps(&self, steps: Vec<StepWrite>) -> Result<Vec<Written>, StoreError> {
        let now = self.inner.now().await?;
        let fix = |step: StepWrite| F::step(StepWrite { lease: self.lease(step.lease, now), ..step });
        self.inner.store_steps(steps.into_iter().map(fix).collect()).await
    }

    async fn settle(&self, settlements: Vec<Settlement>) -> Result<Vec<Written>, StoreError> {
        let now = self.inner.now().await?;
        let fix = |one: Settlement| F::settlement(Settlement { lease: self.lease(one.lease, now), ..one });
        Ok(F::settled(self.inner.settle(settlements.into_iter().map(fix).collect()).await?))
    }

    async fn expire(&self) -> Result<Expired, StoreError> {
        let now = self.inner.now().await?;
        F::looked(&mut self.inner.book(), now);
        if F::EXPIRES { self.inner.expire().await } else { Ok(Expired::default()) }
    }
}

#[async_trait]
impl<F: Flaw> Records for Broken<F> {
    async fn write(&self, batch: RecordBatch) -> Result<BatchAnswer, StoreError> {
        self.inner.write(F::batch(batch)).await
    }

    async fn read(&self, shelf: ShelfName, keys: Vec<RecordKey>) -> Result<Vec<Option<Record>>, StoreError> {
        self.inner.read(shelf, keys).await
    }

    async fn scan(&self, scan: Scan) -> Result<RecordPage, StoreError> {
        Ok(F::page(self.inner.scan(scan).await?))
    }

    async fn count(&self, shelf: ShelfName, prefix: String) -> Result<Vec<(Option<Label>, u64)>, StoreError> {
        self.inner.count(shelf, prefix).await
    }
}

#[async_trait]
impl<F: Flaw> StoreDecorator for Broken<F> {
    fn store(&self) -> &dyn Store {
        &self.inner
    }

    fn records(&self) -> Result<&dyn Records, StoreError> {
        Ok(self)
    }

    async fn enqueue(&self, jobs: Vec<NewJob>) -> Result<Vec<Enqueued>, StoreError> {
        self.inner.enqueue(F::jobs(jobs)).await
    }

    async fn get(&self, id: JobId) -> Result<Option<Job>, StoreError> {
        Ok(self.inner.get(id).await?.map(F::found))
    }

    async fn cancel_all(&self, ids: Vec<JobId>) -> Result<Vec<CancelAnswer>, StoreError> {
        if F::CANCELS {
            self.inner.cancel_all(ids).await
        } else {
            Ok(vec![CancelAnswer::Canceled; ids.len()])
        }
    }

    async fn run_now_all(&self, ids: Vec<JobId>) -> Result<Vec<RunNowAnswer>, StoreError> {
        if F::RUNS_NOW { self.inner.run_now_all(ids).await } else { Ok(vec![RunNowAnswer::Due; ids.len()]) }
    }

    async fn rerun_all(&self, wishes: Vec<Rerun>) -> Result<Vec<RerunAnswer>, StoreError> {
        if F::CUTS_STEPS {
            return self.inner.rerun_all(wishes).await;
        }
        self.inner.retry_all(wishes.iter().map(|wish| wish.job_id).collect()).await?;
        Ok(vec![RerunAnswer::Retried; wishes.len()])
    }

    async fn delete_all(&self, ids: Vec<JobId>) -> Result<Vec<DeleteAnswer>, StoreError> {
        if F::DELETES { self.inner.delete_all(ids).await } else { Ok(vec![DeleteAnswer::Deleted; ids.len()]) }
    }

    async fn put_queue(&self, name: QueueName, policy: QueuePolicy) -> Result<(), StoreError> {
        self.inner.put_queue(name, F::policy(policy)).await
    }

    async fn put_budget(&self, name: BudgetName, policy: BudgetPolicy) -> Result<(), StoreError> {
        self.inner.put_budget(name, F::budget(policy)).await
    }

    async fn prune(&self) -> Result<u64, StoreError> {
        if F::PRUNES { self.inner.prune().await } else { Ok(0) }
    }

    async fn events(&self, since: Option<Position>, limit: u32) -> Result<Vec<Event>, StoreError> {
        Ok(F::events(self.inner.events(since, limit).await?))
    }
}
