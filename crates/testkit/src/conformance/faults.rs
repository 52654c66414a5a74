//! Faults of the catalogue that any store can be put through.

use std::collections::HashMap;

use windlass_core::id::JobId;
use windlass_core::state::StateName;
use windlass_core::store::{CancelAnswer, Settlement, Written};
use windlass_core::transition::Outcome;

use super::scene::*;
use crate::subject::Subject;

/// Faults 26, 29: the same worker claims a job again; what it still says of its
/// first attempt is refused, also after a restart of the store, because the
/// fence is the token and not the worker's name, and never starts anew.
pub async fn fault_26_29_the_fence_is_the_token_and_only_rises<S: Subject>() {
    let mut scene = Scene::<S>::new().await;
    scene.policy(|policy| policy.crashes_max = 10).await;
    scene.add(vec![job(1)]).await;
    let mut stale = Vec::new();
    for _ in 0..3 {
        let lease = scene.claim_one().await;
        for old in &stale {
            assert_eq!(scene.step(*old, "late", "1").await, Written::Lost);
            assert_eq!(scene.settle(*old, Outcome::DONE).await, Written::Lost);
            assert_eq!(scene.store().renew(vec![*old]).await.expect("renew").lost, [id(1)]);
            assert!(lease.fence > old.fence, "the fence went from {} to {}", old.fence, lease.fence);
        }
        assert_eq!(scene.crash().await, [1]);
        scene.reopen().await;
        stale.push(lease);
    }
    let job = scene.job(1).await;
    assert!(job.steps.is_empty() && job.state.name() == StateName::Queued);
}

/// Fault 54: cancel races with claim and completion. Whoever is first has the
/// last word, and the answer tells which.
pub async fn fault_54_the_first_final_word_wins<S: Subject>() {
    const JOBS: u128 = 60;
    let scene = Scene::<S>::new().await;
    let other = scene.second().await;
    scene.add((1..=JOBS).map(job).collect()).await;
    let requests: Vec<_> = (0..JOBS).map(|_| scene.request(&["q"], 1)).collect();
    let works = tokio::spawn({
        let store = scene.store().clone();
        async move {
            let mut done = HashMap::new();
            for request in requests {
                for leased in store.claim(request).await.expect("claim").leases {
                    let settlement = Settlement { lease: leased.lease_ref(), outcome: Outcome::DONE };
                    let written = store.settle(vec![settlement]).await.expect("settle")[0];
                    done.insert(leased.job.id, written);
                }
            }
            done
        }
    });
    let mut answers = HashMap::new();
    for n in (1..=JOBS).rev() {
        answers.insert(id(n), other.cancel(id(n)).await.expect("cancel"));
    }
    let done = works.await.expect("the worker");
    for n in 1..=JOBS {
        check_verdict(scene.job(n).await.state.name(), &answers, &done, id(n));
    }
}

fn check_verdict(
    state: StateName,
    answers: &HashMap<JobId, CancelAnswer>,
    done: &HashMap<JobId, Written>,
    id: JobId,
) {
    match answers[&id] {
        CancelAnswer::Canceled => {
            assert_eq!(state, StateName::Canceled);
            assert!(!done.contains_key(&id), "{id} was canceled while it was queued, and started");
        }
        CancelAnswer::Requested | CancelAnswer::Final => {
            assert_eq!((state, done.get(&id)), (StateName::Completed, Some(&Written::Done)), "{id}");
        }
        CancelAnswer::NotFound => panic!("{id} is not there"),
    }
}
