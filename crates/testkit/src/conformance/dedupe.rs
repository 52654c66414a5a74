//! 9: dedupe keys, chosen ids, all or none.

use windlass_core::error::StoreError;
use windlass_core::state::StateName;
use windlass_core::store::Enqueued;
use windlass_core::transition::Outcome;

use super::scene::*;
use crate::subject::Subject;

fn once(n: u128) -> windlass_core::job::NewJob {
    job_with(n, |spec| spec.dedupe_key = dedupe("once"))
}

fn there(n: u128) -> Enqueued {
    Enqueued { id: id(n), deduplicated: true }
}

fn new(n: u128) -> Enqueued {
    Enqueued { id: id(n), deduplicated: false }
}

/// A dedupe key has at most one job that is not final, over all queues.
pub async fn p09_a_dedupe_key_has_one_unfinished_job<S: Subject>() {
    let scene = Scene::<S>::new().await;
    let other = scene.second().await;
    scene.add(vec![once(1)]).await;
    let elsewhere = job_with(2, |spec| {
        spec.dedupe_key = dedupe("once");
        spec.queue = queue("other");
    });
    assert_eq!(other.enqueue(vec![elsewhere]).await.expect("enqueue"), [there(1)]);
    let lease = scene.claim_one().await;
    assert_eq!(scene.store().enqueue(vec![once(3)]).await.expect("enqueue"), [there(1)]);
    assert!(scene.find(2).await.is_none() && scene.find(3).await.is_none());
    scene.end(lease, Outcome::DONE).await;
    assert_eq!(other.enqueue(vec![once(3)]).await.expect("enqueue"), [new(3)]);
    assert_eq!(scene.store().enqueue(vec![once(1)]).await.expect("enqueue"), [there(1)], "the id is known");
}

/// Enqueueing an id again answers with the same job, in whatever state.
pub async fn p09_the_same_id_is_the_same_job<S: Subject>() {
    let mut scene = Scene::<S>::new().await;
    scene.add(vec![job(1)]).await;
    assert_eq!(scene.store().enqueue(vec![job(1)]).await.expect("enqueue"), [there(1)]);
    let lease = scene.claim_one().await;
    assert_eq!(scene.store().enqueue(vec![job(1)]).await.expect("enqueue"), [there(1)]);
    scene.end(lease, Outcome::DONE).await;
    scene.reopen().await;
    assert_eq!(scene.store().enqueue(vec![job(1)]).await.expect("enqueue"), [there(1)]);
    assert_eq!(scene.job(1).await.state.name(), StateName::Completed, "it did not start again");
    assert!(scene.claim(10).await.is_empty());
}

/// Twins in one batch: the second finds the first.
pub async fn p09_twins_in_one_batch<S: Subject>() {
    let scene = Scene::<S>::new().await;
    let batch = vec![job(1), once(2), job(1), once(3), job(4)];
    let answers = scene.store().enqueue(batch).await.expect("enqueue");
    assert_eq!(answers, [new(1), new(2), there(1), there(2), new(4)]);
    assert_eq!(scene.claimed(10).await, [1, 2, 4]);
}

/// Another content under a known id is refused, and nothing of the batch stays.
pub async fn p09_a_conflict_leaves_nothing<S: Subject>() {
    let scene = Scene::<S>::new().await;
    scene.add(vec![job(1)]).await;
    let before = scene.job(1).await;
    let changed = job_with(1, |spec| spec.priority = 1);
    let answer = scene.store().enqueue(vec![job(2), changed, job(3)]).await;
    assert_eq!(answer, Err(StoreError::Conflict(id(1))));
    let answer = scene.store().enqueue(vec![job(4), job_with(4, |spec| spec.payload = json("0"))]).await;
    assert_eq!(answer, Err(StoreError::Conflict(id(4))));
    for n in 2..=4 {
        assert!(scene.find(n).await.is_none(), "job {n} of a refused batch is there");
    }
    assert_eq!(scene.job(1).await, before);
    assert_eq!(scene.claimed(10).await, [1]);
}
