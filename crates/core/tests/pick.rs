//! The picker against the definition of what may run: `eligible`, asked of each job by itself.
//!
//! A claim of many is as many claims of one, and each of these takes the first job, in order of rank and acceptance, that
//! is asked for and that nothing holds back. Until the moment that it names, time alone frees no other.

use proptest::collection::vec;
use proptest::prelude::*;
use uuid::Uuid;
use windlass_core::book::Book;
use windlass_core::eligible::Explanation;
use windlass_core::id::{BudgetName, DedupeKey, JobId, Key, Kind, QueueName, WorkerName};
use windlass_core::job::{Job, JobSpec, NewJob, Start};
use windlass_core::json::Json;
use windlass_core::policy::budget::BudgetPolicy;
use windlass_core::policy::queue::QueuePolicy;
use windlass_core::state::State;
use windlass_core::store::{ClaimRequest, LeaseRef, Settlement};
use windlass_core::time::Time;
use windlass_core::transition::Outcome;

const BEGIN: Time = Time::from_ms(1_800_000_000_000);

#[derive(Debug, Clone)]
struct New {
    queue: usize,
    kind: usize,
    key: Option<usize>,
    budgets: u8,
    delay_ms: u64,
    priority: i16,
    dedupe: bool,
    /// An id that was made in the epoch, or before it.
    fresh: bool,
}

#[derive(Debug, Clone)]
enum Deed {
    Add(Vec<New>),
    Policy { queue: usize, limit: Option<u32>, ageing_ms: Option<u64>, paused: bool },
    Budget { budget: usize, policy: BudgetPolicy, cool_ms: u64 },
    Claim { queues: u8, kinds: Option<u8>, limit: u32, lease_ms: Option<u32> },
    End { which: usize, retry: bool },
    Turn { lossy: bool },
    Pass { ms: u64 },
}

fn deed() -> impl Strategy<Value = Deed> {
    let new = (
        0..3_usize,
        0..2_usize,
        prop_oneof![2 => Just(None), 2 => (0..3_usize).prop_map(Some)],
        prop_oneof![2 => Just(0_u8), 3 => 0..8_u8],
        prop_oneof![3 => Just(0_u64), 1 => 1..5_000_u64],
        -1..2_i16,
        any::<bool>(),
        any::<bool>(),
    );
    let new = new.prop_map(|(queue, kind, key, budgets, delay_ms, priority, dedupe, fresh)| New {
        queue,
        kind,
        key,
        budgets,
        delay_ms,
        priority,
        dedupe: dedupe && fresh,
        fresh,
    });
    let few = || prop_oneof![1 => Just(None), 3 => (1..4_u32).prop_map(Some)];
    let bounds = (few(), few(), few(), few()).prop_map(|(slots, per_second, per_minute, per_day)| {
        BudgetPolicy { slots, per_second, per_minute, per_day }
    });
    let spans = || prop_oneof![3 => 1..900_u64, 1 => 900..40_000_u64, 1 => Just(86_400_000_u64)];
    prop_oneof![
        6 => vec(new, 1..8).prop_map(Deed::Add),
        2 => (0..3_usize, few(), prop_oneof![Just(None), Just(Some(1_000_u64))], any::<bool>(), any::<bool>()).prop_map(
            |(queue, limit, ageing_ms, paused, really)| Deed::Policy { queue, limit, ageing_ms, paused: paused && really }),
        3 => (0..3_usize, bounds, prop_oneof![4 => Just(0_u64), 1 => 1..3_000_u64])
            .prop_map(|(budget, policy, cool_ms)| Deed::Budget { budget, policy, cool_ms }),
        6 => (1..8_u8, prop_oneof![Just(None), (1..4_u8).prop_map(Some)], 0..12_u32, prop_oneof![Just(None), Just(Some(50_000_u32))])
            .prop_map(|(queues, kinds, limit, lease_ms)| Deed::Claim { queues, kinds, limit, lease_ms }),
        4 => (any::<usize>(), any::<bool>()).prop_map(|(which, retry)| Deed::End { which, retry }),
        1 => any::<bool>().prop_map(|lossy| Deed::Turn { lossy }),
        4 => spans().prop_map(|ms| Deed::Pass { ms }),
    ]
}

fn queue(n: usize) -> QueueName {
    QueueName::new(format!("q{n}")).expect("a name")
}

fn kind(n: usize) -> Kind {
    Kind::new(format!("k{n}")).expect("a kind")
}

fn budget(n: usize) -> BudgetName {
    BudgetName::new(format!("b{n}")).expect("a name")
}

struct World {
    book: Book,
    now: Time,
    next: u128,
}

impl World {
    fn id(&mut self, fresh: bool) -> Uuid {
        self.next += 1;
        let ms = if fresh { self.now.ms() } else { 0 };
        // Version 7, so that it says when it was made.
        Uuid::from_u128(((ms as u128) << 80) | (7 << 76) | (2 << 62) | self.next)
    }

    fn add(&mut self, new: &[New]) {
        for New { queue: q, kind: k, key, budgets, delay_ms, priority, dedupe, fresh } in new.iter().cloned()
        {
            let id = JobId(self.id(fresh));
            let mut spec = JobSpec::new(kind(k), queue(q), Json::null());
            spec.key = key.map(|n| Key::new(format!("key{n}")).expect("a key"));
            spec.budgets = (0..3).filter(|n| budgets & (1 << n) != 0).map(budget).collect();
            spec.priority = priority;
            spec.dedupe_key = dedupe.then(|| DedupeKey::new(id.0.to_string()).expect("a key"));
            let start = if delay_ms == 0 { Start::Now } else { Start::AfterMs(delay_ms) };
            self.book.enqueue(vec![NewJob { id, spec, start }], self.now).expect("an enqueue");
        }
    }

    /// Those that are asked for, in order.
    fn wanted(&self, request: &ClaimRequest) -> Vec<Job> {
        let wanted = |job: &&Job| {
            matches!(job.state, State::Queued)
                && request.queues.contains(&job.spec.queue)
                && request.kinds.as_ref().is_none_or(|kinds| kinds.contains(&job.spec.kind))
        };
        let mut jobs: Vec<Job> = self.book.jobs().filter(wanted).cloned().collect();
        jobs.sort_by_key(|job| (job.rank, job.seq));
        jobs
    }

    /// The first that nothing holds back at `at`.
    fn first_free(&self, request: &ClaimRequest, at: Time) -> Option<JobId> {
        let free = |job: &Job| matches!(self.book.explain(job.id, at), Some(Explanation::Ready { .. }));
        self.wanted(request).into_iter().find(free).map(|job| job.id)
    }

    fn claim(&mut self, request: ClaimRequest) -> Result<(), TestCaseError> {
        let mut one_by_one = Self { book: self.book.clone(), now: self.now, next: self.next + 1_000 };
        let mut expected = Vec::new();
        while expected.len() < request.limit as usize {
            let first = one_by_one.first_free(&request, self.now);
            let request_id = one_by_one.id(true);
            let one = ClaimRequest { request_id, limit: 1, ..request.clone() };
            let would = one_by_one.book.would_claim(&one, self.now);
            let leases = one_by_one.book.claim(&one, self.now).expect("a claim").leases;
            let given = leases.first().map(|leased| leased.job.id);
            prop_assert_eq!(given, first);
            prop_assert_eq!(would, first.is_some());
            let Some(given) = given else { break };
            expected.push(given);
        }
        let answer = self.book.claim(&request, self.now).expect("a claim");
        let given: Vec<JobId> = answer.leases.iter().map(|leased| leased.job.id).collect();
        prop_assert_eq!(&given, &expected);
        prop_assert_eq!(self.book.budgets(self.now), one_by_one.book.budgets(self.now));
        if given.len() < request.limit as usize {
            let asks_at = answer.next_due_in_ms.map_or(86_400_000 * 40, |ms| ms.saturating_sub(1));
            let early = self.now.plus_ms(asks_at as i64);
            prop_assert_eq!(self.first_free(&request, early), None, "the hint is late");
        }
        Ok(())
    }

    fn act(&mut self, deed: &Deed) -> Result<(), TestCaseError> {
        match *deed {
            Deed::Add(ref new) => self.add(new),
            Deed::Policy { queue: n, limit, ageing_ms, paused } => {
                let policy = QueuePolicy { limit, ageing_ms, ..QueuePolicy::default() };
                self.book.put_queue(queue(n), policy, self.now).expect("a policy");
                self.book.pause_queue(queue(n), paused);
            }
            Deed::Budget { budget: n, policy, cool_ms } => {
                self.book.put_budget(budget(n), policy);
                if cool_ms > 0 {
                    self.book.cool_down(budget(n), cool_ms, self.now);
                }
            }
            Deed::Claim { queues, kinds, limit, lease_ms } => {
                let request = ClaimRequest {
                    request_id: self.id(true),
                    worker: WorkerName::new("w").expect("a name"),
                    queues: (0..3).filter(|n| queues & (1 << n) != 0).map(queue).collect(),
                    kinds: kinds.map(|kinds| (0..2).filter(|n| kinds & (1 << n) != 0).map(kind).collect()),
                    limit,
                    lease_ms,
                };
                self.claim(request)?;
            }
            Deed::End { which, retry } => {
                let running: Vec<LeaseRef> = self
                    .book
                    .jobs()
                    .filter(|job| matches!(job.state, State::Running(_)))
                    .map(|job| LeaseRef::new(job.id, job.fence))
                    .collect();
                if let Some(lease) = running.get(which % running.len().max(1)).copied() {
                    let outcome = match retry {
                        true => {
                            Outcome::Retry { error: "later".to_owned(), when: Some(Start::AfterMs(1_500)) }
                        }
                        false => Outcome::DONE,
                    };
                    self.book.settle(&[Settlement { lease, outcome }], self.now);
                }
            }
            Deed::Turn { lossy } => {
                let instance = self.id(true);
                self.book.turn(instance, 0, lossy, self.now);
            }
            Deed::Pass { ms } => self.now = self.now.plus_ms(ms as i64),
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_claim_takes_what_may_run_in_order_and_its_hint_is_never_late(deeds in vec(deed(), 1..50)) {
        let mut world = World { book: Book::new(), now: BEGIN, next: 0 };
        for deed in &deeds {
            world.act(deed)?;
        }
    }
}
