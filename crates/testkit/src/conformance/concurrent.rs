//! 22: eight claimers at once, with keys, a limit, slots and a rate; some
//! crash, some write late. A referee looks at every grant. Of a lease that has
//! run out he cannot know whether it was taken back, until its job is given again.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::RwLock;
use uuid::Uuid;
use windlass_core::id::JobId;
use windlass_core::job::NewJob;
use windlass_core::policy::budget::BudgetPolicy;
use windlass_core::policy::queue::QueuePolicy;
use windlass_core::state::StateName;
use windlass_core::store::{ClaimRequest, LeaseRef, Leased, Settlement, Store, Written};
use windlass_core::time::{Clock, Time};
use windlass_core::transition::Outcome;

use super::scene::*;
use crate::clock::FakeClock;
use crate::subject::Subject;

const CLAIMERS: u64 = 8;
const JOBS: u128 = 240;
const LIMIT: usize = 6;
const SLOTS: usize = 3;
const PER_SECOND: usize = 5;
/// More rounds than any run needs; a store that never gives the last job fails here.
const ROUNDS_MAX: u32 = 5_000;

/// No job is held twice, no key runs twice, no limit and no budget is
/// exceeded, no late write counts, and everything is done once in the end.
pub async fn p22_concurrent_claimers_keep_every_promise<S: Subject>() {
    let scene = Scene::<S>::new().await;
    furnish(&scene).await;
    let stage = Arc::new(Stage { referee: Mutex::default(), moment: RwLock::new(scene.clock.clone()) });
    let mut claimers = tokio::task::JoinSet::new();
    for number in 0..CLAIMERS {
        let store = scene.second().await;
        claimers.spawn(claimer(number, store, stage.clone()));
    }
    while let Some(ended) = claimers.join_next().await {
        if let Err(error) = ended {
            std::panic::resume_unwind(error.into_panic());
        }
    }
    for n in 1..=JOBS {
        assert_eq!(scene.job(n).await.state.name(), StateName::Completed, "job {n} was lost");
    }
    assert_eq!(scene.store().audit().await.expect("audit"), Vec::<String>::new());
    let referee = stage.referee();
    assert_eq!(referee.done.len() as u128, JOBS);
    assert!(referee.crashed > 0 && referee.refused > 0, "the run proves nothing: {referee:?}");
    referee.check_rate();
}

async fn furnish<S: Subject>(scene: &Scene<S>) {
    let limited = QueuePolicy {
        limit: Some(LIMIT as u32),
        crashes_max: 1_000,
        ladder: ladder(&["0ms"; 100].join(" ")),
        ..Default::default()
    };
    scene.store().put_queue(queue("q"), limited).await.expect("put_queue");
    let slots = BudgetPolicy { slots: Some(SLOTS as u32), ..Default::default() };
    scene.store().put_budget(budget("slots"), slots).await.expect("put_budget");
    let rate = BudgetPolicy { per_second: Some(PER_SECOND as u32), ..Default::default() };
    scene.store().put_budget(budget("rate"), rate).await.expect("put_budget");
    scene.add((1..=JOBS / 2).map(one_of_many).collect()).await;
}

/// A third has a key, a third a slot, a third a rate.
fn one_of_many(n: u128) -> NewJob {
    job_with(n, |spec| match n % 3 {
        0 => spec.key = key(&format!("key {}", n % 4)),
        1 => spec.budgets = vec![budget("slots")],
        _ => spec.budgets = vec![budget("rate")],
    })
}

/// What all claimers share. Time moves only while nobody is in a call, so
/// that every grant is known to lie before or after.
struct Stage {
    referee: Mutex<Referee>,
    moment: RwLock<FakeClock>,
}

impl Stage {
    fn referee(&self) -> std::sync::MutexGuard<'_, Referee> {
        self.referee.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn claimer(number: u64, store: Arc<dyn Store>, stage: Arc<Stage>) {
    let mut stale: Vec<LeaseRef> = Vec::new();
    for round in 0..ROUNDS_MAX {
        if stage.referee().done.len() as u128 == JOBS {
            return;
        }
        let dice = (u64::from(round) * 31 + number * 17) % 40;
        match dice {
            0..=3 => enqueue_more(number, round, store.as_ref(), &stage).await,
            4 => pass_time(&stage, 15_000).await,
            5..=9 => pass_time(&stage, 1_100).await,
            10..=14 => drop(stage_call(&stage, store.expire()).await),
            15..=18 => write_late(store.as_ref(), &stage, &stale).await,
            _ => work(number, round, store.as_ref(), &stage, &mut stale).await,
        }
    }
    panic!("claimer {number} gave up: {} of {JOBS} jobs are done", stage.referee().done.len());
}

async fn stage_call<T>(
    stage: &Stage,
    call: impl Future<Output = Result<T, windlass_core::error::StoreError>>,
) -> T {
    let _moment = stage.moment.read().await;
    call.await.expect("a healthy store answers")
}

/// The second half comes while the first is worked on, each job from several sides.
async fn enqueue_more(number: u64, round: u32, store: &dyn Store, stage: &Stage) {
    let from = JOBS / 2 + u128::from(round) % (JOBS / 8) * 4 + 1;
    let jobs: Vec<NewJob> = (from..from + 4).filter(|n| *n <= JOBS).map(one_of_many).collect();
    let answers = stage_call(stage, store.enqueue(jobs)).await;
    let mut referee = stage.referee();
    for answer in answers.iter().filter(|answer| !answer.deduplicated) {
        assert!(referee.accepted.insert(answer.id), "claimer {number} made job {} anew", answer.id);
    }
}

/// Time passes for all; what has run out by then is not surely held any more.
async fn pass_time(stage: &Stage, ms: u64) {
    let clock = stage.moment.write().await;
    clock.advance(ms);
    stage.referee().now = Some(clock.wall());
}

/// A worker that was cut off comes back, and others have its jobs: nothing it says may count.
async fn write_late(store: &dyn Store, stage: &Stage, stale: &[LeaseRef]) {
    let _moment = stage.moment.read().await;
    let late: Vec<Settlement> = {
        let referee = stage.referee();
        let lost = stale.iter().filter(|lease| referee.fences[&lease.job_id] > lease.fence);
        lost.map(|lease| Settlement { lease: *lease, outcome: Outcome::Released }).collect()
    };
    let answers = store.settle(late).await.expect("a healthy store answers");
    assert!(answers.iter().all(|answer| *answer == Written::Lost), "a late write counted: {answers:?}");
    stage.referee().refused += answers.len();
}

/// Claims, looks, and ends what was claimed: completes, gives back, or crashes.
async fn work(number: u64, round: u32, store: &dyn Store, stage: &Stage, stale: &mut Vec<LeaseRef>) {
    let request = ClaimRequest {
        request_id: Uuid::from_u128((u128::from(number) << 64) | u128::from(round)),
        worker: worker(&format!("claimer {number}")),
        queues: vec![queue("q")],
        kinds: None,
        limit: 1 + round % 3,
        lease_ms: None,
    };
    let leases = {
        let _moment = stage.moment.read().await;
        let answer = store.claim(request).await.expect("a healthy store answers");
        let mut referee = stage.referee();
        answer.leases.iter().for_each(|leased| referee.grant(leased));
        answer.leases
    };
    tokio::task::yield_now().await;
    for (at, leased) in leases.iter().enumerate() {
        let dice = (u64::from(round) + number + at as u64) % 7;
        let outcome = match dice {
            0 => {
                stale.push(leased.lease_ref());
                continue;
            }
            1 => Outcome::Released,
            2 => retry_with("again"),
            _ => Outcome::DONE,
        };
        settle(store, stage, leased, outcome).await;
    }
    if stale.len() > 20 {
        stale.drain(..10);
    }
}

async fn settle(store: &dyn Store, stage: &Stage, leased: &Leased, outcome: Outcome) {
    let lease = leased.lease_ref();
    let _moment = stage.moment.read().await;
    let held = stage.referee().take(&lease);
    let completes = outcome == Outcome::DONE;
    let answers = store.settle(vec![Settlement { lease, outcome }]).await.expect("a healthy store answers");
    let mut referee = stage.referee();
    match (held, answers[0]) {
        (Held::Surely | Held::Perhaps, Written::Done) if completes => {
            assert!(referee.done.insert(lease.job_id), "job {} was completed twice", lease.job_id);
        }
        (Held::Surely | Held::Perhaps, Written::Done) => {}
        (Held::Perhaps, Written::Lost) => referee.crashed += 1,
        (Held::No, Written::Lost) => referee.refused += 1,
        (held, answer) => panic!("job {}: held {held:?}, answered {answer:?}", lease.job_id),
    }
}

/// Whether a lease is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Held {
    Surely,
    /// It has run out, and may have been taken back.
    Perhaps,
    No,
}

/// What is held, surely or perhaps, and what has come of all grants.
#[derive(Debug, Default)]
struct Referee {
    /// The time, once it has passed.
    now: Option<Time>,
    held: HashMap<JobId, Grant>,
    fences: HashMap<JobId, u64>,
    accepted: HashSet<JobId>,
    done: HashSet<JobId>,
    rated: BTreeMap<i64, usize>,
    crashed: usize,
    refused: usize,
}

#[derive(Debug, Clone)]
struct Grant {
    fence: u64,
    expires_at: Time,
    key: Option<String>,
    slots: bool,
}

impl Referee {
    fn is_sure(&self, grant: &Grant) -> bool {
        self.now.is_none_or(|now| grant.expires_at > now)
    }

    /// Takes a lease out, when it may be held.
    fn take(&mut self, lease: &LeaseRef) -> Held {
        let Some(grant) = self.held.get(&lease.job_id).filter(|grant| grant.fence == lease.fence) else {
            return Held::No;
        };
        let held = if self.is_sure(grant) { Held::Surely } else { Held::Perhaps };
        self.held.remove(&lease.job_id);
        held
    }

    /// Looks at a new grant beside all that are held.
    fn grant(&mut self, leased: &Leased) {
        let job = &leased.job;
        let names = |name: &str| job.spec.budgets.iter().any(|budget| budget.as_str() == name);
        let grant = Grant {
            fence: job.fence,
            expires_at: job.lease().expect("a grant is a lease").expires_at,
            key: job.spec.key.as_ref().map(|key| key.to_string()),
            slots: names("slots"),
        };
        assert!(!self.done.contains(&job.id), "job {} was done and is given again", job.id);
        let before = self.fences.insert(job.id, grant.fence);
        assert!(before.is_none_or(|fence| fence < grant.fence), "the fence of {} did not rise", job.id);
        let sure: Vec<&Grant> = self.held.values().filter(|held| self.is_sure(held)).collect();
        let same_key = |held: &&&Grant| grant.key.is_some() && held.key == grant.key;
        assert!(sure.iter().find(same_key).is_none(), "key {:?} runs twice", grant.key);
        let slots = sure.iter().filter(|held| held.slots).count() + usize::from(grant.slots);
        assert!(slots <= SLOTS, "{slots} jobs use {SLOTS} slots");
        assert!(sure.len() < LIMIT, "more than {LIMIT} jobs of the queue run");
        if names("rate") {
            *self.rated.entry(job.started_at.expect("a running job has started").ms()).or_default() += 1;
        }
        if let Some(before) = self.held.insert(job.id, grant) {
            assert!(!self.is_sure(&before), "job {} is held twice", job.id);
            self.crashed += 1;
        }
    }

    fn check_rate(&self) {
        for from in self.rated.keys() {
            let sum: usize = self.rated.range(*from..from + 1_000).map(|(_, count)| count).sum();
            assert!(sum <= PER_SECOND, "{sum} starts in one second; {PER_SECOND} were allowed");
        }
    }
}
