//! 15: repeating a call with the same ids is harmless.

use windlass_core::error::StoreError;
use windlass_core::job::Start;
use windlass_core::store::{ClaimRequest, LeaseRef, Settlement, Written};
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
    let late = scene.store().claim(request.clone()).await.expect("claim").leases;
    assert_eq!(late, rest, "they ran out, and nobody has taken them back");
    scene.taken_back().await;
    assert!(
        scene.store().claim(request.clone()).await.expect("claim").leases.is_empty(),
        "they are taken back"
    );
    scene.claim(5).await;
    assert!(scene.store().claim(request).await.expect("claim").leases.is_empty(), "others hold them now");
}

/// A request id belongs to the worker, the queues and the kinds that it was asked with. Whoever else uses it is
/// refused, and gets no lease and no payload of another's.
pub async fn p15_a_request_of_another_is_a_conflict<S: Subject>() {
    let scene = Scene::<S>::new().await;
    scene.add((1..=2).map(job).collect()).await;
    let request = ClaimRequest { kinds: Some(vec![kind("k"), kind("j")]), ..scene.request(&["q", "r"], 1) };
    let given = scene.store().claim(request.clone()).await.expect("claim").leases;
    assert_eq!(given.len(), 1);
    let others = [
        ClaimRequest { worker: worker("other"), ..request.clone() },
        ClaimRequest { queues: vec![queue("r")], ..request.clone() },
        ClaimRequest { queues: vec![queue("q"), queue("r"), queue("s")], ..request.clone() },
        ClaimRequest { kinds: Some(vec![kind("j")]), ..request.clone() },
        ClaimRequest { kinds: None, ..request.clone() },
    ];
    let second = scene.second().await;
    for other in others {
        for store in [scene.store(), &second] {
            let refused = store.claim(other.clone()).await;
            assert_eq!(refused, Err(StoreError::RequestTaken(request.request_id)), "{other:?}");
        }
    }
    let turned = ClaimRequest {
        queues: vec![queue("r"), queue("q"), queue("r")],
        kinds: Some(vec![kind("j"), kind("k")]),
        ..request
    };
    assert_eq!(second.claim(turned).await.expect("the same request").leases, given, "the order is nothing");
    assert_eq!(scene.claim(10).await.len(), 1, "nothing was claimed by those that were refused");
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

/// A settlement that is repeated by one program and by another ends one job, although nothing is left of it:
/// its queue keeps nothing, or what it kept was pruned. The others of its claim are still held, and end.
pub async fn p15_repeats_by_two_handles_end_one_job<S: Subject>() {
    for pruned in [false, true] {
        let scene = Scene::<S>::new().await;
        let second = scene.second().await;
        scene.policy(|policy| (policy.delete_finished, policy.finished_max) = (!pruned, 0)).await;
        scene.add((1..=6).map(job).collect()).await;
        let leases: Vec<LeaseRef> = scene.claim(6).await.iter().map(|leased| leased.lease_ref()).collect();
        let end = |lease: LeaseRef| vec![Settlement { lease, outcome: Outcome::DONE }];
        assert_eq!(second.settle(end(leases[0])).await.expect("settle"), [Written::Done]);
        if pruned {
            assert_eq!(second.prune().await.expect("prune"), 1);
        }
        for store in [scene.store(), &second, scene.store()] {
            assert_eq!(
                store.settle(end(leases[0])).await.expect("settle"),
                [Written::Lost],
                "nothing is there"
            );
            assert_eq!(store.audit().await.expect("audit"), Vec::<String>::new());
        }
        let queues = scene.store().queues().await.expect("queues");
        assert_eq!((queues[0].queued, queues[0].running), (0, 5));
        for (at, lease) in leases.iter().enumerate().skip(1) {
            let store = if at % 2 == 0 { scene.store() } else { &second };
            assert_eq!(store.settle(end(*lease)).await.expect("settle"), [Written::Done]);
            assert_eq!(store.audit().await.expect("audit"), Vec::<String>::new());
        }
        assert_eq!(scene.store().queues().await.expect("queues")[0].running, 0);
    }
}

/// An id that is used again, when nothing is left of the job that had it, is another job: what a program
/// remembers of the first one is no reason to refuse what it writes of the second.
pub async fn p15_an_id_that_is_used_again_is_settled<S: Subject>() {
    let scene = Scene::<S>::new().await;
    let second = scene.second().await;
    scene.policy(|policy| policy.delete_finished = true).await;
    scene.add(vec![job(1), job(2)]).await;
    let first = scene.claim(2).await;
    let end = |lease: LeaseRef| vec![Settlement { lease, outcome: Outcome::DONE }];
    assert_eq!(second.settle(end(first[0].lease_ref())).await.expect("settle"), [Written::Done]);
    scene.add(vec![job(1)]).await;
    let again = second.claim(scene.request(&["q"], 1)).await.expect("claim").leases;
    assert_eq!(again.iter().map(|leased| leased.job.id).collect::<Vec<_>>(), [id(1)]);
    scene.end(again[0].lease_ref(), Outcome::DONE).await;
    assert_eq!(scene.find(1).await, None);
    scene.end(first[1].lease_ref(), Outcome::DONE).await;
    assert_eq!(scene.store().audit().await.expect("audit"), Vec::<String>::new());
}

/// A claim that is asked again gives what it gave: not another job that has got the id of one that is gone, and
/// that another claim holds.
pub async fn p15_a_repeated_claim_gives_no_later_life<S: Subject>() {
    let scene = Scene::<S>::new().await;
    scene.policy(|policy| policy.delete_finished = true).await;
    scene.add(vec![job(1), job(2)]).await;
    let request = scene.request(&["q"], 2);
    let first = scene.store().claim(request.clone()).await.expect("claim").leases;
    scene.end(first[0].lease_ref(), Outcome::DONE).await;
    scene.add(vec![job(1)]).await;
    let again = scene.claim(1).await;
    assert_eq!((again[0].job.id, again[0].job.fence), (id(1), first[0].job.fence));
    let repeated = scene.store().claim(request).await.expect("claim").leases;
    assert_eq!(repeated.iter().map(|leased| leased.job.id).collect::<Vec<_>>(), [id(2)]);
}
