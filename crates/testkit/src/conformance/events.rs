//! 20: events tell what happened, in order, and can be followed from a position.

use std::collections::BTreeMap;
use std::sync::Arc;

use windlass_core::error::StoreError;
use windlass_core::event::{Action, Event, Position, What};
use windlass_core::store::Store;
use windlass_core::time::Clock;
use windlass_core::transition::Outcome;
use windlass_core::wake::Work;

use super::scene::*;
use crate::eventually::answered;
use crate::subject::Subject;

/// What happened after `since`, as soon as there are `expected` moves of jobs
/// or more. A store may show an event a moment after its commit.
pub async fn moves_since(
    store: &Arc<dyn Store>,
    since: Option<Position>,
    expected: usize,
) -> (Vec<(u128, What)>, Option<Position>) {
    let ask = async || {
        let events = all_since(store, since).await;
        let moves: Vec<(u128, What)> = flat(&events);
        (moves.len() >= expected).then(|| (moves, events.last().map(|event| event.position).or(since)))
    };
    match answered(ask).await {
        Some(answer) => answer,
        None => (flat(&all_since(store, since).await), since),
    }
}

async fn all_since(store: &Arc<dyn Store>, mut since: Option<Position>) -> Vec<Event> {
    let mut all = Vec::new();
    loop {
        let events = store.events(since, 100).await.expect("events");
        let Some(last) = events.last() else { return all };
        since = Some(last.position);
        all.extend(events);
    }
}

fn flat(events: &[Event]) -> Vec<(u128, What)> {
    events.iter().flat_map(|event| event.jobs.iter().map(|id| (number(*id), event.what))).collect()
}

/// Every move of a job is told once, in its order, also after a restart.
pub async fn p20_events_tell_every_move<S: Subject>() {
    let mut scene = Scene::<S>::new().await;
    scene.policy(|policy| policy.ladder = ladder("0ms")).await;
    scene.add(vec![job(1), job(2), job(3)]).await;
    let leases = scene.claim(2).await;
    scene.end(leases[0].lease_ref(), retry_with("again")).await;
    scene.settle(leases[0].lease_ref(), retry_with("again")).await;
    scene.store().cancel(id(2)).await.expect("cancel");
    scene.store().cancel(id(2)).await.expect("cancel");
    scene.store().cancel(id(3)).await.expect("cancel");
    let lease = scene.claim_one().await;
    scene.end(lease, Outcome::DONE).await;
    assert_eq!(scene.crash().await, [2]);
    scene.retried(3).await;
    scene.reopen().await;
    let (moves, _) = moves_since(scene.store(), None, 12).await;
    let mut by_job: BTreeMap<u128, Vec<What>> = BTreeMap::new();
    for (n, what) in moves {
        by_job.entry(n).or_default().push(what);
    }
    use What::*;
    assert_eq!(by_job[&1], [Enqueued, Claimed, Retrying, Claimed, Completed]);
    assert_eq!(by_job[&2], [Enqueued, Claimed, CancelRequested, Canceled]);
    assert_eq!(by_job[&3], [Enqueued, Canceled, Retried]);
}

/// From a position on, everything that follows is told, and nothing twice.
pub async fn p20_events_follow_a_position<S: Subject>() {
    let scene = Scene::<S>::new().await;
    scene.add((1..=5).map(job).collect()).await;
    let (moves, position) = moves_since(scene.store(), None, 5).await;
    assert_eq!(moves, (1..=5).map(|n| (n, What::Enqueued)).collect::<Vec<_>>());
    let (nothing, _) = moves_since(scene.store(), position, 0).await;
    assert!(nothing.is_empty());
    let end = scene.store().events_end().await.expect("events_end");
    scene.claim(2).await;
    scene.store().cancel(id(5)).await.expect("cancel");
    let expected = [(1, What::Claimed), (2, What::Claimed), (5, What::Canceled)];
    assert_eq!(moves_since(scene.store(), position, 3).await.0, expected);
    assert_eq!(moves_since(scene.store(), Some(end), 3).await.0, expected);
    let text = position.expect("a position").to_string();
    let read: Position = text.parse().expect("a position is text and back");
    assert_eq!(moves_since(scene.store(), Some(read), 3).await.0, expected);
    let few = scene.store().events(None, 1).await.expect("events");
    assert_eq!(few.len(), 1, "the limit counts events");
    assert_eq!(
        (few[0].what, few[0].at, few[0].jobs.len()),
        (What::Enqueued, scene.job(1).await.created_at, 5)
    );
}

/// What an operator did is told in its place among what happened to jobs, over a restart, too; what no store could hold is
/// refused.
pub async fn p20_what_operators_did_is_told<S: Subject>() {
    let mut scene = Scene::<S>::new().await;
    let action =
        |by: &str| Action {
            by: by.into(), call: "pause_queue".into(), on: "/v1/queues/größe/pause".into()
        };
    scene.add(vec![job(1)]).await;
    scene.store().act(action("Ada \"x\"")).await.expect("act");
    let odd = [action("a\0b"), action(&"x".repeat(Action::PART_BYTES_MAX + 1))];
    for odd in odd {
        assert!(matches!(scene.store().act(odd).await, Err(StoreError::Invalid(_))));
    }
    scene.store().cancel(id(1)).await.expect("cancel");
    scene.reopen().await;
    let told = async || {
        let events = scene.store().events(None, 9).await.expect("events");
        (events.len() >= 3).then_some(events)
    };
    let events = answered(told).await.expect("three events");
    let whats: Vec<What> = events.iter().map(|event| event.what).collect();
    assert_eq!(whats, [What::Enqueued, What::Acted, What::Canceled]);
    assert_eq!((events[1].jobs.len(), events[1].at), (0, scene.clock.wall()));
    assert_eq!(events[1].action, Some(action("Ada \"x\"")));
    assert!(events[0].action.is_none() && events[2].action.is_none());
}

/// Whoever waits is woken by a new job, and by a wish to cancel a running one.
pub async fn p20_new_work_wakes<S: Subject>() {
    let scene = Scene::<S>::new().await;
    let woken = Arc::new(tokio::sync::Notify::new());
    let bell = woken.clone();
    let _registration = scene.store().on_work(Arc::new(move |_| bell.notify_one()));
    let hears = async |what: &str| {
        let heard = tokio::time::timeout(std::time::Duration::from_secs(30), woken.notified()).await;
        assert!(heard.is_ok(), "nobody was woken by {what}");
    };
    scene.add(vec![job(1)]).await;
    hears("a new job").await;
    scene.claim_one().await;
    scene.store().cancel(id(1)).await.expect("cancel");
    hears("a wish to cancel").await;
}

/// Whoever is woken by new jobs is told in which queues they are.
pub async fn p20_new_work_says_where<S: Subject>() {
    let scene = Scene::<S>::new().await;
    let (told, mut hears) = tokio::sync::mpsc::unbounded_channel();
    let _registration = scene.store().on_work(Arc::new(move |work: &Work| drop(told.send(work.clone()))));
    scene.add(vec![job(1), job_with(2, |spec| spec.queue = queue("other"))]).await;
    let heard = async {
        loop {
            // A store that has only just begun to listen knows no better.
            match hears.recv().await.expect("the store is there") {
                Work::Anywhere => {}
                Work::In(queues) => break queues,
            }
        }
    };
    let heard = tokio::time::timeout(std::time::Duration::from_secs(30), heard).await;
    let heard = heard.expect("somebody is told where the work is");
    assert_eq!(heard, [job(1).spec.queue, queue("other")].into());
}

/// What was registered is let go of when its registration is dropped, and not called again.
pub async fn p20_a_registration_ends<S: Subject>() {
    let scene = Scene::<S>::new().await;
    let (woken, bell) = (Arc::new(()), Arc::new(tokio::sync::Notify::new()));
    let (held, ours) = (woken.clone(), bell.clone());
    let wake = scene.store().on_work(Arc::new(move |_| {
        let _ = &held;
    }));
    let held = woken.clone();
    let offer = scene.store().on_commit(Arc::new(move |_| {
        let _ = &held;
        None
    }));
    let _stays = scene.store().on_work(Arc::new(move |_| ours.notify_one()));
    drop((wake, offer));
    scene.add(vec![job(1)]).await;
    bell.notified().await;
    let is_free = async || (Arc::strong_count(&woken) == 1).then_some(());
    assert_eq!(answered(is_free).await, Some(()), "the store still holds what was taken back");
}
