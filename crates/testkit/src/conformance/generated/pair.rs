//! A store and the book side by side: each operation is done to both, and
//! their answers are compared.

use std::fmt::Debug;
use std::sync::Arc;

use uuid::Uuid;
use windlass_core::book::Book;
use windlass_core::error::StoreError;
use windlass_core::event::Position;
use windlass_core::id::JobId;
use windlass_core::job::{Job, NewJob, Start};
use windlass_core::store::{
    ClaimAnswer, ClaimRequest, Fired, LeaseRef, Leased, ProgressWrite, RenewAnswer, Settlement, StepWrite,
    Store, WorkerBeat,
};
use windlass_core::time::{Clock, Time};

use super::op::{End, Fence, Hint, Op, Seed, Share};
use super::records::Revisions;
use super::tickets::Tickets;
use super::words::*;
use crate::clock::FakeClock;
use crate::conformance::scene::{json, step};
use crate::memory::MemoryStore;

/// What differed, as a sentence.
pub type Same = Result<(), String>;

/// A store, the book, and what both were told.
pub struct Pair {
    /// The model.
    pub book: Book,
    /// The store under test, by the handle whose turn it is.
    pub store: Arc<dyn Store>,
    /// The clock of both.
    pub clock: FakeClock,
    /// Up to here the store's events were compared.
    pub store_events: Option<Position>,
    /// Up to here the book's events were compared.
    pub book_events: Option<Position>,
    /// All jobs that were ever there, in the order in which they came.
    pub known: Vec<JobId>,
    asked: Vec<NewJob>,
    claims: Vec<ClaimRequest>,
    /// What claims gave, those that gave something.
    granted: Vec<Vec<LeaseRef>>,
    settled: Vec<Vec<Settlement>>,
    /// The revisions that both gave, and the batches that both were told.
    pub revisions: Revisions,
    /// The tickets that the store gave; the book has none.
    pub tickets: Tickets,
    /// What of these it is handed back.
    pub hint: Hint,
}

impl Pair {
    /// An empty store beside an empty book.
    pub fn new(store: Arc<dyn Store>, clock: FakeClock) -> Self {
        Self {
            book: Book::new(),
            store,
            clock,
            store_events: None,
            book_events: None,
            known: Vec::new(),
            asked: Vec::new(),
            claims: Vec::new(),
            granted: Vec::new(),
            settled: Vec::new(),
            revisions: Revisions::default(),
            tickets: Tickets::default(),
            hint: Hint::Own,
        }
    }

    /// The time by both clocks.
    pub fn now(&self) -> Time {
        self.clock.wall()
    }

    /// Does one operation to both and compares the answers.
    pub async fn apply(&mut self, op: &Op) -> Same {
        match op {
            Op::Enqueue(seeds) => {
                let batch = self.jobs_of(seeds);
                self.enqueue(batch).await
            }
            Op::EnqueueAlike { queue, kind, jobs } => {
                let batch = self.alike(*queue, *kind, *jobs);
                self.asked.extend(batch.iter().cloned());
                self.enqueue(batch).await
            }
            Op::Claim { .. } | Op::ClaimAgain { .. } | Op::ClaimStolen { .. } => self.claim(op).await,
            Op::Renew(_) | Op::Steps(_) | Op::Progress(_) | Op::Settle(_) => self.write(op).await,
            Op::RenewClaim { .. } | Op::SettleClaim { .. } | Op::SettleAgain { .. } => {
                self.write_of_claim(op).await
            }
            Op::Restart | Op::Cut => Ok(()),
            Op::Cancel(_) | Op::Retry(_) | Op::RunNow(_) | Op::Rerun(_) | Op::Delete(_) | Op::Prune => {
                self.steer(op).await
            }
            Op::Expire => self.expire().await,
            Op::TwoLooks { first_ms, second_ms } => {
                self.clock.advance(*first_ms);
                self.expire().await?;
                self.clock.advance(*second_ms);
                self.expire().await
            }
            Op::Pause { .. } | Op::PutQueue { .. } | Op::DeleteQueue { .. } => self.queue(op).await,
            Op::PutBudget { .. } | Op::DeleteBudget { .. } | Op::CoolDown { .. } | Op::Spend { .. } => {
                self.budget(op).await
            }
            Op::PutSchedule { .. } | Op::DeleteSchedule { .. } | Op::Fire => self.schedule(op).await,
            Op::Beat { .. } | Op::Forget { .. } => self.worker(op).await,
            Op::Write { .. } | Op::WriteAgain { .. } | Op::Scan { .. } | Op::Read { .. } => {
                self.record(op).await
            }
            Op::Advance { ms } => {
                self.clock.advance(*ms);
                same("now", self.store.now().await, Ok(self.now()))
            }
        }
    }

    /// Lets go of the store, which is about to be cut.
    pub fn close(&mut self) {
        self.store = Arc::new(MemoryStore::new(Arc::new(self.clock.clone())));
    }

    /// Follows the store into its new epoch. Its instance and its floor are drawn; all else is as the book says.
    pub async fn enter(&mut self) -> Same {
        let epoch = self.store.epoch().await.map_err(|error| format!("epoch answered {error}"))?.epoch;
        let before = *self.book.epoch();
        if epoch.floor <= before.floor || epoch.instance == before.instance || !epoch.lossy {
            return Err(format!("{epoch:?} after {before:?}"));
        }
        same("the beginning of the epoch", Ok(epoch.began_at), Ok(self.now()))?;
        if let Some(position) = self.store_events {
            let refused = self.store.events(Some(position), 1).await;
            if !matches!(refused, Err(StoreError::AnotherEpoch(_))) {
                return Err(format!("a position of another epoch is answered by {refused:?}"));
            }
        }
        self.book.enter(epoch);
        // What is kept of the others is told again.
        (self.store_events, self.book_events) = (None, None);
        Ok(())
    }

    async fn expire(&mut self) -> Same {
        let (mut book, store) = (self.book.expire(self.now()), self.store.expire().await);
        let mut store = store.map_err(|error| format!("expire answered {error}"))?;
        never_later("expire's next_in_ms", store.next_in_ms, book.next_in_ms)?;
        store.jobs.sort_unstable();
        book.jobs.sort_unstable();
        same("expire", Ok((store.jobs, store.marked)), Ok((book.jobs, book.marked)))
    }

    async fn enqueue(&mut self, batch: Vec<NewJob>) -> Same {
        let (now, fresh) = (self.now(), batch.clone());
        let book = self.book.enqueue(batch.clone(), now);
        let store = self.store.enqueue(batch).await;
        if book.is_ok() {
            self.know(&fresh);
        }
        same("enqueue", store, book)
    }

    /// Notes those of these jobs that are there and were not known.
    pub fn know(&mut self, jobs: &[NewJob]) {
        let there = jobs.iter().map(|job| job.id).filter(|id| self.book.job(*id).is_some());
        let new: Vec<JobId> = there.filter(|id| !self.known.contains(id)).collect();
        self.known.extend(new);
    }

    /// The jobs of these seeds; they are known to have been asked for.
    pub fn jobs_of(&mut self, seeds: &[Seed]) -> Vec<NewJob> {
        let mut batch = Vec::new();
        for seed in seeds {
            let job = self.job_of(seed);
            self.asked.push(job.clone());
            batch.push(job);
        }
        batch
    }

    fn alike(&self, queue: u8, kind: u8, jobs: usize) -> Vec<NewJob> {
        let first = self.asked.len() as u128 + 1;
        let one = |number: u128| {
            let payload = json(&format!("{{\"n\":{number}}}"));
            let spec = windlass_core::job::JobSpec::new(kind_of(kind), queue_of(queue), payload);
            NewJob { id: id_of(self.now(), number), spec, start: Start::Now }
        };
        (first..).take(jobs).map(one).collect()
    }

    fn job_of(&self, seed: &Seed) -> NewJob {
        let number = self.asked.len() as u128 + 1;
        let earlier = |n: &usize| (!self.asked.is_empty()).then(|| self.asked[n % self.asked.len()].clone());
        let plain = || {
            let spec = windlass_core::job::JobSpec::new(kind_of(0), queue_of(0), json("0"));
            NewJob { id: id_of(self.now(), number), spec, start: Start::Now }
        };
        match seed {
            Seed::New(wish) => {
                let start = if wish.delay_ms == 0 { Start::Now } else { Start::AfterMs(wish.delay_ms) };
                NewJob { id: id_of(self.now(), number), spec: spec_of(wish, number), start }
            }
            Seed::Again(n) => earlier(n).unwrap_or_else(plain),
            Seed::Clash(n) => {
                let mut job = earlier(n).unwrap_or_else(plain);
                job.spec.payload = json("\"clash\"");
                job
            }
        }
    }

    async fn claim(&mut self, op: &Op) -> Same {
        let request = match op {
            Op::Claim { worker, queues, kinds, limit, lease_ms } => ClaimRequest {
                request_id: Uuid::from_u128(self.claims.len() as u128 + 1),
                worker: worker_of(*worker),
                queues: queues.iter().map(|n| queue_of(*n)).collect(),
                kinds: kinds.as_ref().map(|kinds| kinds.iter().map(|n| kind_of(*n)).collect()),
                limit: *limit,
                lease_ms: *lease_ms,
            },
            Op::ClaimAgain { which } => match newest(&self.claims, *which) {
                Some(request) => request.clone(),
                None => return Ok(()),
            },
            Op::ClaimStolen { which, theft } => match newest(&self.claims, *which) {
                Some(request) => stolen(request.clone(), *theft),
                None => return Ok(()),
            },
            _ => return Ok(()),
        };
        self.claims.push(request.clone());
        let book = self.book.claim(&request, self.now());
        let store = self.store.claim(request).await;
        if let (Ok(store), Ok(book)) = (&store, &book) {
            self.tickets.keep(&store.leases);
            never_later("next_due_in_ms", store.next_due_in_ms, book.next_due_in_ms)?;
            if !book.leases.is_empty() {
                self.granted.push(book.leases.iter().map(Leased::lease_ref).collect());
            }
        }
        same("claim", store.map(plain_leases), book.map(plain_leases))
    }

    async fn write(&mut self, op: &Op) -> Same {
        if self.known.is_empty() {
            return Ok(());
        }
        let now = self.now();
        match op {
            Op::Renew(leases) => {
                let leases: Vec<LeaseRef> = leases.iter().map(|(n, fence)| self.lease(*n, *fence)).collect();
                let book = self.book.renew(&leases, now);
                self.renewed(leases, book).await
            }
            Op::Steps(writes) => {
                let steps: Vec<StepWrite> = writes
                    .iter()
                    .map(|(n, fence, name)| {
                        step(self.lease(*n, *fence), &format!("step {name}"), &format!("[{name}]"))
                    })
                    .collect();
                let book = self.book.store_steps(&steps, now);
                let steps = steps.into_iter().enumerate();
                let steps =
                    steps.map(|(at, step)| StepWrite { lease: self.hand_back(step.lease, at), ..step });
                same("store_steps", self.store.store_steps(steps.collect()).await, Ok(book))
            }
            Op::Progress(writes) => {
                let report = |(n, fence): &(usize, Fence)| ProgressWrite {
                    lease: self.lease(*n, *fence),
                    progress: json(&format!("{{\"at\":{n}}}")),
                };
                let reports: Vec<ProgressWrite> = writes.iter().map(report).collect();
                let book = self.book.progress(&reports);
                let reports = reports
                    .into_iter()
                    .enumerate()
                    .map(|(at, report)| ProgressWrite { lease: self.hand_back(report.lease, at), ..report });
                same("progress", self.store.progress(reports.collect()).await, Ok(book))
            }
            Op::Settle(ends) => {
                let settlements: Vec<Settlement> = ends
                    .iter()
                    .map(|(n, fence, end)| Settlement {
                        lease: self.lease(*n, *fence),
                        outcome: outcome_of(*end),
                    })
                    .collect();
                self.settle(settlements).await
            }
            _ => Ok(()),
        }
    }

    async fn settle(&mut self, settlements: Vec<Settlement>) -> Same {
        self.settled.push(settlements.clone());
        let book = self.book.settle(&settlements, self.now());
        let settlements = settlements.into_iter().enumerate();
        let settlements =
            settlements.map(|(at, end)| Settlement { lease: self.hand_back(end.lease, at), ..end });
        same("settle", self.store.settle(settlements.collect()).await, Ok(book))
    }

    async fn renewed(&self, leases: Vec<LeaseRef>, book: RenewAnswer) -> Same {
        let leases = leases.into_iter().enumerate().map(|(at, lease)| self.hand_back(lease, at));
        same("renew", self.store.renew(leases.collect()).await.map(nameless), Ok(nameless(book)))
    }

    /// Writes with what earlier claims gave, whether or not it is still held.
    async fn write_of_claim(&mut self, op: &Op) -> Same {
        match op {
            Op::RenewClaim { which, share } => {
                let leases = self.granted(*which, *share);
                let book = self.book.renew(&leases, self.now());
                self.renewed(leases, book).await
            }
            Op::SettleClaim { which, share, ends } => {
                let leases = self.granted(*which, *share);
                let end = |(lease, end): (LeaseRef, &End)| Settlement { lease, outcome: outcome_of(*end) };
                self.settle(leases.into_iter().zip(ends.iter().cycle()).map(end).collect()).await
            }
            Op::SettleAgain { which } => match newest(&self.settled, *which) {
                Some(settlements) => self.settle(settlements.clone()).await,
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    fn granted(&self, which: usize, share: Share) -> Vec<LeaseRef> {
        let leases = newest(&self.granted, which).map_or(&[][..], Vec::as_slice);
        match share {
            Share::All => leases.to_vec(),
            Share::First => leases.iter().take(1).copied().collect(),
            Share::Half { odd } => leases.iter().skip(usize::from(odd)).step_by(2).copied().collect(),
        }
    }

    pub fn lease(&self, n: usize, fence: Fence) -> LeaseRef {
        let job_id = self.known[n % self.known.len()];
        let newest = self.book.job(job_id).map_or(1, |job| job.fence);
        let fence = match fence {
            Fence::Current => newest,
            Fence::Older => newest.saturating_sub(1),
            Fence::Newer => newest + 1,
        };
        LeaseRef::new(job_id, fence)
    }

    async fn queue(&mut self, op: &Op) -> Same {
        match op {
            Op::Pause { queue, paused } => {
                self.book.pause_queue(queue_of(*queue), *paused);
                same("pause_queue", self.store.pause_queue(queue_of(*queue), *paused).await, Ok(()))
            }
            Op::PutQueue { queue, policy } => {
                let book = self.book.put_queue(queue_of(*queue), policy_of(policy), self.now());
                let store = self.store.put_queue(queue_of(*queue), policy_of(policy)).await;
                same("put_queue", store, book.map_err(StoreError::from))
            }
            Op::DeleteQueue { queue } => {
                let book = self.book.delete_queue(&queue_of(*queue));
                same("delete_queue", self.store.delete_queue(queue_of(*queue)).await, Ok(book))
            }
            _ => Ok(()),
        }
    }

    async fn budget(&mut self, op: &Op) -> Same {
        let now = self.now();
        match op {
            Op::PutBudget { budget, policy } => {
                self.book.put_budget(budget_of(*budget), *policy);
                same("put_budget", self.store.put_budget(budget_of(*budget), *policy).await, Ok(()))
            }
            Op::DeleteBudget { budget } => {
                let book = self.book.delete_budget(&budget_of(*budget));
                same("delete_budget", self.store.delete_budget(budget_of(*budget)).await, Ok(book))
            }
            Op::CoolDown { budget, for_ms } => {
                self.book.cool_down(budget_of(*budget), *for_ms, now);
                same("cool_down", self.store.cool_down(budget_of(*budget), *for_ms).await, Ok(()))
            }
            Op::Spend { budget, amount } => {
                let book = self.book.spend(&budget_of(*budget), *amount, now);
                same("spend", self.store.spend(budget_of(*budget), *amount).await, Ok(book))
            }
            _ => Ok(()),
        }
    }

    async fn schedule(&mut self, op: &Op) -> Same {
        let now = self.now();
        match op {
            Op::PutSchedule { schedule, rule, missed, skip, paused } => {
                let policy = schedule_policy(*rule, *missed, *skip, *paused);
                let book = self.book.put_schedule(schedule_of(*schedule), policy.clone(), now);
                let store = self.store.put_schedule(schedule_of(*schedule), policy).await;
                same("put_schedule", store, book.map_err(StoreError::from))
            }
            Op::DeleteSchedule { schedule } => {
                let book = self.book.delete_schedule(&schedule_of(*schedule));
                same("delete_schedule", self.store.delete_schedule(schedule_of(*schedule)).await, Ok(book))
            }
            Op::Fire => {
                let (book, store) = (self.book.fire_schedules(now), self.store.fire_schedules().await);
                let made: Vec<JobId> = book.runs.iter().map(|run| run.job_id).collect();
                let new: Vec<JobId> = made.into_iter().filter(|id| !self.known.contains(id)).collect();
                self.known.extend(new);
                let store = store.map_err(|error| format!("fire_schedules answered {error}"))?;
                never_later("fire's next_in_ms", store.next_in_ms, book.next_in_ms)?;
                let runs = |fired: Fired| fired.runs;
                same("fire_schedules", Ok(runs(store)), Ok(runs(book)))
            }
            _ => Ok(()),
        }
    }

    async fn worker(&mut self, op: &Op) -> Same {
        match op {
            Op::Beat { worker, picky } => {
                let beat = WorkerBeat {
                    name: worker_of(*worker),
                    queues: vec![queue_of(0), queue_of(*worker)],
                    kinds: picky.then(|| vec![kind_of(1)]),
                    slots: 4,
                    running: u32::from(*worker),
                    version: picky.then(|| format!("test/{worker}")),
                    host: Some("here".to_owned()),
                };
                self.book.beat(beat.clone(), self.now());
                same("beat", self.store.beat(beat).await, Ok(()))
            }
            Op::Forget { worker } => {
                self.book.forget_worker(&worker_of(*worker));
                same("forget_worker", self.store.forget_worker(worker_of(*worker)).await, Ok(()))
            }
            _ => Ok(()),
        }
    }
}

/// The newest but so many; round and round, when there are fewer.
pub fn newest<T>(all: &[T], back: usize) -> Option<&T> {
    let back = back.checked_rem(all.len())?;
    all.get(all.len() - 1 - back)
}

/// A job without its place, which every store counts in its own way.
pub fn plain(mut job: Job) -> Job {
    job.seq = 0;
    job
}

fn plain_leases(answer: ClaimAnswer) -> Vec<Leased> {
    let plain =
        |Leased { job, retry_delay_ms, ticket: _ }| Leased { job: plain(job), retry_delay_ms, ticket: None };
    answer.leases.into_iter().map(plain).collect()
}

/// Compares two answers. Of errors the code is compared, not the words.
pub fn same<T: PartialEq + Debug>(
    what: &str,
    store: Result<T, StoreError>,
    book: Result<T, StoreError>,
) -> Same {
    let agree = match (&store, &book) {
        (Ok(store), Ok(book)) => store == book,
        (Err(store), Err(book)) => store.code() == book.code(),
        _ => false,
    };
    if agree {
        return Ok(());
    }
    Err(format!("{what} differs\n  the store: {store:?}\n  the book:  {book:?}"))
}

fn never_later(what: &str, store: Option<u64>, book: Option<u64>) -> Same {
    match book {
        Some(due) if store.is_none_or(|hint| hint > due) => {
            Err(format!("{what} is {store:?}, too late: something is due in {due} ms"))
        }
        _ => Ok(()),
    }
}

/// An answer without the instance of the store, which is another for each.
fn nameless(answer: RenewAnswer) -> RenewAnswer {
    RenewAnswer { instance: None, ..answer }
}
