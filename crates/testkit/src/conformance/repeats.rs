//! 15: repeating a call with the same ids is harmless.

use windlass_core::job::Start;
use windlass_core::store::{LeaseRef, Written};
use windlass_core::transition::Outcome;

use super::scene::*;
use crate::subject::Subject;

/// A claim asked again gives the same leases, even over a restart, and no others.
pub async fn p15_a_repeated_claim_gives_the_same_leases<S: Subject>() {
    let mut scene = Scene::<S>::new().await;
    scene.add((1..=5).map(job).collect()).await;
    let request = scene.request(&["q"], 3);
    let first = scene.store().claim(request.clone()).await.expect("claim").leases;
    assert_eq!(first.len(), 3);
    assert_eq!(scene.store().claim(request.clone()).await.expect("claim").leases, first);
    scene.reopen().await;
    assert_eq!(scene.store().claim(request.clone()).await.expect("claim").leases, first);
    scene.end(first[1].lease_ref(), Outcome::DONE).await;
    let rest = scene.store().claim(request.clone()).await.expect("claim").leases;
    assert_eq!(rest, [first[0].clone(), first[2].clone()], "what is settled is not given again");
    scene.clock.advance(30_000);
    assert!(scene.store().claim(request.clone()).await.expect("claim").leases.is_empty(), "they ran out");
    scene.expired().await;
    scene.claim(5).await;
    assert!(scene.store().claim(request).await.expect("claim").leases.is_empty(), "others hold them now");
}

/// A claim that found nothing is not remembered: asked again, it may find something.
pub async fn p15_an_empty_claim_is_not_remembered<S: Subject>() {
    let scene = Scene::<S>::new().await;
    let request = scene.request(&["q"], 3);
    assert!(scene.store().claim(request.clone()).await.expect("claim").leases.is_empty());
    scene.add(vec![job(1)]).await;
    assert_eq!(scene.store().claim(request).await.expect("claim").leases.len(), 1);
}

/// A settlement asked again answers that it is done, and changes nothing.
pub async fn p15_a_repeated_settlement_is_done<S: Subject>() {
    let mut scene = Scene::<S>::new().await;
    scene.policy(|policy| policy.ladder = ladder("1h 1h")).await;
    let outcomes = [
        Outcome::Completed { result: Some(json("7")) },
        retry_with("later"),
        failed("never"),
        Outcome::Parked { until: Start::AfterMs(99_000) },
        Outcome::Released,
        Outcome::Canceled,
    ];
    scene.add((1..=6).map(job).collect()).await;
    let leases: Vec<LeaseRef> = scene.claim(6).await.iter().map(|leased| leased.lease_ref()).collect();
    for ((n, outcome), lease) in (1..).zip(&outcomes).zip(&leases) {
        scene.end(*lease, outcome.clone()).await;
        let settled = scene.job(n).await;
        scene.clock.advance(5);
        scene.reopen().await;
        assert_eq!(scene.settle(*lease, outcome.clone()).await, Written::Done, "{outcome:?}");
        assert_eq!(scene.job(n).await, settled, "{outcome:?}");
    }
    assert_eq!(scene.settle(leases[0], failed("no")).await, Written::Lost, "another outcome is no repeat");
}

/// The same settlement twice in one batch counts once.
pub async fn p15_twins_in_one_batch_count_once<S: Subject>() {
    let scene = Scene::<S>::new().await;
    scene.add(vec![job(1)]).await;
    let lease = scene.claim_one().await;
    let settle = |outcome| windlass_core::store::Settlement { lease, outcome };
    let batch = vec![settle(retry_with("a")), settle(retry_with("a")), settle(Outcome::DONE)];
    let answers = scene.store().settle(batch).await.expect("settle");
    assert_eq!(answers, [Written::Done, Written::Done, Written::Lost]);
    let job = scene.job(1).await;
    assert_eq!((job.attempt, job.history.len()), (1, 1));
}
