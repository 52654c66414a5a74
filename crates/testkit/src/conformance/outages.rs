//! 26: an outage is no crash. A lease counts until its job was taken back, and
//! that takes two looks.

use windlass_core::store::{RenewAnswer, Written};
use windlass_core::time::Clock;
use windlass_core::transition::Outcome;

use super::scene::*;
use crate::subject::Subject;

/// With the current fence a renewal, a step, progress and a settlement count also after the end of the lease, as
/// long as nobody has taken the job back.
pub async fn p26_a_late_write_counts<S: Subject>() {
    let scene = Scene::<S>::new().await;
    scene.add((1..=4).map(job).collect()).await;
    let leases: Vec<_> = scene.claim(4).await.iter().map(|leased| leased.lease_ref()).collect();
    scene.clock.advance(ms("9m"));
    let renewed = scene.store().renew(vec![leases[0]]).await.expect("renew");
    let instance = renewed.instance;
    assert_eq!(renewed, RenewAnswer { renewed: vec![id(1)], instance, ..Default::default() });
    let end = scene.job(1).await.lease().expect("a lease").expires_at;
    assert_eq!(end, scene.clock.wall().plus_ms(30_000), "counted from now");
    assert_eq!(scene.step(leases[1], "late", "1").await, Written::Done);
    assert_eq!(scene.progress(leases[1], "0.5").await, Written::Done);
    assert_eq!(scene.settle(leases[1], Outcome::DONE).await, Written::Done);
    assert_eq!(scene.settle(leases[2], retry_with("late")).await, Written::Done);
    assert_eq!(scene.settle(leases[3], Outcome::DONE).await, Written::Done, "never looked at before");
    for n in 1..=4 {
        assert_eq!(scene.job(n).await.crashes, 0, "an outage is no crash");
    }
    assert_eq!(scene.store().audit().await.expect("audit"), Vec::<String>::new());
}

/// A lease that ran out is taken in the second look, a wait after the first, and is lost from that moment on.
pub async fn p26_two_looks_take_a_lease<S: Subject>() {
    let mut scene = Scene::<S>::new().await;
    scene.add(vec![job(1)]).await;
    let lease = scene.claim_one().await;
    // The store was away, or nobody looked: the first look comes long after the end.
    scene.clock.advance(ms("1h"));
    let looked = scene.store().expire().await.expect("expire");
    assert_eq!((looked.jobs, looked.marked, looked.next_in_ms), (vec![], 1, Some(10_000)));
    assert_eq!(scene.job(1).await.lease().expect("a lease").marked_at, Some(scene.clock.wall()));
    scene.reopen().await;
    scene.clock.advance(9_999);
    let looked = scene.store().expire().await.expect("expire");
    assert_eq!((looked.jobs, looked.marked, looked.next_in_ms), (vec![], 0, Some(1)));
    scene.clock.advance(1);
    assert_eq!(scene.expired().await, [1], "by whichever handle the first look was");
    assert_eq!(scene.settle(lease, Outcome::DONE).await, Written::Lost);
    assert_eq!(scene.store().renew(vec![lease]).await.expect("renew").lost, [id(1)]);
    let job = scene.job(1).await;
    assert_eq!((job.crashes, job.lease()), (1, None));
}

/// The looks of a lease of any length: near its end, and at its end or a second later.
pub async fn p26_a_dead_worker_is_noticed_in_time<S: Subject>() {
    let scene = Scene::<S>::new().await;
    for (n, lease_ms, first_ms, second_ms) in [
        (1, 100, 67, 1_067),
        (2, 5_000, 3_334, 5_000),
        (3, 30_000, 20_000, 30_000),
        (4, 600_000, 540_000, 600_000),
    ] {
        scene.add(vec![job(n)]).await;
        let mut request = scene.request(&["q"], 1);
        request.lease_ms = Some(lease_ms);
        let lease = scene.store().claim(request).await.expect("claim").leases[0].lease_ref();
        for (wait_ms, marked) in [(first_ms, 1), (second_ms - first_ms, 0)] {
            let next = scene.store().expire().await.expect("expire").next_in_ms;
            assert!(
                next.is_some_and(|next| next <= wait_ms && next > 0),
                "{lease_ms}: {next:?} of {wait_ms}"
            );
            scene.clock.advance(wait_ms - 1);
            let looked = scene.store().expire().await.expect("expire");
            assert_eq!((looked.jobs, looked.marked), (vec![], 0), "{lease_ms}");
            scene.clock.advance(1);
            let looked = scene.store().expire().await.expect("expire");
            assert_eq!((looked.jobs.len(), looked.marked), (1 - marked, marked), "{lease_ms}");
        }
        assert_eq!(scene.settle(lease, Outcome::DONE).await, Written::Lost);
        scene.end(scene.claim_one().await, Outcome::DONE).await;
    }
}

/// A mark that is older than two waits is none: the store may have been away since.
pub async fn p26_an_old_mark_is_none<S: Subject>() {
    let scene = Scene::<S>::new().await;
    scene.add(vec![job(1), job(2)]).await;
    let leases: Vec<_> = scene.claim(2).await.iter().map(|leased| leased.lease_ref()).collect();
    scene.clock.advance(20_000);
    assert!(scene.expired().await.is_empty());
    // The store is away for longer than two waits.
    scene.clock.advance(20_001);
    let looked = scene.store().expire().await.expect("expire");
    assert_eq!((looked.jobs, looked.marked), (vec![], 2), "it is marked anew");
    assert_eq!(scene.store().renew(vec![leases[0]]).await.expect("renew").renewed, [id(1)]);
    scene.clock.advance(20_000);
    assert_eq!(scene.expired().await, [2], "two waits are not too long");
}

/// A renewal clears the mark: what is taken back was not renewed since the look before.
pub async fn p26_a_renewal_clears_the_mark<S: Subject>() {
    let scene = Scene::<S>::new().await;
    scene.add(vec![job(1)]).await;
    // Shorter than its wait, so that a mark that stayed would count at the new end.
    let mut request = scene.request(&["q"], 1);
    request.lease_ms = Some(1_000);
    let lease = scene.store().claim(request).await.expect("claim").leases[0].lease_ref();
    scene.clock.advance(900);
    assert_eq!(scene.store().expire().await.expect("expire").marked, 1);
    assert_eq!(scene.store().renew(vec![lease]).await.expect("renew").renewed, [id(1)]);
    assert_eq!(scene.job(1).await.lease().expect("a lease").marked_at, None);
    scene.clock.advance(1_500);
    let looked = scene.store().expire().await.expect("expire");
    assert_eq!((looked.jobs, looked.marked), (vec![], 1));
    assert_eq!(scene.settle(lease, Outcome::DONE).await, Written::Done);
}

/// A claim takes back nothing by itself, however long ago a lease ran out; a key and a limit stay held with it.
pub async fn p26_a_claim_takes_nothing_back<S: Subject>() {
    let scene = Scene::<S>::new().await;
    let other = scene.second().await;
    scene.policy(|policy| policy.limit = Some(1)).await;
    let shop = |n: u128| job_with(n, |spec| spec.key = key("shop"));
    scene.add(vec![shop(1), shop(2), job(3)]).await;
    let lease = scene.claim_one().await;
    scene.clock.advance(ms("1d"));
    assert!(other.claim(scene.request(&["q"], 9)).await.expect("claim").leases.is_empty());
    scene.expired().await;
    assert!(
        other.claim(scene.request(&["q"], 9)).await.expect("claim").leases.is_empty(),
        "it is only marked"
    );
    assert_eq!(scene.job(1).await.lease().map(|held| held.fence), Some(lease.fence));
    scene.clock.advance(10_000);
    assert_eq!(scene.expired().await, [1]);
    assert_eq!(scene.claimed(9).await, [1]);
}
