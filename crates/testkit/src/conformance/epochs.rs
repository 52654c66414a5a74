//! 27: a history that was cut is a new epoch. What was handed out in commits that are lost is stale, and what somebody may
//! still hold by them is held back.

use uuid::Uuid;
use windlass_core::eligible::{Explanation, Hold};
use windlass_core::epoch::{CLOCKS_APART_MS, FLOOR_STEP};
use windlass_core::error::StoreError;
use windlass_core::event::Position;
use windlass_core::id::JobId;
use windlass_core::job::{JobSpec, NewJob};
use windlass_core::long_leases::{DAY_MS, SLACK_MS};
use windlass_core::policy::budget::BudgetPolicy;
use windlass_core::store::{Spent, Written};
use windlass_core::time::{Clock, Time};
use windlass_core::transition::Outcome;

use super::scene::*;
use crate::subject::Subject;

/// A job whose id was made at a moment, as clients make them.
fn new_at(at: Time, n: u128, change: impl FnOnce(&mut JobSpec)) -> NewJob {
    NewJob { id: id_at(at, n), ..job_with(n, change) }
}

/// The id of a number, made at a moment.
pub fn id_at(at: Time, n: u128) -> JobId {
    JobId(Uuid::from_u128((u128::from(at.ms().unsigned_abs()) << 80) | (7 << 76) | (0b10 << 62) | n))
}

/// Whether a store can be cut in a test; says so where it cannot.
fn can_be_cut<S: Subject>() -> bool {
    if !S::CUTS {
        println!("the history of {} cannot be cut here", S::NAME);
    }
    S::CUTS
}

/// A new epoch has another instance and a higher floor. Its beginning counts as a renewal: who holds a job goes on.
pub async fn p27_a_cut_history_is_a_new_epoch<S: Subject>() {
    if !can_be_cut::<S>() {
        return;
    }
    let mut scene = Scene::<S>::new().await;
    let before = scene.store().epoch().await.expect("epoch");
    assert_eq!((before.epoch.number, before.epoch.floor, before.paused_until), (1, 0, None));
    scene.add(vec![job(1), job(2), job(3)]).await;
    let held = scene.claim(2).await.iter().map(|leased| leased.lease_ref()).collect::<Vec<_>>();
    assert_eq!(held[0].fence, 1);
    // The first look has marked both; at the next they would be taken.
    scene.clock.advance(25_000);
    assert_eq!(scene.store().expire().await.expect("expire").marked, 2);
    scene.cut().await;
    let now = scene.clock.wall();
    let after = scene.store().epoch().await.expect("epoch").epoch;
    assert_eq!((after.number, after.lossy, after.began_at), (2, true, now));
    assert_ne!(after.instance, before.epoch.instance);
    assert!(after.floor >= FLOOR_STEP, "{after:?}");
    for n in [1, 2] {
        let lease = scene.job(n).await.lease().expect("a lease").clone();
        assert_eq!((lease.expires_at, lease.marked_at), (now.plus_ms(30_000), None), "as if it was renewed");
    }
    scene.clock.advance(11_000);
    assert!(scene.expired().await.is_empty(), "the marks are gone");
    assert_eq!(scene.settle(held[0], Outcome::DONE).await, Written::Done, "the fence of a holder stays");
    assert_eq!(scene.settle(held[1], retry_with("once more")).await, Written::Done);
    scene.clock.advance(ms("1h"));
    let fences: Vec<u64> = scene.claim(9).await.iter().map(|leased| leased.job.fence).collect();
    assert_eq!(fences, [after.floor, after.floor], "of one that was never claimed, and of one that was");
    assert_eq!(scene.settle(held[1], Outcome::DONE).await, Written::Lost);
    assert_eq!(scene.store().audit().await.expect("audit"), Vec::<String>::new());
}

/// Each epoch is above all before it, and over all of them the fence of a job rises.
pub async fn p27_fences_rise_over_epochs<S: Subject>() {
    if !can_be_cut::<S>() {
        return;
    }
    let mut scene = Scene::<S>::new().await;
    scene.add(vec![job(1)]).await;
    let mut last = 0;
    for number in 2..5 {
        let lease = scene.claim_one().await;
        assert!(lease.fence > last && lease.fence < 1 << 53, "{} after {last}", lease.fence);
        last = lease.fence;
        scene.cut().await;
        let epoch = scene.store().epoch().await.expect("epoch").epoch;
        assert!(epoch.number == number && epoch.floor > last, "{epoch:?}");
        scene.end(lease, Outcome::Released).await;
        scene.clock.advance(30_000);
    }
}

/// Until the longest lease has run out, nothing starts that somebody may hold by what was lost; all else starts at once.
pub async fn p27_what_others_may_hold_waits<S: Subject>() {
    if !can_be_cut::<S>() {
        return;
    }
    let mut scene = Scene::<S>::new().await;
    let slotted = BudgetPolicy { slots: Some(5), ..BudgetPolicy::default() };
    scene.store().put_budget(budget("slots"), slotted).await.expect("put_budget");
    scene.add(vec![job(1), job(2)]).await;
    scene.cut().await;
    let now = scene.clock.wall();
    let until = now.plus_ms(30_000);
    let named = |n: u128, change: fn(&mut JobSpec)| new_at(now, n, change);
    scene
        .add(vec![
            named(3, |spec| spec.key = key("shop")),
            named(4, |spec| spec.dedupe_key = dedupe("once")),
            named(5, |spec| spec.budgets = vec![budget("slots")]),
            job(6),
            new_at(now.plus_ms(-1), 7, |_| {}),
            // Made by a clock that is ahead: perhaps before, and enqueued once more now.
            new_at(now.plus_ms(CLOCKS_APART_MS + 1), 11, |_| {}),
            named(8, |_| {}),
            named(9, |spec| spec.priority = -3),
            named(10, |spec| spec.budgets = vec![budget("unknown")]),
            new_at(now.plus_ms(CLOCKS_APART_MS), 12, |spec| spec.priority = -4),
        ])
        .await;
    let request = scene.request(&["q"], 9);
    let answer = scene.store().claim(request).await.expect("claim");
    let ids: Vec<JobId> = answer.leases.iter().map(|leased| leased.job.id).collect();
    let ahead = |ms: i64, n: u128| id_at(now.plus_ms(CLOCKS_APART_MS + ms), n);
    assert_eq!(ids, [id_at(now, 8), id_at(now, 10), id_at(now, 9), ahead(0, 12)], "in order");
    let hint = answer.next_due_in_ms.expect("time frees them");
    assert!(hint <= 30_000);
    let held = Some(Explanation::Held { holds: vec![Hold::EpochPause { until }] });
    for waits in [id(1), id_at(now, 3), id_at(now, 4), id_at(now, 5), id(6), ahead(1, 11)] {
        assert_eq!(scene.store().explain(waits).await.expect("explain"), held, "{waits}");
    }
    assert_eq!(scene.store().epoch().await.expect("epoch").paused_until, Some(until));
    // One that fails in the pause comes again in it: nobody else has it.
    let lease = answer.leases[0].lease_ref();
    scene.end(lease, Outcome::Released).await;
    assert_eq!(scene.claim(9).await.iter().map(|leased| leased.job.id).collect::<Vec<_>>(), [id_at(now, 8)]);
    scene.clock.advance(29_999);
    assert!(scene.claim(9).await.is_empty());
    scene.clock.advance(1);
    let first = scene.claim(2).await.iter().map(|leased| number(leased.job.id)).collect::<Vec<_>>();
    assert_eq!(first, [1, 2], "whoever came first goes first");
    assert_eq!(scene.claim(9).await.len(), 6);
    assert_eq!(scene.store().epoch().await.expect("epoch").paused_until, None);
    assert_eq!(scene.store().audit().await.expect("audit"), Vec::<String>::new());
}

/// A limit counts those who run, and may not have counted all; when it is taken away, what nobody can hold starts.
pub async fn p27_a_limit_waits<S: Subject>() {
    if !can_be_cut::<S>() {
        return;
    }
    let mut scene = Scene::<S>::new().await;
    scene.policy(|policy| policy.limit = Some(2)).await;
    scene.cut().await;
    let now = scene.clock.wall();
    scene.add(vec![job(1), new_at(now, 2, |_| {})]).await;
    assert!(scene.claim(9).await.is_empty());
    scene.policy(|policy| policy.limit = None).await;
    assert_eq!(scene.claim(9).await.iter().map(|leased| leased.job.id).collect::<Vec<_>>(), [id_at(now, 2)]);
    scene.clock.advance(30_000);
    assert_eq!(scene.claimed(9).await, [1]);
}

/// The pause is as long as the longest lease of a day, of the queue or of a claim, and a quarter of an hour at most.
pub async fn p27_the_longest_lease_is_waited_for<S: Subject>() {
    if !can_be_cut::<S>() {
        return;
    }
    for (lease_ms, later, pause) in [
        (60_000, 60_000, "1m"),
        (86_400_000, 60_000, "15m"),
        (60_000, DAY_MS, "1m"),
        (60_000, DAY_MS + SLACK_MS + 1, "30s"),
        (1_000, 60_000, "30s"),
    ] {
        let mut scene = Scene::<S>::new().await;
        scene.add(vec![job(1), job(2)]).await;
        let mut request = scene.request(&["q"], 1);
        request.lease_ms = Some(lease_ms);
        let lease = scene.store().claim(request).await.expect("claim").leases[0].lease_ref();
        scene.end(lease, Outcome::DONE).await;
        scene.clock.advance(later.unsigned_abs());
        scene.store().prune().await.expect("prune");
        scene.cut().await;
        scene.clock.advance(ms(pause) - 1);
        assert!(scene.claim(9).await.is_empty(), "{lease_ms}");
        scene.clock.advance(1);
        assert_eq!(scene.claimed(9).await, [2], "{lease_ms}");
    }
}

/// A queue that remembers a long lease does not forget a shorter one with it, and one whose leases were made shorter
/// remembers those that it had. A history that ended days ago is gone on with as it ended.
pub async fn p27_a_day_of_leases_is_remembered<S: Subject>() {
    if !can_be_cut::<S>() {
        return;
    }
    let pause = async |scene: &mut Scene<S>| {
        scene.cut().await;
        let began = scene.clock.wall();
        let until = scene.store().epoch().await.expect("epoch").paused_until;
        until.map_or(0, |until| until.ms_since(began))
    };
    let claim = async |scene: &Scene<S>, lease_ms: u32| {
        let mut request = scene.request(&["q"], 1);
        request.lease_ms = Some(lease_ms);
        assert_eq!(scene.store().claim(request).await.expect("claim").leases.len(), 1);
    };
    // The longest goes, and the one behind it is there.
    let mut scene = Scene::<S>::new().await;
    scene.add((1..=9).map(job).collect()).await;
    claim(&scene, 80_000).await;
    scene.clock.advance(2 * SLACK_MS.unsigned_abs());
    claim(&scene, 70_000).await;
    scene.clock.advance(DAY_MS.unsigned_abs());
    scene.store().prune().await.expect("prune");
    assert_eq!(pause(&mut scene).await, 70_000);
    // Without a look at the clock since, as in a backup: the last day is that of the history.
    scene.clock.advance(3 * DAY_MS.unsigned_abs());
    assert_eq!(pause(&mut scene).await, 70_000);
    // Leases that were made shorter are in the world for as long as they were.
    let mut scene = Scene::<S>::new().await;
    scene.add((1..=9).map(job).collect()).await;
    scene.policy(|policy| policy.lease_ms = 90_000).await;
    scene.clock.advance(DAY_MS.unsigned_abs());
    scene.policy(|policy| policy.lease_ms = 10_000).await;
    scene.clock.advance(60_000);
    assert_eq!(pause(&mut scene).await, 90_000);
}

/// For how long jobs are held back is fixed when the epoch begins: neither a claim with a longer lease nor another policy
/// changes it, and the next epoch knows of both.
pub async fn p27_a_pause_is_fixed_when_it_begins<S: Subject>() {
    if !can_be_cut::<S>() {
        return;
    }
    let mut scene = Scene::<S>::new().await;
    scene.policy(|policy| policy.lease_ms = 40_000).await;
    scene.add(vec![job(1), job(2)]).await;
    scene.cut().await;
    let began = scene.clock.wall();
    scene.add(vec![new_at(began, 3, |_| {})]).await;
    let mut request = scene.request(&["q"], 9);
    request.lease_ms = Some(120_000);
    let leases = scene.store().claim(request).await.expect("claim").leases;
    assert_eq!(leases.len(), 1, "what nobody can hold starts, for as long as it likes");
    let held = async |scene: &Scene<S>| {
        let answer = scene.store().claim(scene.request(&["q"], 9)).await.expect("claim");
        assert!(answer.leases.is_empty() && answer.next_due_in_ms.is_some_and(|ms| ms <= 40_000));
        let until = began.plus_ms(40_000);
        let why = Some(Explanation::Held { holds: vec![Hold::EpochPause { until }] });
        assert_eq!(scene.store().explain(id(1)).await.expect("explain"), why);
        assert_eq!(scene.store().epoch().await.expect("epoch").paused_until, Some(until));
        let renewed = scene.store().renew(vec![leases[0].lease_ref()]).await.expect("renew");
        let left = until.ms_since(scene.clock.wall());
        assert_eq!(renewed.still, [(id_at(began, 3), left)]);
    };
    held(&scene).await;
    scene.policy(|policy| policy.lease_ms = 5_000).await;
    scene.clock.advance(6_000);
    held(&scene).await;
    scene.policy(|policy| policy.lease_ms = 600_000).await;
    scene.clock.advance(33_999);
    held(&scene).await;
    scene.reopen().await;
    held(&scene).await;
    scene.clock.advance(1);
    assert_eq!(scene.claimed(9).await, [1, 2]);
    // The next one begins with what is known by then.
    scene.add(vec![job(4)]).await;
    scene.cut().await;
    let until = scene.clock.wall().plus_ms(600_000);
    assert_eq!(scene.store().epoch().await.expect("epoch").paused_until, Some(until));
}

/// An attempt that stood still does so until the pause is over: its renewal says for how long.
pub async fn p27_a_renewal_says_how_long_to_stand_still<S: Subject>() {
    if !can_be_cut::<S>() {
        return;
    }
    let mut scene = Scene::<S>::new().await;
    scene.add(vec![job(1)]).await;
    let lease = scene.claim_one().await;
    let first = scene.store().renew(vec![lease]).await.expect("renew");
    assert_eq!(first.still, []);
    scene.cut().await;
    scene.clock.advance(10_000);
    let second = scene.store().renew(vec![lease]).await.expect("renew");
    assert_eq!((second.renewed.as_slice(), second.still.as_slice()), (&[id(1)][..], &[(id(1), 20_000)][..]));
    assert_ne!(second.instance, first.instance, "whoever hears it renews all that it holds");
    scene.clock.advance(20_000);
    assert_eq!(scene.store().renew(vec![lease]).await.expect("renew").still, []);
    // Of several it is said in the order asked, and as often.
    scene.add(vec![job(2)]).await;
    let other = scene.claim_one().await;
    scene.cut().await;
    let still = scene.store().renew(vec![other, lease, other]).await.expect("renew").still;
    assert_eq!(still, [(id(2), 30_000), (id(1), 30_000), (id(2), 30_000)]);
}

/// A position of another epoch is refused with where this one begins; from there on all that is kept is told.
pub async fn p27_a_position_of_another_epoch_is_refused<S: Subject>() {
    if !can_be_cut::<S>() {
        return;
    }
    let mut scene = Scene::<S>::new().await;
    scene.add(vec![job(1)]).await;
    scene.add(vec![job(2)]).await;
    let old = scene.store().events_end().await.expect("events_end");
    let one = scene.store().events(None, 1).await.expect("events")[0].position;
    scene.cut().await;
    for position in [old, one] {
        let refused = scene.store().events(Some(position), 9).await;
        let Err(StoreError::AnotherEpoch(begin)) = refused else { panic!("{refused:?}") };
        let told = scene.store().events(Some(begin), 9).await.expect("events");
        assert_eq!(told.len(), 2);
        assert!(told[0].position.follows(begin) && told[1].position.follows(told[0].position));
    }
    let end = scene.store().events_end().await.expect("events_end");
    assert_eq!(scene.store().events(Some(end), 9).await.expect("events"), []);
    assert_ne!(end.epoch, old.epoch);
}

/// So is a position beyond the newest event: whoever was there heard what this store has forgotten, as a disk has that came
/// back as it was before. Silence until the numbers have caught up would be a gap that nobody is told of.
pub async fn p27_a_position_beyond_the_end_is_refused<S: Subject>() {
    let scene = Scene::<S>::new().await;
    scene.add(vec![job(1)]).await;
    let end = scene.store().events_end().await.expect("events_end");
    let beyond = Position { place: end.place + 1, ..end };
    let refused = scene.store().events(Some(beyond), 9).await;
    let Err(StoreError::AnotherEpoch(begin)) = refused else { panic!("{refused:?}") };
    assert_eq!(scene.store().events(Some(begin), 9).await.expect("events").len(), 1);
    assert_eq!(scene.store().events(Some(end), 9).await.expect("events"), []);
    scene.add(vec![job(2)]).await;
    assert_eq!(scene.store().events(Some(beyond), 9).await.expect("events"), [], "now it is there");
}

/// What a second and a minute allow is taken for spent when an epoch begins.
pub async fn p27_a_second_and_a_minute_are_spent<S: Subject>() {
    if !can_be_cut::<S>() {
        return;
    }
    let mut scene = Scene::<S>::new().await;
    let policy = BudgetPolicy { per_second: Some(3), ..BudgetPolicy::default() };
    scene.store().put_budget(budget("api"), policy).await.expect("put_budget");
    scene.cut().await;
    let spent = scene.store().spend(budget("api"), 1).await.expect("spend");
    assert!(!matches!(spent, Spent::Granted), "{spent:?}");
    scene.clock.advance(1_100);
    assert_eq!(scene.store().spend(budget("api"), 1).await.expect("spend"), Spent::Granted);
    let policy = BudgetPolicy { per_minute: Some(3), ..BudgetPolicy::default() };
    scene.store().put_budget(budget("slow"), policy).await.expect("put_budget");
    scene.cut().await;
    scene.clock.advance(59_000);
    let spent = scene.store().spend(budget("slow"), 1).await.expect("spend");
    assert!(!matches!(spent, Spent::Granted), "{spent:?}");
    scene.clock.advance(2_000);
    assert_eq!(scene.store().spend(budget("slow"), 1).await.expect("spend"), Spent::Granted);
}
