//! Failovers under load, seen from outside: what was handed out is written down by whoever got it, and compared with what
//! may be handed out after commits were lost.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use windlass_core::id::{BudgetName, JobId, Key, QueueName, StepName};
use windlass_core::job::{Job, NewJob};
use windlass_core::json::Json;
use windlass_core::policy::budget::BudgetPolicy;
use windlass_core::policy::queue::QueuePolicy;
use windlass_core::state::StateName;
use windlass_core::store::{ClaimRequest, LeaseRef, Leased, Source, StepWrite, Store, Written};
use windlass_core::time::{Clock, Time};
use windlass_core::transition::Outcome;
use windlass_postgres::{Options, PostgresStore};
use windlass_testkit::clock::FakeClock;
use windlass_testkit::conformance::id_at;
use windlass_testkit::eventually::eventually;
use windlass_testkit::postgres::Server;

use crate::scene::{ends, job, queue, wish};

const WORKERS: usize = 4;
const JOBS: u128 = 48;
/// How many may run at once of the queue with a limit, and of the budget with slots.
const AT_ONCE: usize = 2;

fn limited() -> QueueName {
    QueueName::new("limited").expect("a name")
}

fn slots() -> BudgetName {
    BudgetName::new("slots").expect("a name")
}

/// A job of one of four sorts: with a key, of a queue with a limit, with a budget, or plain.
fn mixed(n: u128) -> NewJob {
    let mut job = job(n);
    match n % 4 {
        0 => job.spec.key = Some(Key::new(format!("shop {}", n % 3)).expect("a key")),
        1 => job.spec.queue = limited(),
        2 => job.spec.budgets = vec![slots()],
        _ => {}
    }
    job
}

/// What the world outside knows: every lease that was ever given, and which of them somebody may still work with.
#[derive(Default)]
struct Outside {
    given: HashSet<(JobId, u64)>,
    held: HashMap<JobId, (Leased, Time)>,
}

impl Outside {
    fn hear(&mut self, leased: &Leased, now: Time) {
        let Job { id, fence, ref spec, .. } = leased.job;
        assert!(self.given.insert((id, fence)), "{id} was given twice with fence {fence}");
        let others: Vec<&Job> =
            self.held.values().filter(|(_, until)| *until > now).map(|(held, _)| &held.job).collect();
        let same = |other: &&&Job| other.id == id || spec.key.is_some() && other.spec.key == spec.key;
        assert!(!others.iter().any(|other| same(&other)), "{id} is held by another, or its key");
        let alike = |is: &dyn Fn(&Job) -> bool| others.iter().filter(|other| is(other)).count();
        if spec.queue == limited() {
            assert!(alike(&|other| other.spec.queue == limited()) < AT_ONCE, "the limit");
        }
        if spec.budgets.contains(&slots()) {
            assert!(alike(&|other| other.spec.budgets.contains(&slots())) < AT_ONCE, "the slots");
        }
        let until = leased.job.lease().expect("a lease").expires_at;
        self.held.insert(id, (leased.clone(), until));
    }

    /// The leases that somebody still works with.
    fn open(&self) -> Vec<LeaseRef> {
        self.held.values().map(|(leased, _)| leased.lease_ref()).collect()
    }
}

struct Fleet {
    stores: Vec<Arc<PostgresStore>>,
    clock: FakeClock,
    outside: Outside,
}

impl Fleet {
    async fn new(url: &str, clock: FakeClock) -> Self {
        let mut stores = Vec::new();
        for _ in 0..WORKERS {
            let options = Options { clock: Some(Arc::new(clock.clone())), ..Options::default() };
            stores.push(PostgresStore::connect_with(url, options).await.expect("a store"));
        }
        Self { stores, clock, outside: Outside::default() }
    }

    /// All claim at once, store a step, and end every job but each third. Answers how many were given.
    async fn round(&mut self, holds: bool) -> usize {
        let claims = self.stores.iter().map(|store| {
            let store = Arc::clone(store);
            let request = ClaimRequest { queues: vec![queue(), limited()], ..wish(2) };
            tokio::spawn(async move {
                eventually("a claim is answered", async || store.claim(request.clone()).await.ok()).await
            })
        });
        let mut given = Vec::new();
        for claim in claims.collect::<Vec<_>>() {
            given.extend(claim.await.expect("no panic").leases);
        }
        for leased in &given {
            self.outside.hear(leased, self.clock.wall());
        }
        for (at, leased) in given.iter().enumerate().filter(|(at, _)| !holds || at % 3 > 0) {
            let (store, lease) = (&self.stores[at % WORKERS], leased.lease_ref());
            let name = StepName::new("fetch").expect("a name");
            let step = StepWrite { lease, name, output: Json::payload("[1]").expect("JSON") };
            assert_eq!(store.store_steps(vec![step]).await.expect("a step"), [Written::Done]);
            assert_eq!(self.end(lease).await, Written::Done);
        }
        given.len()
    }

    async fn end(&mut self, lease: LeaseRef) -> Written {
        let store = &self.stores[0];
        let settled = eventually("a settlement is answered", async || {
            store.settle(ends(&[lease], &Outcome::DONE)).await.ok()
        });
        let written = settled.await[0];
        if written == Written::Done {
            self.outside.held.remove(&lease.job_id);
        }
        written
    }
}

/// An asynchronous standby takes over without the newest claims, steps, ends and jobs. Nothing is given twice, nobody works where
/// another may, no end of the lost history is taken, and what the standby had is brought to its end.
#[tokio::test(flavor = "multi_thread")]
async fn commits_that_are_lost_under_load() {
    let primary = Server::own().await;
    let standby = Server::standby_of(&primary).await;
    let url = format!("postgres://postgres@{},{}/postgres", primary.authority(), standby.authority());
    let mut fleet = Fleet::new(&url, FakeClock::default()).await;
    let store = Arc::clone(&fleet.stores[0]);
    let two = QueuePolicy { limit: Some(AT_ONCE as u32), ..QueuePolicy::default() };
    store.put_queue(limited(), two).await.expect("a queue");
    let policy = BudgetPolicy { slots: Some(AT_ONCE as u32), ..BudgetPolicy::default() };
    store.put_budget(slots(), policy).await.expect("a budget");
    store.enqueue((1..=JOBS).map(mixed).collect()).await.expect("jobs");
    assert!(fleet.round(true).await > 0);
    primary.until_followed_by(&standby).await;
    let kept = fleet.outside.open();
    standby.stop().await;
    // From here on nothing is replicated: claims, steps, ends, and jobs that were acknowledged.
    for _ in 0..3 {
        assert!(fleet.round(true).await > 0);
    }
    store.enqueue(vec![mixed(JOBS + 1)]).await.expect("a job that will be lost");
    let lost: Vec<LeaseRef> =
        fleet.outside.open().into_iter().filter(|lease| !kept.contains(lease)).collect();
    assert!(!lost.is_empty() && !kept.is_empty());
    primary.stop().await;
    standby.start().await;
    standby.promote();
    for lease in lost {
        assert_eq!(fleet.end(lease).await, Written::Lost, "an end of the lost history");
    }
    for lease in kept {
        assert_eq!(fleet.end(lease).await, Written::Done, "its claim was replicated");
    }
    assert_eq!(fleet.round(false).await, 0, "whatever was accepted before may be held by the lost history");
    let fresh = NewJob { id: id_at(fleet.clock.wall(), 7), ..job(7) };
    store.enqueue(vec![fresh]).await.expect("a job");
    assert_eq!(fleet.round(false).await, 1, "what nobody can hold starts at once");
    fleet.clock.advance(30_000);
    while fleet.round(false).await > 0 {}
    for n in 1..=JOBS {
        let found = store.get(mixed(n).id).await.expect("get").expect("it was replicated");
        assert_eq!((found.state.name(), found.crashes), (StateName::Completed, 0), "{n}");
    }
    assert_eq!(store.audit().await.expect("audit"), Vec::<String>::new());
}
