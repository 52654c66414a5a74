//! What queued jobs wait for: one look at everything that a claim looks at, and then at many jobs, by the claim's own
//! predicates.
//!
//! How long an epoch holds jobs back is told by the store of the queue that waits longest, and taken for all.

use std::collections::{BTreeMap, BTreeSet};

use windlass_engine::core::eligible::{BudgetNow, Hold, QueueNow, holds};
use windlass_engine::core::error::StoreError;
use windlass_engine::core::id::{BudgetName, JobId, Key, Kind, QueueName};
use windlass_engine::core::job::Job;
use windlass_engine::core::query::{
    JobFilter, ListRequest, PAGE_MAX, QueueStatus, WORKER_ALIVE_MS, WorkerStatus,
};
use windlass_engine::core::state::StateName;
use windlass_engine::core::store::{BudgetStatus, EpochStatus, Store};
use windlass_engine::core::time::Time;

use crate::address::{budget_at, encoded};

/// How many pages of queued jobs are looked at, the newest first.
pub const PAGES_MAX: usize = 100;
/// How many pages of running jobs are looked at for who has which key.
const HOLDERS_PAGES_MAX: usize = 25;

/// What queued jobs wait for.
#[derive(Default)]
pub struct Waiting {
    /// How many are queued, by their queues' own count.
    pub queued: u64,
    /// How many were looked at.
    pub looked: u64,
    /// There were more than were looked at.
    pub partly: bool,
    /// How many of these are due, whatever else holds them.
    pub due: u64,
    /// How many wait for what, by that and by the sentence that says it.
    pub groups: BTreeMap<(Rank, String), Group>,
    /// How many there are of each kind in each queue, and whether one of these is due.
    pub kinds: BTreeMap<(QueueName, Kind), (u64, bool)>,
    /// The budgets that they name.
    pub budgets: BTreeSet<BudgetName>,
}

/// What a job waits for, in an order that stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// For a worker of its kind.
    Worker,
    /// For a slot of one.
    Slot,
    /// For its queue to go on.
    Pause,
    /// For room in its queue.
    Limit,
    /// For another job of its key.
    Key,
    /// For the end of a budget's cool-down.
    Cooling,
    /// For a slot of a budget.
    BudgetSlot,
    /// For the next window of a budget.
    Spent,
    /// For its next attempt.
    Ladder,
    /// For its time.
    Time,
    /// For the end of the pause after an epoch began.
    Epoch,
}

/// Jobs that wait for the same.
pub struct Group {
    /// How many.
    pub count: u64,
    /// One of them.
    pub job: JobId,
    /// The kind of that one.
    pub kind: Kind,
    /// Where the dashboard lists them, as narrowly as its filters go.
    pub link: String,
}

/// Queued jobs, split for the eye.
#[derive(Debug, PartialEq, Eq)]
pub struct Split {
    /// They may start.
    pub due: u64,
    /// Their time has not come.
    pub later: u64,
    /// Their next attempt has not come.
    pub retrying: u64,
    /// Something else holds them.
    pub blocked: u64,
    /// How many were looked at, where that is not all.
    pub of_newest: Option<u64>,
}

impl Waiting {
    /// How many wait for what, in four words.
    pub fn split(&self) -> Split {
        let of_newest = self.partly.then_some(self.looked);
        let mut split = Split { due: 0, later: 0, retrying: 0, blocked: 0, of_newest };
        for ((rank, _), group) in &self.groups {
            let part = match rank {
                Rank::Worker | Rank::Slot => &mut split.due,
                Rank::Ladder => &mut split.retrying,
                Rank::Time => &mut split.later,
                _ => &mut split.blocked,
            };
            *part += group.count;
        }
        split
    }

    fn add(&mut self, job: Job, (rank, reason, link): (Rank, String, String), now: Time) {
        let is_due = job.run_at <= now;
        self.looked += 1;
        self.due += u64::from(is_due);
        self.budgets.extend(job.spec.budgets);
        let (count, due) = self.kinds.entry((job.spec.queue, job.spec.kind.clone())).or_default();
        (*count, *due) = (*count + 1, *due || is_due);
        let one = Group { count: 1, job: job.id, kind: job.spec.kind, link };
        self.groups.entry((rank, reason)).and_modify(|group| group.count += 1).or_insert(one);
    }
}

/// Looks at the newest queued jobs, so many pages of them at most.
pub async fn look(store: &dyn Store, pages_max: usize) -> Result<Waiting, StoreError> {
    let (now, queues, budgets, workers, epoch) =
        tokio::try_join!(store.now(), store.queues(), store.budgets(), store.workers(), store.epoch())?;
    let holders = holders(store).await?;
    let snapshot = Snapshot::new(now, &queues, &budgets, &workers, &epoch, &holders);
    let mut waiting = Waiting { queued: queues.iter().map(|queue| queue.queued).sum(), ..Waiting::default() };
    let mut after = None;
    for _ in 0..pages_max {
        let filter = JobFilter { states: vec![StateName::Queued], ..JobFilter::default() };
        let page = store.list(ListRequest { filter, limit: PAGE_MAX, after }).await?;
        for job in page.jobs {
            let reason = snapshot.reason(&job);
            waiting.add(job, reason, now);
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    waiting.partly = after.is_some();
    Ok(waiting)
}

/// Which running job has which key of its queue.
type Holders = BTreeMap<QueueName, BTreeMap<Key, JobId>>;

async fn holders(store: &dyn Store) -> Result<Holders, StoreError> {
    let (mut holders, mut after) = (Holders::default(), None);
    for _ in 0..HOLDERS_PAGES_MAX {
        let filter = JobFilter { states: vec![StateName::Running], ..JobFilter::default() };
        let page = store.list(ListRequest { filter, limit: PAGE_MAX, after }).await?;
        for job in page.jobs {
            if let Some(key) = job.spec.key {
                holders.entry(job.spec.queue).or_default().insert(key, job.id);
            }
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    Ok(holders)
}

/// Everything that a claim looks at, as it was at one moment.
struct Snapshot<'a> {
    now: Time,
    queues: BTreeMap<&'a QueueName, &'a QueueStatus>,
    budgets: BTreeMap<BudgetName, BudgetNow<'a>>,
    alive: Vec<&'a WorkerStatus>,
    epoch: &'a EpochStatus,
    holders: &'a Holders,
}

impl<'a> Snapshot<'a> {
    fn new(
        now: Time,
        queues: &'a [QueueStatus],
        budgets: &'a [BudgetStatus],
        workers: &'a [WorkerStatus],
        epoch: &'a EpochStatus,
        holders: &'a Holders,
    ) -> Self {
        let queues = queues.iter().map(|queue| (&queue.name, queue)).collect();
        let budget = |status: &'a BudgetStatus| {
            let now = BudgetNow { budget: &status.budget, slots_used: status.slots_used };
            (status.budget.name.clone(), now)
        };
        let budgets = budgets.iter().map(budget).collect();
        let alive = workers.iter().filter(|worker| now.ms_since(worker.seen_at) <= WORKER_ALIVE_MS).collect();
        Self { now, queues, budgets, alive, epoch, holders }
    }

    fn holds(&self, job: &Job) -> Vec<Hold> {
        // A queue that has come since is as any without a policy.
        let (policy, unknown) = (Default::default(), self.queues.get(&job.spec.queue));
        let keys = self.holders.get(&job.spec.queue);
        let queue = QueueNow {
            policy: unknown.map_or(&policy, |queue| &queue.policy),
            paused: unknown.is_some_and(|queue| queue.paused),
            running: unknown.map_or(0, |queue| u32::try_from(queue.running).unwrap_or(u32::MAX)),
            key_holder: job.spec.key.as_ref().and_then(|key| keys?.get(key)).copied(),
            pause: self.epoch.paused_until.map(|until| (&self.epoch.epoch, until)),
        };
        let named: BTreeMap<BudgetName, BudgetNow<'_>> = job
            .spec
            .budgets
            .iter()
            .filter_map(|name| Some((name.clone(), self.budgets.get(name)?.clone())))
            .collect();
        holds(job, &queue, &named, self.now)
    }

    /// What a job waits for first, in words that are the same for all that wait for it, and where these are listed.
    fn reason(&self, job: &Job) -> (Rank, String, String) {
        let (kind, queue) = (&job.spec.kind, &job.spec.queue);
        let all = "/jobs?state=queued".to_owned();
        let of_queue = format!("{all}&queue={}", encoded(queue.as_str()));
        let of_budget = |budget: &BudgetName| budget_at(budget.as_str());
        let Some(hold) = self.holds(job).into_iter().next() else {
            if self.alive.iter().any(|worker| worker.claims(&job.spec)) {
                return (
                    Rank::Slot,
                    format!("for a free slot of the workers of the queue {queue}"),
                    of_queue,
                );
            }
            let why = format!(
                "for a worker: none that is alive knows the kind {kind} and claims from the queue {queue}"
            );
            return (Rank::Worker, why, format!("{of_queue}&kind={}", encoded(kind.as_str())));
        };
        match hold {
            Hold::QueuePaused => (Rank::Pause, format!("for the queue {queue}, which is paused"), of_queue),
            Hold::EpochPause { .. } => {
                let why = "for leases to end that may have been given by what the store has lost";
                (Rank::Epoch, why.to_owned(), all)
            }
            Hold::QueueFull { limit } => {
                let why = format!("for the queue {queue}, which runs {limit} at once and is full");
                (Rank::Limit, why, of_queue)
            }
            Hold::KeyBusy { key, .. } => {
                let link = format!("{of_queue}&key={}", encoded(key.as_str()));
                (Rank::Key, format!("for the key {key} of the queue {queue}, which another job has"), link)
            }
            Hold::BudgetCooling { budget, .. } => {
                (Rank::Cooling, format!("for the budget {budget}, which cools down"), of_budget(&budget))
            }
            Hold::BudgetSlots { budget, .. } => {
                (Rank::BudgetSlot, format!("for a slot of the budget {budget}"), of_budget(&budget))
            }
            Hold::BudgetSpent { budget, .. } => {
                (Rank::Spent, format!("for the budget {budget}, which is spent"), of_budget(&budget))
            }
            Hold::NotDue { .. } if job.attempt > 0 => {
                (Rank::Ladder, "for their next attempt, by their ladder".to_owned(), all)
            }
            Hold::NotDue { .. } => (Rank::Time, "for their time".to_owned(), all),
        }
    }
}
