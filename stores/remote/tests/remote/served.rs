//! A server as its workers and users see it, with what it does by itself done by hand: leases that run out are taken back,
//! finished jobs are pruned and schedules are fired by the store behind it, when the test says so.

use std::sync::Arc;

use async_trait::async_trait;
use windlass_engine::core::decorate::{SourceDecorator, StoreDecorator};
use windlass_engine::core::eligible::Explanation;
use windlass_engine::core::error::StoreError;
use windlass_engine::core::event::{Event, Position, What};
use windlass_engine::core::id::{JobId, WorkerName};
use windlass_engine::core::job::{Entry, Job};
use windlass_engine::core::policy::schedule::Schedule;
use windlass_engine::core::query::{Counted, JobFilter, ListRequest, Page, WORKER_ALIVE_MS, WorkerStatus};
use windlass_engine::core::record::Records;
use windlass_engine::core::state::State;
use windlass_engine::core::store::{
    ClaimAnswer, ClaimRequest, Expired, Fired, Leased, Source, Store, WorkerBeat,
};
use windlass_remote::RemoteStore;
use windlass_testkit::memory::MemoryStore;

pub(crate) struct Served {
    /// The store of the server.
    pub(crate) near: MemoryStore,
    pub(crate) far: Arc<RemoteStore>,
    /// Who says that he is alive. Not the store of the server, which hears it of everybody who claims.
    pub(crate) alive: MemoryStore,
}

impl Served {
    /// With what the API keeps to itself: a job's place, who has looked at its lease, and its history, of which the API tells
    /// the story: each entry has to be there, in order.
    async fn whole(&self, job: Job) -> Result<Job, StoreError> {
        let Some(near) = self.near.get(job.id).await? else { return Ok(job) };
        let told =
            |entry: &Entry| (entry.at, entry.what, entry.attempt, entry.worker.clone(), entry.error.clone());
        let mut story = job.history.iter().map(told);
        for entry in near.history.iter().map(told) {
            assert!(story.any(|other| other == entry), "{entry:?} is not in {:?}", job.history);
        }
        Ok(placed(job, near))
    }

    /// Lets the store of the server know those alone who have said that they are alive.
    async fn reckon(&self) -> Result<(), StoreError> {
        for claimed in self.near.workers().await? {
            self.near.forget_worker(claimed.name).await?;
        }
        let now = self.near.now().await?;
        for WorkerStatus { name, queues, kinds, slots, running, seen_at, started_at: _, version, host } in
            self.alive.workers().await?
        {
            if now.ms_since(seen_at) <= WORKER_ALIVE_MS {
                self.near.beat(WorkerBeat { name, queues, kinds, slots, running, version, host }).await?;
            }
        }
        Ok(())
    }

    /// The same of a list or a claim, which have the newest error of a history and no more.
    async fn listed(&self, job: Job) -> Result<Job, StoreError> {
        let Some(near) = self.near.get(job.id).await? else { return Ok(job) };
        let error = |history: &[Entry]| history.iter().rev().find_map(|entry| entry.error.clone());
        assert_eq!(error(&job.history), error(&near.history), "what a list says of {}", job.id);
        Ok(placed(job, near))
    }
}

fn placed(mut job: Job, near: Job) -> Job {
    if let (State::Running(far), State::Running(near)) = (&mut job.state, near.state) {
        far.marked_at = near.marked_at;
    }
    Job { seq: near.seq, rank: near.rank, history: near.history, ..job }
}

#[async_trait]
impl SourceDecorator for Served {
    fn source(&self) -> &dyn Source {
        &*self.far
    }

    async fn claim(&self, request: ClaimRequest) -> Result<ClaimAnswer, StoreError> {
        let ClaimAnswer { leases, next_due_in_ms, instance } = self.far.claim(request).await?;
        let mut whole = Vec::with_capacity(leases.len());
        for leased in leases {
            whole.push(Leased { job: self.listed(leased.job).await?, ..leased });
        }
        Ok(ClaimAnswer { leases: whole, next_due_in_ms, instance })
    }

    async fn expire(&self) -> Result<Expired, StoreError> {
        self.near.expire().await
    }
}

#[async_trait]
impl StoreDecorator for Served {
    fn store(&self) -> &dyn Store {
        &*self.far
    }

    fn records(&self) -> Result<&dyn Records, StoreError> {
        self.near.records()
    }

    async fn get(&self, id: JobId) -> Result<Option<Job>, StoreError> {
        match self.far.get(id).await? {
            Some(job) => self.whole(job).await.map(Some),
            None => Ok(None),
        }
    }

    async fn list(&self, request: ListRequest) -> Result<Page, StoreError> {
        let Page { jobs, next } = self.far.list(request).await?;
        let mut whole = Vec::with_capacity(jobs.len());
        for job in jobs {
            whole.push(self.listed(job).await?);
        }
        Ok(Page { jobs: whole, next })
    }

    async fn count_jobs(&self, filter: JobFilter) -> Result<Counted, StoreError> {
        self.near.count_jobs(filter).await
    }

    async fn explain(&self, id: JobId) -> Result<Option<Explanation>, StoreError> {
        self.reckon().await?;
        self.far.explain(id).await
    }

    async fn schedules(&self) -> Result<Vec<Schedule>, StoreError> {
        // Up to when a schedule has been looked at, and when it rested, is its store's own.
        let near = self.near.schedules().await?;
        let mut far = self.far.schedules().await?;
        for (far, near) in far.iter_mut().zip(near) {
            (far.settled_to, far.rests) = (near.settled_to, near.rests);
        }
        Ok(far)
    }

    async fn fire_schedules(&self) -> Result<Fired, StoreError> {
        self.near.fire_schedules().await
    }

    async fn beat(&self, worker: WorkerBeat) -> Result<(), StoreError> {
        self.alive.beat(worker).await
    }

    async fn workers(&self) -> Result<Vec<WorkerStatus>, StoreError> {
        self.alive.workers().await
    }

    async fn forget_worker(&self, name: WorkerName) -> Result<(), StoreError> {
        self.alive.forget_worker(name).await
    }

    async fn prune(&self) -> Result<u64, StoreError> {
        self.alive.prune().await?;
        self.near.prune().await
    }

    /// Without what a server adds of its own: who did what.
    async fn events(&self, since: Option<Position>, limit: u32) -> Result<Vec<Event>, StoreError> {
        let mut events = self.far.events(since, limit).await?;
        events.retain(|event| event.what != What::Acted);
        Ok(events)
    }
}
