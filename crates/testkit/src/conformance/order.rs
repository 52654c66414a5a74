//! 8: the order of start, and that what is held back holds back nobody else.

use std::time::Duration;

use tokio::time::Instant;
use windlass_core::job::Start;
use windlass_core::policy::budget::BudgetPolicy;
use windlass_core::transition::Outcome;

use super::scene::*;
use crate::subject::Subject;

/// Within a queue and a priority, jobs start in the order of acceptance;
/// higher priorities go first, over all queues that are asked for.
pub async fn p08_first_come_first_served<S: Subject>() {
    let mut scene = Scene::<S>::new().await;
    scene.add((1..=3).map(job).collect()).await;
    scene.add(vec![job_with(4, |spec| spec.priority = 5), job_with(5, |spec| spec.priority = -5)]).await;
    scene.add(vec![job_with(6, |spec| spec.queue = queue("other")), job(7)]).await;
    scene
        .add(vec![job_with(8, |spec| spec.priority = i16::MAX), job_with(9, |spec| spec.priority = i16::MIN)])
        .await;
    scene.reopen().await;
    let mut order = Vec::new();
    for limit in [2, 1, 3, 10] {
        let leases = scene.claim_from(&["q", "other"], limit).await;
        order.extend(leases.iter().map(|leased| number(leased.job.id)));
    }
    assert_eq!(order, [8, 4, 1, 2, 3, 6, 7, 5, 9]);
}

/// A job that was given back or failed keeps its place in the order of acceptance.
pub async fn p08_a_job_keeps_its_place<S: Subject>() {
    let scene = Scene::<S>::new().await;
    scene.add((1..=3).map(job).collect()).await;
    let first = scene.claim(1).await.remove(0);
    scene.end(first.lease_ref(), Outcome::Released).await;
    assert_eq!(scene.claimed(2).await, [1, 2]);
    scene.crash().await;
    assert_eq!(scene.claimed(3).await, [1, 2, 3]);
}

/// A claim takes only the kinds and the queues that it names.
pub async fn p08_only_what_was_asked_for<S: Subject>() {
    let scene = Scene::<S>::new().await;
    scene.add(vec![job_with(1, |spec| spec.kind = kind("unknown")), job(2)]).await;
    scene.add(vec![job_with(3, |spec| spec.queue = queue("other"))]).await;
    let mut request = scene.request(&["q"], 10);
    request.kinds = Some(vec![kind("k"), kind("j")]);
    let leases = scene.store().claim(request).await.expect("claim").leases;
    assert_eq!(leases.iter().map(|leased| number(leased.job.id)).collect::<Vec<_>>(), [2]);
    let mut request = scene.request(&["q"], 10);
    request.kinds = Some(vec![]);
    assert!(scene.store().claim(request).await.expect("claim").leases.is_empty(), "no kind is none");
    assert!(scene.claim_from(&[], 10).await.is_empty(), "no queue is none");
    assert!(scene.claim(0).await.is_empty());
    assert_eq!(scene.claimed(10).await, [1]);
}

/// Held back by a delay, a key, a slot, a spent or cooling budget, a limit or
/// a pause: each time the jobs behind it that could run do run.
pub async fn p08_who_is_held_back_holds_back_nobody<S: Subject>() {
    let scene = Scene::<S>::new().await;
    let store = scene.store();
    let slots = |slots| BudgetPolicy { slots: Some(slots), ..Default::default() };
    store.put_budget(budget("none"), slots(0)).await.expect("put_budget");
    let spent = BudgetPolicy { per_day: Some(1), ..Default::default() };
    store.put_budget(budget("spent"), spent).await.expect("put_budget");
    store.spend(budget("spent"), 1).await.expect("spend");
    store.cool_down(budget("cool"), 9_000).await.expect("cool_down");
    store.pause_queue(queue("still"), true).await.expect("pause");
    let one = windlass_core::policy::queue::QueuePolicy { limit: Some(1), ..Default::default() };
    store.put_queue(queue("one"), one).await.expect("put_queue");
    let held = |n, change: fn(&mut windlass_core::job::JobSpec)| {
        job_with(n, |spec| {
            spec.priority = 9;
            change(spec);
        })
    };
    let mut jobs = vec![
        held(1, |spec| spec.key = key("busy")),
        held(2, |spec| spec.key = key("busy")),
        held(3, |spec| spec.budgets = vec![budget("none")]),
        held(4, |spec| spec.budgets = vec![budget("spent")]),
        held(5, |spec| spec.budgets = vec![budget("cool"), budget("undefined")]),
        held(6, |spec| spec.queue = queue("still")),
        held(7, |spec| spec.queue = queue("one")),
        held(8, |spec| spec.queue = queue("one")),
        held(9, |_| ()),
    ];
    jobs[8].start = Start::AfterMs(9_000);
    scene.add(jobs).await;
    scene.add(vec![job(10), job_with(11, |spec| spec.budgets = vec![budget("undefined")])]).await;
    let leases = scene.claim_from(&["q", "still", "one"], 10).await;
    assert_eq!(leases.iter().map(|leased| number(leased.job.id)).collect::<Vec<_>>(), [1, 7, 10, 11]);
}

/// Many that are held back do not hide one behind them.
pub async fn p08_a_crowd_hides_nobody<S: Subject>() {
    let scene = Scene::<S>::new().await;
    let blocked = |n| job_with(n, |spec| spec.key = key("busy"));
    scene.add((1..=3_000).map(blocked).collect()).await;
    scene.add(vec![job(4_000)]).await;
    assert_eq!(scene.claimed(5).await, [1, 4_000]);
    let later = |n| job_at(n, Start::AfterMs(60_000));
    scene.add((5_000..8_000).map(later).collect()).await;
    scene.add(vec![job(9_000)]).await;
    assert_eq!(scene.claimed(5).await, [9_000]);
}

/// Others' queues, and others' kinds in the same queue, cost a claim nothing that can be felt. (The quickest of many
/// counts, so that a busy machine says nothing.)
pub async fn p08_what_others_store_costs_a_claim_nothing<S: Subject>() {
    const OTHERS: u128 = 3_000;
    if S::REWRITES {
        return;
    }
    let scene = Scene::<S>::new().await;
    let quickest = async |of: u128| {
        scene.add((of..of + 20).map(job).collect()).await;
        let mut best = Duration::MAX;
        for n in of..of + 20 {
            let mut request = scene.request(&["q"], 1);
            request.kinds = Some(vec![kind("k")]);
            let began = Instant::now();
            let leases = scene.store().claim(request).await.expect("claim").leases;
            best = best.min(began.elapsed());
            assert_eq!(leases.iter().map(|leased| number(leased.job.id)).collect::<Vec<_>>(), [n]);
        }
        best
    };
    let alone = quickest(1).await;
    let others = |n: u128| {
        job_with(n, |spec| match n % 2 {
            0 => spec.queue = queue(&format!("q{n}")),
            _ => spec.kind = kind(&format!("k{n}")),
        })
    };
    for from in (1_000..1_000 + OTHERS).step_by(1_000) {
        scene.add((from..from + 1_000).map(others).collect()).await;
    }
    let beside = quickest(10_000).await;
    let limit = alone * 4 + Duration::from_millis(1);
    assert!(beside < limit, "a claim took {alone:?} alone and {beside:?} beside {OTHERS} queues and kinds");
}

/// A claim that found too little says when time alone may free a job, and never too late.
pub async fn p08_the_hint_is_never_late<S: Subject>() {
    let scene = Scene::<S>::new().await;
    scene.store().cool_down(budget("cool"), 700).await.expect("cool_down");
    scene.add(vec![job_at(1, Start::AfterMs(900))]).await;
    scene.add(vec![job_with(2, |spec| spec.budgets = vec![budget("cool")])]).await;
    let hint = async || scene.store().claim(scene.request(&["q"], 5)).await.expect("claim").next_due_in_ms;
    let first = hint().await.expect("something will be free by time alone");
    assert!(first <= 700, "{first}");
    scene.clock.advance(700);
    assert_eq!(scene.claimed(1).await, [2]);
    let second = hint().await.expect("something will be free by time alone");
    assert!(second <= 200, "{second}");
}

/// With ageing, a job that waited long enough goes before a more urgent one.
pub async fn p08_ageing_bounds_the_wait<S: Subject>() {
    let scene = Scene::<S>::new().await;
    scene.policy(|policy| policy.ageing_ms = Some(60_000)).await;
    scene.add(vec![job(1)]).await;
    scene.clock.advance(119_000);
    scene.add(vec![job_with(2, |spec| spec.priority = 2)]).await;
    scene.clock.advance(2_000);
    scene.add(vec![job_with(3, |spec| spec.priority = 2)]).await;
    assert_eq!(scene.claimed(3).await, [2, 1, 3]);
}
