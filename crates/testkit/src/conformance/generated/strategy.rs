//! Which sequences are made: often what changes much, seldom what ends much.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use windlass_core::policy::budget::BudgetPolicy;

use super::op::{
    End, Fence, Guess, Handle, Hint, Ink, Lasting, Op, Pen, Plan, Policy, Seed, Share, Theft, Turn, Wish,
};

/// Sequences of up to so many operations, or a few more: some of them come as episodes.
pub fn plans(ops_max: usize) -> impl Strategy<Value = Plan> {
    let part = prop_oneof![12 => turn().prop_map(|turn| vec![turn]), 1 => episode(), 1 => bounded(), 1 => stocktaking(), 1 => cut()];
    vec(part, 1..=ops_max).prop_map(move |parts| {
        let mut turns = Vec::new();
        for part in parts {
            if turns.len() < ops_max {
                turns.extend(part);
            }
        }
        Plan(turns)
    })
}

fn turn() -> impl Strategy<Value = Turn> {
    (handle(), hint(), op()).prop_map(|(by, hint, op)| Turn { by, hint, op })
}

fn handle() -> impl Strategy<Value = Handle> {
    prop_oneof![3 => Just(Handle::First), 2 => Just(Handle::Second)]
}

/// Mostly tickets come back as they were given.
fn hint() -> impl Strategy<Value = Hint> {
    prop_oneof![
        8 => Just(Hint::Own),
        2 => Just(Hint::Nothing),
        1 => (0usize..70).prop_map(Hint::Other),
        1 => (2u8..5).prop_map(Hint::Some),
        1 => (any::<usize>(), 1u8..).prop_map(|(byte, by)| Hint::Forged { byte, by }),
    ]
}

/// Jobs that are alike are claimed by one handle, some of them end by the other, often without a trace, and what
/// was said of them is said again by both: what chance would take long to put together.
fn episode() -> impl Strategy<Value = Vec<Turn>> {
    let keeps = prop_oneof![2 => Just(Keeps::Nothing), 2 => Just(Keeps::UntilPruned), 1 => Just(Keeps::All)];
    let jobs = prop_oneof![4 => 2usize..8, 1 => 60usize..70, 1 => 8usize..=200];
    let limit = prop_oneof![Just(3u32), Just(50), Just(300)];
    let ending = (prop::bool::weighted(0.8), share(), hint(), ends(), vec((handle(), hint()), 1..4));
    (0u8..2, keeps, jobs, limit, handle(), option::weighted(0.3, op()), ending).prop_map(
        |(queue, keeps, jobs, limit, by, other, (elsewhere, share, hint, ends, repeats))| {
            let ender = if elsewhere { by.other() } else { by };
            let claim = Op::Claim { worker: 0, queues: vec![queue], kinds: None, limit, lease_ms: None };
            let mut turns = vec![
                Turn::new(by, Op::PutQueue { queue, policy: keeps.policy() }),
                Turn::new(ender, Op::EnqueueAlike { queue, kind: 0, jobs }),
                Turn::new(by, claim),
            ];
            turns.extend(other.map(|op| Turn::new(ender, op)));
            turns.push(Turn { by: ender, hint, op: Op::SettleClaim { which: 0, share, ends } });
            turns.extend((keeps == Keeps::UntilPruned).then_some(Turn::new(by, Op::Prune)));
            let again = |(by, hint)| Turn { by, hint, op: Op::SettleAgain { which: 0 } };
            turns.extend(repeats.into_iter().map(again));
            turns
        },
    )
}

/// A limit, a budget that is defined before the jobs that name it or when they are ready, and keys of several kinds bound
/// claims by both handles, which are asked again by either, while some of what they gave ends.
fn bounded() -> impl Strategy<Value = Vec<Turn>> {
    let claims = vec((handle(), claim(), prop::bool::weighted(0.3), option::weighted(0.4, ends())), 2..6);
    let jobs = (vec(wish(), 2..12), vec(wish(), 0..4));
    let bounds = (option::weighted(0.5, 1u32..5), bounds(), any::<bool>(), prop::bool::weighted(0.2));
    (0u8..2, 0u8..2, bounds, jobs, claims).prop_map(|(queue, budget, bounds, (jobs, more), claims)| {
        let (limit, policy, late, deleted) = bounds;
        let first = |op| Turn::new(Handle::First, op);
        let seeds = |jobs: Vec<Wish>| Op::Enqueue(jobs.into_iter().map(Seed::New).collect());
        let queue_policy = Policy { limit, ..Keeps::All.policy() };
        let mut turns = vec![first(Op::PutQueue { queue, policy: queue_policy }), first(seeds(jobs))];
        turns.insert(usize::from(late) * 2, first(Op::PutBudget { budget, policy }));
        turns.push(first(seeds(more)));
        for (by, claim, again, ends) in claims {
            turns.push(Turn::new(by, claim));
            turns.extend(again.then_some(Turn::new(by.other(), Op::ClaimAgain { which: 0 })));
            let settle = |ends| Op::SettleClaim { which: 0, share: Share::First, ends };
            turns.extend(ends.map(|ends| Turn::new(by.other(), settle(ends))));
        }
        turns.extend(deleted.then_some(first(Op::DeleteBudget { budget })));
        turns.push(first(Op::Claim {
            worker: 0,
            queues: vec![0, 1],
            kinds: None,
            limit: 50,
            lease_ms: None,
        }));
        turns
    })
}

/// The history is cut between leases of several lengths and policies that change them, and what is held back is asked for
/// until it is free: what is fixed when an epoch begins must not be changed by what comes after it.
fn cut() -> impl Strategy<Value = Vec<Turn>> {
    let before = vec((handle(), lengths(), advance()), 0..3);
    let after = vec((handle(), lengths(), pauses()), 1..5);
    (0u8..2, 1usize..5, before, after).prop_map(|(queue, jobs, before, after)| {
        let ask = |lease_ms| Op::Claim { worker: 1, queues: vec![queue], kinds: None, limit: 1, lease_ms };
        let say = |by, lengths: (u32, Option<u32>), passes: Op| {
            let policy = Policy { lease_ms: lengths.0, ..Keeps::All.policy() };
            [Op::PutQueue { queue, policy }, ask(lengths.1), passes].map(|op| Turn::new(by, op))
        };
        let first = |op| Turn::new(Handle::First, op);
        let mut turns = vec![first(Op::EnqueueAlike { queue, kind: 0, jobs })];
        turns.extend(before.into_iter().flat_map(|(by, lengths, passes)| say(by, lengths, passes)));
        turns.extend([first(Op::Cut), first(Op::EnqueueAlike { queue, kind: 0, jobs })]);
        turns.extend(after.into_iter().flat_map(|(by, lengths, passes)| say(by, lengths, passes)));
        turns.push(first(ask(None)));
        turns
    })
}

/// How long leases of a queue are, and that of a claim from it.
fn lengths() -> impl Strategy<Value = (u32, Option<u32>)> {
    let longs = || prop_oneof![Just(5_000u32), Just(30_000), Just(61_000), Just(1_200_000)];
    (longs(), option::weighted(0.6, longs()))
}

/// Time that passes in a pause, also past its end; or nobody looked at what can be forgotten.
fn pauses() -> impl Strategy<Value = Op> {
    let ms = prop_oneof![Just(0u64), Just(4_999), Just(25_001), Just(31_000), Just(840_000)];
    prop_oneof![4 => ms.prop_map(|ms| Op::Advance { ms }), 1 => Just(Op::Prune)]
}

/// A shelf is filled by one handle, changed by both, and looked at in some order by either.
fn stocktaking() -> impl Strategy<Value = Vec<Turn>> {
    let stock = vec(ink(), 3..=5);
    let changes = vec((handle(), records()), 0..4);
    let looks = vec((handle(), 0u8..3, any::<bool>(), option::weighted(0.3, 0u8..2), 1u32..4), 1..4);
    (0u8..2, handle(), stock, changes, looks).prop_map(|(shelf, by, stock, changes, looks)| {
        let pen = |(key, ink)| Pen { shelf, key, guess: Guess::Any, ink: Some(ink) };
        let pens = (0u8..).zip(stock).map(pen).collect();
        let mut turns = vec![Turn::new(by, Op::Write { lease: None, pens, jobs: vec![] })];
        turns.extend(changes.into_iter().map(|(by, op)| Turn::new(by, op)));
        turns.extend(looks.into_iter().map(|(by, order, descending, label, limit)| {
            Turn::new(by, Op::Scan { shelf, order, descending, prefix: 0, label, limit })
        }));
        turns
    })
}

/// What an episode's queue keeps of its finished jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keeps {
    Nothing,
    UntilPruned,
    All,
}

impl Keeps {
    fn policy(self) -> Policy {
        Policy {
            limit: None,
            ladder: 1,
            max_attempts: None,
            lease_ms: 30_000,
            fail_on_crash: false,
            crashes_max: 3,
            retention_days: 30,
            finished_max: if self == Self::UntilPruned { 0 } else { 10_000_000 },
            delete_finished: self == Self::Nothing,
            ageing_ms: None,
        }
    }
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        18 => vec(seed(), 1..5).prop_map(Op::Enqueue),
        4 => alike(),
        22 => claim(),
        4 => any::<usize>().prop_map(|which| Op::ClaimAgain { which }),
        2 => (recent(), theft()).prop_map(|(which, theft)| Op::ClaimStolen { which, theft }),
        5 => vec((job(), fence()), 1..4).prop_map(Op::Renew),
        5 => vec((job(), fence(), 0u8..4), 1..4).prop_map(Op::Steps),
        3 => vec((job(), fence()), 1..3).prop_map(Op::Progress),
        20 => vec((job(), fence(), end()), 1..4).prop_map(Op::Settle),
        3 => (recent(), share()).prop_map(|(which, share)| Op::RenewClaim { which, share }),
        14 => (recent(), share(), ends())
            .prop_map(|(which, share, ends)| Op::SettleClaim { which, share, ends }),
        8 => recent().prop_map(|which| Op::SettleAgain { which }),
        1 => Just(Op::Restart),
        1 => Just(Op::Cut),
        6 => steered().prop_map(Op::Cancel),
        5 => steered().prop_map(Op::Retry),
        4 => steered().prop_map(Op::RunNow),
        3 => vec((job(), 0u8..4), 1..6).prop_map(Op::Rerun),
        3 => steered().prop_map(Op::Delete),
        4 => Just(Op::Expire),
        5 => two_looks(),
        4 => Just(Op::Prune),
        14 => advance(),
        20 => settings(),
        36 => records(),
    ]
}

fn records() -> impl Strategy<Value = Op> {
    let lease = option::weighted(0.25, (job(), fence()));
    let jobs = prop_oneof![3 => Just(vec![]), 1 => vec(seed(), 1..3)];
    let limit = prop_oneof![Just(1u32), Just(2), Just(1_000)];
    // A prefix is for one order alone: mostly it is asked for there.
    let ordered = prop_oneof![2 => (Just(0u8), 0u8..4), 4 => (1u8..3, Just(0u8)), 1 => (0u8..3, 0u8..4)];
    let label = option::weighted(0.4, 0u8..2);
    prop_oneof![
        8 => (lease, vec(pen(), 0..4), jobs).prop_map(|(lease, pens, jobs)| Op::Write { lease, pens, jobs }),
        2 => recent().prop_map(|which| Op::WriteAgain { which }),
        4 => (0u8..2, ordered, any::<bool>(), label, limit).prop_map(
            |(shelf, (order, prefix), descending, label, limit)| Op::Scan {
                shelf, order, descending, prefix, label, limit
            }
        ),
        1 => (0u8..2, vec(0u8..5, 0..6), 0u8..4)
            .prop_map(|(shelf, keys, prefix)| Op::Read { shelf, keys, prefix }),
    ]
}

fn pen() -> impl Strategy<Value = Pen> {
    let guess = prop_oneof![
        4 => Just(Guess::Any),
        1 => Just(Guess::Absent),
        3 => Just(Guess::Right),
        1 => any::<usize>().prop_map(Guess::Wrong),
    ];
    (0u8..2, 0u8..5, guess, option::weighted(0.8, ink())).prop_map(|(shelf, key, guess, ink)| Pen {
        shelf,
        key,
        guess,
        ink,
    })
}

fn ink() -> impl Strategy<Value = Ink> {
    let keep = prop_oneof![
        3 => Just(Lasting::Forever),
        1 => times().prop_map(Lasting::For),
        1 => times().prop_map(Lasting::Until),
    ];
    (0u8..10, -2i64..3, option::of(0u8..2), keep).prop_map(|(value, sort, label, keep)| Ink {
        value,
        sort,
        label,
        keep,
    })
}

fn bounds() -> impl Strategy<Value = BudgetPolicy> {
    (option::of(0u32..3), option::of(0u32..3), option::of(0u32..4), option::of(0u32..5)).prop_map(
        |(slots, per_second, per_minute, per_day)| BudgetPolicy { slots, per_second, per_minute, per_day },
    )
}

fn settings() -> impl Strategy<Value = Op> {
    prop_oneof![
        2 => (0u8..2, any::<bool>()).prop_map(|(queue, paused)| Op::Pause { queue, paused }),
        4 => (0u8..2, policy()).prop_map(|(queue, policy)| Op::PutQueue { queue, policy }),
        4 => (0u8..2, bounds()).prop_map(|(budget, policy)| Op::PutBudget { budget, policy }),
        1 => (0u8..3).prop_map(|queue| Op::DeleteQueue { queue }),
        1 => (0u8..3).prop_map(|budget| Op::DeleteBudget { budget }),
        2 => (0u8..2, times()).prop_map(|(budget, for_ms)| Op::CoolDown { budget, for_ms }),
        3 => (0u8..3, 0u32..4).prop_map(|(budget, amount)| Op::Spend { budget, amount }),
        3 => (0u8..2, 0u8..3, 0u8..3, any::<bool>(), prop::bool::weighted(0.2)).prop_map(
            |(schedule, rule, missed, skip, paused)| Op::PutSchedule { schedule, rule, missed, skip, paused }
        ),
        1 => (0u8..2).prop_map(|schedule| Op::DeleteSchedule { schedule }),
        5 => Just(Op::Fire),
        2 => (0u8..2, any::<bool>()).prop_map(|(worker, picky)| Op::Beat { worker, picky }),
        1 => (0u8..2).prop_map(|worker| Op::Forget { worker }),
    ]
}

fn claim() -> impl Strategy<Value = Op> {
    let queues =
        prop_oneof![3 => Just(vec![0, 1]), 1 => Just(vec![0]), 1 => Just(vec![1, 1]), 1 => Just(vec![2, 0])];
    let kinds = prop_oneof![4 => Just(None), 1 => Just(Some(vec![0])), 1 => Just(Some(vec![1, 0]))];
    let lease_ms =
        prop_oneof![6 => Just(None), 2 => Just(Some(100)), 2 => Just(Some(5_000)), 1 => Just(Some(61_000))];
    (
        0u8..2,
        queues,
        kinds,
        prop_oneof![3 => Just(1u32), 3 => Just(2), 3 => Just(5), 3 => Just(50), 1 => Just(0), 1 => Just(300)],
        lease_ms,
    )
        .prop_map(|(worker, queues, kinds, limit, lease_ms)| Op::Claim {
            worker,
            queues,
            kinds,
            limit,
            lease_ms,
        })
}

fn alike() -> impl Strategy<Value = Op> {
    let jobs = prop_oneof![6 => 1usize..8, 2 => 60usize..70, 1 => 8usize..=200];
    (0u8..2, 0u8..2, jobs).prop_map(|(queue, kind, jobs)| Op::EnqueueAlike { queue, kind, jobs })
}

fn theft() -> impl Strategy<Value = Theft> {
    prop_oneof![Just(Theft::Worker), Just(Theft::Queues), Just(Theft::Kinds), Just(Theft::Order)]
}

fn share() -> impl Strategy<Value = Share> {
    prop_oneof![
        2 => Just(Share::All),
        2 => Just(Share::First),
        2 => any::<bool>().prop_map(|odd| Share::Half { odd }),
    ]
}

/// Mostly all is well; sometimes one of many is not.
fn ends() -> impl Strategy<Value = Vec<End>> {
    prop_oneof![
        3 => Just(vec![End::Done]),
        1 => Just(vec![End::Done, End::DoneWithResult]),
        2 => (end(), 1usize..5).prop_map(|(end, done)| {
            let mut ends = vec![End::Done; done];
            ends.push(end);
            ends
        }),
        1 => vec(end(), 1..4),
    ]
}

/// The newest few, counted from the end.
fn recent() -> impl Strategy<Value = usize> {
    prop_oneof![4 => 0usize..2, 2 => 2usize..6, 1 => 6usize..30]
}

fn seed() -> impl Strategy<Value = Seed> {
    prop_oneof![
        12 => wish().prop_map(Seed::New),
        1 => any::<usize>().prop_map(Seed::Again),
        1 => any::<usize>().prop_map(Seed::Clash),
    ]
}

fn wish() -> impl Strategy<Value = Wish> {
    let priority = prop_oneof![4 => Just(0i16), 1 => Just(1), 1 => Just(-1)];
    let delay_ms = prop_oneof![4 => Just(0u64), 2 => times()];
    let budgets =
        prop_oneof![3 => Just(vec![]), 1 => Just(vec![0]), 1 => Just(vec![0, 1]), 1 => Just(vec![2])];
    let key = option::weighted(0.4, 0u8..2);
    let dedupe = option::weighted(0.25, 0u8..2);
    let ladder = option::weighted(0.2, 0u8..3);
    (0u8..2, 0u8..2, priority, key, dedupe, budgets, ladder, delay_ms).prop_map(
        |(queue, kind, priority, key, dedupe, budgets, ladder, delay_ms)| Wish {
            queue,
            kind,
            priority,
            key,
            dedupe,
            budgets,
            ladder,
            delay_ms,
        },
    )
}

fn policy() -> impl Strategy<Value = Policy> {
    let limits = (option::of(1u32..3), 0u8..3, option::of(1u32..3), prop_oneof![Just(100u32), Just(30_000)]);
    let ends = (prop::bool::weighted(0.2), 1u32..4, prop_oneof![Just(0u32), Just(1), Just(30)]);
    let keeps = (
        prop_oneof![Just(0u64), Just(2), Just(10_000_000)],
        prop::bool::weighted(0.3),
        option::weighted(0.3, prop_oneof![Just(1_000u64), Just(60_000)]),
    );
    (limits, ends, keeps).prop_map(|(limits, ends, keeps)| Policy {
        limit: limits.0,
        ladder: limits.1,
        max_attempts: limits.2,
        lease_ms: limits.3,
        fail_on_crash: ends.0,
        crashes_max: ends.1,
        retention_days: ends.2,
        finished_max: keeps.0,
        delete_finished: keeps.1,
        ageing_ms: keeps.2,
    })
}

fn job() -> impl Strategy<Value = usize> {
    0usize..24
}

/// Jobs that are canceled or retried in one call, some of them twice.
fn steered() -> impl Strategy<Value = Vec<usize>> {
    prop_oneof![3 => vec(job(), 1..2), 1 => vec(job(), 2..40)]
}

fn fence() -> impl Strategy<Value = Fence> {
    prop_oneof![8 => Just(Fence::Current), 1 => Just(Fence::Older), 1 => Just(Fence::Newer)]
}

fn end() -> impl Strategy<Value = End> {
    prop_oneof![
        4 => Just(End::Done),
        1 => Just(End::DoneWithResult),
        4 => Just(End::Retry),
        1 => times().prop_map(End::RetryIn),
        2 => Just(End::Failed),
        1 => times().prop_map(End::Park),
        2 => Just(End::Release),
        1 => Just(End::Cancel),
    ]
}

fn times() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0u64), Just(1), Just(40), Just(1_000), Just(5_000), Just(61_000)]
}

/// As a dead worker's lease is taken back, and as one is that nobody has looked at for too long.
fn two_looks() -> impl Strategy<Value = Op> {
    let first = prop_oneof![Just(67u64), Just(3_400), Just(20_000), Just(30_000), Just(600_000)];
    let second = prop_oneof![
        Just(1_000u64),
        Just(1_666),
        Just(2_001),
        Just(3_333),
        Just(10_000),
        Just(20_000),
        Just(20_001),
    ];
    (first, second).prop_map(|(first_ms, second_ms)| Op::TwoLooks { first_ms, second_ms })
}

fn advance() -> impl Strategy<Value = Op> {
    let ms = prop_oneof![
        4 => times(),
        2 => Just(100u64),
        2 => Just(30_000),
        1 => Just(600_000),
        1 => Just(3_600_000),
        1 => Just(86_400_000),
    ];
    ms.prop_map(|ms| Op::Advance { ms })
}
