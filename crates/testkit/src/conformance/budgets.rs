//! 11: no budget is exceeded, in any window, over all handles and restarts.

use windlass_core::policy::budget::BudgetPolicy;
use windlass_core::store::{BudgetStatus, Spent};
use windlass_core::time::Clock;
use windlass_core::transition::Outcome;

use super::scene::*;
use crate::subject::Subject;

fn paid(n: u128) -> windlass_core::job::NewJob {
    job_with(n, |spec| spec.budgets = vec![budget("b")])
}

async fn stage<S: Subject>(policy: BudgetPolicy, jobs: u128) -> Scene<S> {
    let scene = Scene::<S>::new().await;
    scene.store().put_budget(budget("b"), policy).await.expect("put_budget");
    scene.add((1..=jobs).map(paid).collect()).await;
    scene
}

async fn status<S: Subject>(scene: &Scene<S>) -> BudgetStatus {
    scene.store().budgets().await.expect("budgets").remove(0)
}

/// No more jobs run than there are slots; a slot is free when its job ends.
pub async fn p11_slots<S: Subject>() {
    let policy = BudgetPolicy { slots: Some(2), ..Default::default() };
    let mut scene = stage::<S>(policy, 5).await;
    let held = scene.claim(10).await;
    assert_eq!(held.len(), 2);
    assert_eq!(status(&scene).await.slots_used, 2);
    scene.reopen().await;
    assert!(scene.claim(10).await.is_empty(), "a restart made room");
    scene.end(held[0].lease_ref(), retry_with("later")).await;
    assert_eq!(
        scene.settle(held[0].lease_ref(), retry_with("later")).await,
        windlass_core::store::Written::Done
    );
    assert_eq!(scene.claimed(10).await, [3], "one slot was freed, once");
    assert_eq!(scene.crash().await.len(), 2);
    assert_eq!(scene.claim(10).await.len(), 2);
    assert_eq!(status(&scene).await.slots_used, 2);
}

/// In no stretch of a second is more spent than allowed: by claims and by hand.
pub async fn p11_per_second<S: Subject>() {
    let policy = BudgetPolicy { per_second: Some(3), ..Default::default() };
    let mut scene = stage::<S>(policy, 20).await;
    let mut grants: Vec<i64> = Vec::new();
    for round in 0..60 {
        let at = scene.clock.wall().ms();
        grants.extend(scene.claim(2).await.iter().map(|_| at));
        if scene.store().spend(budget("b"), 1).await.expect("spend") == Spent::Granted {
            grants.push(at);
        }
        if round == 30 {
            scene.reopen().await;
        }
        scene.clock.advance(70);
    }
    for from in &grants {
        let sum = grants.iter().filter(|at| **at >= *from && **at < from + 1_000).count();
        assert!(sum <= 3, "{sum} in one second");
    }
    assert!(grants.len() >= 12, "only {} in 4.2 seconds: a budget must also be used", grants.len());
}

/// In no stretch of a minute is more spent than allowed, by claims and by hand; a restart does not begin anew, and the
/// second beside it still counts.
pub async fn p11_per_minute<S: Subject>() {
    let policy = BudgetPolicy { per_second: Some(2), per_minute: Some(5), ..Default::default() };
    let mut scene = stage::<S>(policy, 30).await;
    let mut grants: Vec<i64> = Vec::new();
    for round in 0..60 {
        let at = scene.clock.wall().ms();
        grants.extend(scene.claim(3).await.iter().map(|_| at));
        if scene.store().spend(budget("b"), 1).await.expect("spend") == Spent::Granted {
            grants.push(at);
        }
        if round == 30 {
            scene.reopen().await;
        }
        let used = status(&scene).await.used;
        let lately = |ms| grants.iter().filter(|granted| **granted > at - ms).count() as u32;
        assert!(used.second >= lately(1_000) && used.minute >= lately(60_000), "{used:?}");
        scene.clock.advance(3_700);
    }
    for from in &grants {
        let sum = |ms| grants.iter().filter(|at| **at >= *from && **at < from + ms).count();
        assert!(sum(1_000) <= 2 && sum(60_000) <= 5, "{} in one minute", sum(60_000));
    }
    assert!(grants.len() >= 15, "only {} in 222 seconds: a budget must also be used", grants.len());
    assert_eq!(scene.store().spend(budget("b"), 3).await.expect("spend"), Spent::Never);
}

/// In no stretch of 24 hours is more spent than allowed, and a restart does not begin anew.
pub async fn p11_per_day<S: Subject>() {
    let policy = BudgetPolicy { per_day: Some(4), ..Default::default() };
    let mut scene = stage::<S>(policy, 9).await;
    assert_eq!(scene.claim(3).await.len(), 3);
    scene.clock.advance(ms("12h") - ms("10s"));
    scene.taken_back().await;
    assert_eq!(scene.store().spend(budget("b"), 2).await.expect("spend"), wait_until_a_day_is_over());
    assert_eq!(scene.claim(9).await.len(), 1);
    scene.reopen().await;
    scene.clock.advance(ms("11h") - ms("10s"));
    scene.taken_back().await;
    assert!(scene.claim(9).await.is_empty(), "the day is not over");
    assert_eq!(status(&scene).await.used.day, 4);
    scene.clock.advance(ms("1h") + ms("10m"));
    assert_eq!(scene.claim(9).await.len(), 3, "what was spent in the morning is free again");
    assert_eq!(scene.store().spend(budget("b"), 5).await.expect("spend"), Spent::Never);
}

fn wait_until_a_day_is_over() -> Spent {
    // 2026-01-01T00:00 and a day, up to the end of the five minutes it lies in.
    Spent::Wait { in_ms: ms("12h") + ms("5m") }
}

/// A budget that cools down gives nothing until then; the longer of two wins.
pub async fn p11_cool_down<S: Subject>() {
    let mut scene = stage::<S>(BudgetPolicy::default(), 2).await;
    scene.store().cool_down(budget("b"), 5_000).await.expect("cool_down");
    scene.store().cool_down(budget("b"), 1_000).await.expect("cool_down");
    scene.reopen().await;
    scene.clock.advance(4_999);
    assert!(scene.claim(9).await.is_empty());
    assert_eq!(scene.store().spend(budget("b"), 1).await.expect("spend"), Spent::Wait { in_ms: 1 });
    let free_at = status(&scene).await.free_at;
    assert_eq!(free_at, Some(scene.clock.wall().plus_ms(1)));
    scene.clock.advance(1);
    assert_eq!(scene.claim(9).await.len(), 2);
    assert_eq!(status(&scene).await.free_at, None);
}

/// A cool-down of no time ends the one that is under way.
pub async fn p11_a_cool_down_is_ended<S: Subject>() {
    let mut scene = stage::<S>(BudgetPolicy::default(), 2).await;
    scene.store().cool_down(budget("b"), 5_000).await.expect("cool_down");
    assert!(scene.claim(9).await.is_empty());
    scene.store().cool_down(budget("b"), 0).await.expect("cool_down");
    scene.reopen().await;
    assert_eq!(status(&scene).await.free_at, None);
    assert_eq!(scene.claim(9).await.len(), 2);
}

/// A job starts only if all of its budgets allow it, and spends of none otherwise.
pub async fn p11_all_budgets_or_none<S: Subject>() {
    let scene = Scene::<S>::new().await;
    let per_day = |max| BudgetPolicy { per_day: Some(max), ..Default::default() };
    scene.store().put_budget(budget("a"), per_day(5)).await.expect("put_budget");
    scene.store().put_budget(budget("b"), per_day(1)).await.expect("put_budget");
    let both = |n| job_with(n, |spec| spec.budgets = vec![budget("a"), budget("b")]);
    scene.add(vec![both(1), both(2), both(3)]).await;
    assert_eq!(scene.claimed(9).await, [1]);
    assert!(scene.claim(9).await.is_empty());
    let used: Vec<u32> =
        scene.store().budgets().await.expect("budgets").iter().map(|status| status.used.day).collect();
    assert_eq!(used, [1, 1], "a job that did not start spent nothing");
}

/// Spending is all or nothing, and a budget that nobody defined allows everything.
pub async fn p11_spend<S: Subject>() {
    let scene = Scene::<S>::new().await;
    let spend = async |name: &str, amount| scene.store().spend(budget(name), amount).await.expect("spend");
    assert_eq!(spend("unknown", 1_000_000).await, Spent::Granted);
    assert!(scene.store().budgets().await.expect("budgets").is_empty(), "spending defines nothing");
    let policy = BudgetPolicy { slots: Some(0), per_day: Some(10), ..Default::default() };
    scene.store().put_budget(budget("b"), policy).await.expect("put_budget");
    assert_eq!(spend("b", 7).await, Spent::Granted);
    assert!(matches!(spend("b", 4).await, Spent::Wait { .. }));
    assert_eq!(spend("b", 3).await, Spent::Granted);
    assert_eq!(spend("b", 11).await, Spent::Never);
    assert_eq!(spend("b", 0).await, Spent::Granted);
    assert_eq!(status(&scene).await.used.day, 10);
    let more = BudgetPolicy { per_day: Some(12), ..policy };
    scene.store().put_budget(budget("b"), more).await.expect("put_budget");
    assert_eq!(spend("b", 2).await, Spent::Granted, "what was spent stays spent, the rest is new");
    assert!(matches!(spend("b", 1).await, Spent::Wait { .. }));
}

/// A lease that is given back keeps what it spent, since the call may have been made.
pub async fn p11_what_was_spent_stays_spent<S: Subject>() {
    let policy = BudgetPolicy { per_day: Some(1), ..Default::default() };
    let scene = stage::<S>(policy, 1).await;
    let lease = scene.claim_one().await;
    scene.end(lease, Outcome::Released).await;
    assert!(scene.claim(9).await.is_empty());
    assert_eq!(status(&scene).await.used.day, 1);
}
