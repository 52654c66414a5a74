//! Which sequences are made: often what changes much, seldom what ends much.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::op::{End, Fence, Op, Plan, Policy, Seed, Wish};

/// Sequences of up to so many operations.
pub fn plans(ops_max: usize) -> impl Strategy<Value = Plan> {
    vec(op(), 1..=ops_max).prop_map(Plan)
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        18 => vec(seed(), 1..5).prop_map(Op::Enqueue),
        22 => claim(),
        3 => any::<usize>().prop_map(|which| Op::ClaimAgain { which }),
        5 => vec((job(), fence()), 1..4).prop_map(Op::Renew),
        5 => vec((job(), fence(), 0u8..4), 1..4).prop_map(Op::Steps),
        3 => vec((job(), fence()), 1..3).prop_map(Op::Progress),
        20 => vec((job(), fence(), end()), 1..4).prop_map(Op::Settle),
        6 => job().prop_map(Op::Cancel),
        5 => job().prop_map(Op::Retry),
        7 => Just(Op::Expire),
        2 => Just(Op::Prune),
        14 => advance(),
        20 => settings(),
    ]
}

fn settings() -> impl Strategy<Value = Op> {
    prop_oneof![
        2 => (0u8..2, any::<bool>()).prop_map(|(queue, paused)| Op::Pause { queue, paused }),
        4 => (0u8..2, policy()).prop_map(|(queue, policy)| Op::PutQueue { queue, policy }),
        4 => (0u8..2, option::of(0u32..3), option::of(0u32..3), option::of(0u32..5)).prop_map(
            |(budget, slots, per_second, per_day)| Op::PutBudget { budget, slots, per_second, per_day }
        ),
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
    let lease_ms = prop_oneof![3 => Just(None), 1 => Just(Some(100)), 1 => Just(Some(5_000))];
    (0u8..2, queues, kinds, prop_oneof![Just(1u32), Just(2), Just(5), Just(50), Just(0)], lease_ms).prop_map(
        |(worker, queues, kinds, limit, lease_ms)| Op::Claim { worker, queues, kinds, limit, lease_ms },
    )
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
        prop::bool::weighted(0.2),
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
