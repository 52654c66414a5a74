//! 2, 3, 4: one lease per job, one job per key, limits, fences.

use windlass_core::store::{LeaseRef, RenewAnswer, Settlement, Written};
use windlass_core::ticket::Ticket;
use windlass_core::transition::Outcome;

use super::scene::*;
use crate::subject::Subject;

/// A job that is held is given to nobody else, not even after its lease ran
/// out, until the store has taken it back in two looks.
pub async fn p02_a_job_has_one_lease<S: Subject>() {
    let scene = Scene::<S>::new().await;
    let other = scene.second().await;
    scene.add(vec![job(1)]).await;
    let first = scene.claim_one().await;
    scene.clock.advance(20_000);
    assert!(scene.expired().await.is_empty(), "the first look marks it");
    scene.clock.advance(9_999);
    assert!(other.claim(scene.request(&["q"], 5)).await.expect("claim").leases.is_empty());
    assert!(scene.expired().await.is_empty(), "the lease is still good");
    scene.clock.advance(1);
    assert!(other.claim(scene.request(&["q"], 5)).await.expect("claim").leases.is_empty());
    assert_eq!(scene.expired().await, [1]);
    assert!(scene.expired().await.is_empty(), "a lease is taken back once");
    let second = scene.claim_one().await;
    assert!(second.fence > first.fence, "the fence rises");
}

/// The fence rises with each claim: after a release, a crash, a failure, a
/// restart and an explicit retry.
pub async fn p02_the_fence_rises_with_each_claim<S: Subject>() {
    let mut scene = Scene::<S>::new().await;
    scene.policy(|policy| policy.ladder = ladder("0ms 0ms 0ms 0ms")).await;
    scene.add(vec![job(1)]).await;
    let mut fences = Vec::new();
    for round in 0..5 {
        let lease = scene.claim_one().await;
        fences.push(lease.fence);
        match round {
            0 => scene.end(lease, Outcome::Released).await,
            1 => assert_eq!(scene.crash().await, [1]),
            2 => scene.end(lease, retry_with("again")).await,
            3 => {
                scene.end(lease, failed("no")).await;
                scene.reopen().await;
                scene.retried(1).await;
            }
            _ => scene.end(lease, Outcome::DONE).await,
        }
    }
    assert!(fences.is_sorted_by(|a, b| a < b), "fences {fences:?} do not rise");
}

/// A renewal moves the expiry by the lease's own length, counted from now.
pub async fn p02_a_renewal_moves_the_expiry<S: Subject>() {
    let scene = Scene::<S>::new().await;
    scene.add(vec![job(1), job(2)]).await;
    let mut request = scene.request(&["q"], 1);
    request.lease_ms = Some(1_000);
    let short = scene.store().claim(request).await.expect("claim").leases[0].lease_ref();
    let long = scene.claim_one().await;
    scene.clock.advance(600);
    let answer = scene.store().renew(vec![short, long]).await.expect("renew");
    let renewed = vec![short.job_id, long.job_id];
    assert_eq!(answer, RenewAnswer { renewed, instance: answer.instance, ..Default::default() });
    // A third of the short one is 333 ms, and the wait of it a second.
    scene.clock.advance(666);
    let expired = scene.store().expire().await.expect("expire");
    assert_eq!((expired.jobs, expired.marked, expired.next_in_ms), (vec![], 0, Some(1)));
    scene.clock.advance(1);
    let expired = scene.store().expire().await.expect("expire");
    assert_eq!((expired.jobs, expired.marked, expired.next_in_ms), (vec![], 1, Some(1_000)));
    scene.clock.advance(1_000);
    assert_eq!(scene.expired().await, [1]);
    scene.clock.advance(28_332);
    assert!(scene.expired().await.is_empty());
    scene.clock.advance(1);
    assert!(scene.expired().await.is_empty(), "its end, and only now somebody has seen it");
    scene.clock.advance(10_000);
    assert_eq!(scene.expired().await, [2]);
}

/// Of the running jobs of a queue at most one has a given key; another queue
/// may run the same key, and the key is free again when its job ends.
pub async fn p03_a_key_runs_once<S: Subject>() {
    let scene = Scene::<S>::new().await;
    let shop = |n: u128| job_with(n, |spec| spec.key = key("shop"));
    let elsewhere = job_with(4, |spec| {
        spec.key = key("shop");
        spec.queue = queue("other");
    });
    scene.add(vec![shop(1), shop(2), job_with(3, |spec| spec.key = key("mill")), elsewhere]).await;
    assert_eq!(scene.claimed(10).await, [1, 3], "one of each key");
    assert_eq!(scene.claim_from(&["other"], 10).await.len(), 1);
    assert!(scene.claim(10).await.is_empty(), "the key is still busy");
    let first = scene.job(1).await;
    scene.end(LeaseRef::new(first.id, first.fence), Outcome::DONE).await;
    assert_eq!(scene.claimed(10).await, [2]);
    assert_eq!(scene.crash().await.len(), 3, "what crashed frees its key");
    assert_eq!(scene.claimed(10).await, [2, 3]);
}

/// A queue never runs more than its limit, over all claims and all handles.
pub async fn p03_a_queue_keeps_its_limit<S: Subject>() {
    let scene = Scene::<S>::new().await;
    let other = scene.second().await;
    scene.policy(|policy| policy.limit = Some(3)).await;
    scene.add((1..=6).map(job).collect()).await;
    scene.add(vec![job_with(7, |spec| spec.queue = queue("free"))]).await;
    let held = scene.claim(2).await;
    let more = other.claim(scene.request(&["q", "free"], 10)).await.expect("claim").leases;
    let numbers: Vec<u128> = more.iter().map(|leased| number(leased.job.id)).collect();
    assert_eq!(numbers, [3, 7], "one more of q, and what is not limited");
    assert!(scene.claim(10).await.is_empty());
    scene.end(held[0].lease_ref(), Outcome::DONE).await;
    assert_eq!(scene.claimed(10).await, [4]);
    scene.policy(|policy| policy.limit = Some(1)).await;
    scene.end(held[1].lease_ref(), Outcome::DONE).await;
    assert!(scene.claim(10).await.is_empty(), "a lowered limit holds at once");
}

/// A write with a stale fence changes nothing: after the job was taken back, after
/// another worker has it, after the same worker has it again.
pub async fn p04_a_stale_fence_changes_nothing<S: Subject>() {
    let scene = Scene::<S>::new().await;
    scene.policy(|policy| policy.crashes_max = 9).await;
    scene.add(vec![job(1)]).await;
    let first = scene.claim_one().await;
    assert_refused(&scene, with_fence(first, first.fence + 1)).await;
    assert_refused(&scene, with_fence(first, 0)).await;
    assert_eq!(scene.crash().await, [1]);
    assert_refused(&scene, first).await;
    let again = scene.claim_one().await;
    assert_refused(&scene, first).await;
    assert_eq!(scene.crash().await, [1]);
    let mut request = scene.request(&["q"], 1);
    request.worker = worker("another");
    scene.store().claim(request).await.expect("claim");
    assert_refused(&scene, first).await;
    assert_refused(&scene, again).await;
}

async fn assert_refused<S: Subject>(scene: &Scene<S>, lease: windlass_core::store::LeaseRef) {
    let before = scene.job(1).await;
    let answer = scene.store().renew(vec![lease]).await.expect("renew");
    let lost = vec![lease.job_id];
    assert_eq!(answer, RenewAnswer { lost, instance: answer.instance, ..Default::default() });
    assert_eq!(scene.step(lease, "stale", "1").await, Written::Lost);
    assert_eq!(scene.progress(lease, "1").await, Written::Lost);
    for outcome in [Outcome::DONE, retry_with("late"), failed("late"), Outcome::Released, Outcome::Canceled] {
        assert_eq!(scene.settle(lease, outcome).await, Written::Lost);
    }
    assert_eq!(scene.job(1).await, before, "a stale write changed the job");
}

/// A write for a job that is not there is lost, and the others of its batch are taken.
pub async fn p04_one_lost_write_does_not_spoil_a_batch<S: Subject>() {
    let scene = Scene::<S>::new().await;
    scene.add(vec![job(1), job(2)]).await;
    let leases: Vec<_> = scene.claim(2).await.iter().map(|leased| leased.lease_ref()).collect();
    let ghost = LeaseRef::new(id(77), 1);
    let steps = vec![step(leases[0], "a", "1"), step(ghost, "a", "1"), step(leases[1], "a", "1")];
    let answers = scene.store().store_steps(steps).await.expect("store_steps");
    assert_eq!(answers, [Written::Done, Written::Lost, Written::Done]);
    let renewed = scene.store().renew(vec![ghost, leases[1], leases[0]]).await.expect("renew");
    assert_eq!(renewed.renewed, [id(2), id(1)]);
    assert_eq!(renewed.lost, [id(77)]);
    let settle = |lease| Settlement { lease, outcome: Outcome::DONE };
    let stale = with_fence(leases[1], 9);
    let all = vec![settle(leases[0]), settle(ghost), settle(stale), settle(leases[1])];
    let answers = scene.store().settle(all).await.expect("settle");
    assert_eq!(answers, [Written::Done, Written::Lost, Written::Lost, Written::Done]);
}

/// What one call has ended is ended, with whatever fence the same call ends it again: also with none that was ever given.
pub async fn p04_a_call_ends_a_job_once<S: Subject>() {
    for delete_finished in [false, true] {
        let scene = Scene::<S>::new().await;
        scene.policy(|policy| policy.delete_finished = delete_finished).await;
        scene.add(vec![job(1), job(2)]).await;
        let leases: Vec<_> = scene.claim(2).await.iter().map(|leased| leased.lease_ref()).collect();
        let fences = [leases[0].fence, 0, leases[0].fence + 1, u64::MAX >> 1];
        let settle = |fence| Settlement { lease: with_fence(leases[0], fence), outcome: Outcome::DONE };
        let answers = scene.store().settle(fences.map(settle).to_vec()).await.expect("settle");
        assert_eq!(answers, [Written::Done, Written::Lost, Written::Lost, Written::Lost]);
        let breaches = scene.store().audit().await.expect("audit");
        assert!(breaches.is_empty(), "delete_finished {delete_finished}: {breaches:?}");
        assert_eq!(scene.settle(leases[1], Outcome::DONE).await, Written::Done);
    }
}

/// A job that is gone is lost, and the others of its claim end by the call that names it.
pub async fn p04_a_job_that_is_gone_spoils_no_batch<S: Subject>() {
    for gone in [0, 7, 19] {
        let scene = Scene::<S>::new().await;
        scene.policy(|policy| policy.delete_finished = true).await;
        scene.add((1..=20).map(job).collect()).await;
        let leases: Vec<_> = scene.claim(20).await.iter().map(|leased| leased.lease_ref()).collect();
        scene.end(leases[gone], Outcome::DONE).await;
        let ends = leases.iter().map(|lease| Settlement { lease: *lease, outcome: Outcome::DONE }).collect();
        let mut expected = vec![Written::Done; 20];
        expected[gone] = Written::Lost;
        assert_eq!(scene.store().settle(ends).await.expect("settle"), expected);
        assert_eq!(scene.store().audit().await.expect("audit"), Vec::<String>::new());
    }
}

/// A ticket is a hint: with none, with another's, with an old one or with one that nobody gave, a lease is what it is. None makes
/// a job end that is not held, and none keeps one from ending.
pub async fn p04_a_ticket_is_a_hint<S: Subject>() {
    let scene = Scene::<S>::new().await;
    scene.add((1..=40).map(job).collect()).await;
    let leases: Vec<LeaseRef> = scene.claim(30).await.iter().map(|leased| leased.lease_ref()).collect();
    // Of a job that is held by its first lease, of one that is held by its second, and of one that has ended.
    scene.end(leases[1], Outcome::Released).await;
    let second = scene.claim(1).await[0].lease_ref();
    scene.end(leases[2], Outcome::DONE).await;
    let tickets =
        [None, leases[0].ticket, leases[1].ticket, second.ticket, leases[2].ticket, Ticket::new(&[1; 25])];
    let with = |lease: LeaseRef, ticket| LeaseRef { ticket, ..lease };
    for ticket in tickets {
        // Queued, ended, held with another fence, and unknown.
        let idle = [LeaseRef::new(id(35), 1), leases[2], leases[1], LeaseRef::new(id(99), 1)];
        for (lease, written) in
            idle.into_iter().zip([Written::Lost, Written::Done, Written::Lost, Written::Lost])
        {
            assert_eq!(scene.settle(with(lease, ticket), Outcome::DONE).await, written, "{lease:?}");
        }
    }
    assert_eq!(scene.store().audit().await.expect("audit"), Vec::<String>::new());
    // Whatever they say, all of them end, alone and among others, by either handle.
    let other = scene.second().await;
    for (at, ticket) in tickets.into_iter().enumerate() {
        scene.end(with(leases[3 + at], ticket), Outcome::DONE).await;
    }
    let rest: Vec<LeaseRef> = leases[9..].iter().chain([&leases[0], &second]).copied().collect();
    let end = |(at, lease): (usize, &LeaseRef)| {
        let ticket = if at % 3 == 0 { lease.ticket } else { tickets[at % tickets.len()] };
        Settlement { lease: with(*lease, ticket), outcome: Outcome::DONE }
    };
    let ends: Vec<Settlement> = rest.iter().enumerate().map(end).collect();
    assert_eq!(other.settle(ends).await.expect("settle"), vec![Written::Done; rest.len()]);
    assert_eq!(scene.store().audit().await.expect("audit"), Vec::<String>::new());
    assert_eq!(scene.claimed(99).await, (31..=40).collect::<Vec<u128>>());
}
