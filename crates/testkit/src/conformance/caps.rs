//! 13: nothing grows without bound. 19: too much at once is refused.

use windlass_core::error::StoreError;
use windlass_core::event::{Event, What};
use windlass_core::job::{ERROR_BYTES_MAX, HISTORY_MAX, NewJob};
use windlass_core::query::{JobFilter, ListRequest};
use windlass_core::step::STEPS_MAX;
use windlass_core::store::{CLAIM_MAX, ENQUEUE_MAX, EVENTS_KEPT, EVENTS_MAX, Leased, Settlement, Written};
use windlass_core::transition::Outcome;

use super::scene::*;
use crate::subject::Subject;

/// A job keeps its newest entries, and the errors in them are short.
pub async fn p13_history_is_bounded<S: Subject>() {
    let mut scene = Scene::<S>::new().await;
    scene.policy(|policy| policy.ladder = ladder(&["0ms"; 50].join(" "))).await;
    scene.add(vec![job(1)]).await;
    for n in 0..HISTORY_MAX + 5 {
        let lease = scene.claim_one().await;
        scene.end(lease, retry_with(&format!("error {n}"))).await;
    }
    scene.reopen().await;
    let job = scene.job(1).await;
    let errors: Vec<&str> = job.history.iter().filter_map(|entry| entry.error.as_deref()).collect();
    assert_eq!(errors.len(), HISTORY_MAX);
    assert_eq!((errors[0], errors[HISTORY_MAX - 1]), ("error 5", "error 36"));
    let lease = scene.claim_one().await;
    scene.end(lease, failed(&"ü\0".repeat(ERROR_BYTES_MAX))).await;
    let job = scene.job(1).await;
    let error = job.last_error().expect("an error");
    assert!(error.len() <= ERROR_BYTES_MAX && error.ends_with("(cut)") && !error.contains('\0'));
}

/// A job stores so many steps and no more; a repeat of a stored one is no new one.
pub async fn p13_steps_are_bounded<S: Subject>() {
    let scene = Scene::<S>::new().await;
    scene.add(vec![job(1)]).await;
    let lease = scene.claim_one().await;
    for from in (0..STEPS_MAX).step_by(250) {
        let steps = (from..from + 250).map(|n| step(lease, &format!("s{n}"), "1")).collect();
        let answers = scene.store().store_steps(steps).await.expect("store_steps");
        assert!(answers.iter().all(|answer| *answer == Written::Done));
    }
    assert_eq!(scene.step(lease, "one too many", "1").await, Written::TooManySteps);
    assert_eq!(scene.step(lease, "s7", "2").await, Written::Done, "a repeat is harmless");
    let job = scene.job(1).await;
    assert_eq!((job.steps.len(), job.steps[7].output.as_str()), (STEPS_MAX, "1"));
    assert!(job.steps.iter().enumerate().all(|(n, step)| step.name.as_str() == format!("s{n}")));
}

/// Finished jobs go when they are too old; others stay.
pub async fn p13_finished_jobs_go_by_age<S: Subject>() {
    let scene = Scene::<S>::new().await;
    scene.policy(|policy| policy.retention_days = 2).await;
    scene.add((1..=3).map(job).collect()).await;
    scene.store().cancel(id(1)).await.expect("cancel");
    scene.clock.advance(ms("1d"));
    scene.store().cancel(id(2)).await.expect("cancel");
    scene.clock.advance(ms("1d") - 1);
    assert_eq!(scene.store().prune().await.expect("prune"), 0);
    scene.clock.advance(1);
    assert_eq!(scene.store().prune().await.expect("prune"), 1);
    assert!(scene.find(1).await.is_none() && scene.find(2).await.is_some() && scene.find(3).await.is_some());
    scene.add(vec![job(1)]).await;
    scene.clock.advance(ms("30d"));
    assert_eq!(scene.store().prune().await.expect("prune"), 1, "what is not over is never too old");
    assert!(scene.find(2).await.is_none() && scene.find(1).await.is_some() && scene.find(3).await.is_some());
}

/// Of each queue the newest finished jobs stay, up to a number.
pub async fn p13_finished_jobs_go_by_number<S: Subject>() {
    let scene = Scene::<S>::new().await;
    scene.policy(|policy| policy.finished_max = 2).await;
    scene.add((1..=5).map(job).collect()).await;
    scene.add(vec![job_with(6, |spec| spec.queue = queue("other"))]).await;
    for n in [3, 1, 6, 5, 2] {
        scene.store().cancel(id(n)).await.expect("cancel");
        scene.clock.advance(1);
    }
    assert_eq!(scene.store().prune().await.expect("prune"), 2);
    let page = scene.store().list(ListRequest { filter: JobFilter::default(), limit: 50, after: None }).await;
    let left: Vec<u128> = page.expect("list").jobs.iter().map(|job| number(job.id)).collect();
    assert_eq!(left, [6, 5, 4, 2], "the newest two of q, what is not over, and the other queue's");
}

/// A queue may keep no finished jobs at all, except those that failed.
pub async fn p13_a_queue_may_keep_nothing<S: Subject>() {
    let scene = Scene::<S>::new().await;
    scene.policy(|policy| policy.delete_finished = true).await;
    scene.add((1..=4).map(job).collect()).await;
    scene.store().cancel(id(4)).await.expect("cancel");
    let leases = scene.claim(3).await;
    scene.end(leases[0].lease_ref(), Outcome::DONE).await;
    scene.end(leases[1].lease_ref(), failed("look at me")).await;
    scene.end(leases[2].lease_ref(), Outcome::Canceled).await;
    for (n, kept) in [(1, false), (2, true), (3, false), (4, false)] {
        assert_eq!(scene.find(n).await.is_some(), kept, "job {n}");
    }
    let events = scene.store().events(None, 100).await.expect("events");
    assert!(events.iter().any(|event| event.what == What::Completed), "its end is told all the same");
}

/// Remembered claims and silent workers are forgotten after their time.
pub async fn p13_memories_are_forgotten<S: Subject>() {
    let scene = Scene::<S>::new().await;
    scene.add(vec![job(1)]).await;
    scene.store().beat(beat_of("silent")).await.expect("beat");
    let mut request = scene.request(&["q"], 1);
    request.lease_ms = Some(86_400_000);
    let first = scene.store().claim(request.clone()).await.expect("claim").leases;
    scene.clock.advance(ms("10m") - 1);
    scene.store().prune().await.expect("prune");
    assert_eq!(scene.store().claim(request.clone()).await.expect("claim").leases, first);
    scene.clock.advance(1);
    scene.store().prune().await.expect("prune");
    assert!(
        scene.store().claim(request).await.expect("claim").leases.is_empty(),
        "the request was forgotten"
    );
    scene.clock.advance(ms("50m") - 1);
    scene.store().prune().await.expect("prune");
    assert_eq!(scene.store().workers().await.expect("workers").len(), 1);
    scene.clock.advance(1);
    scene.store().prune().await.expect("prune");
    assert!(scene.store().workers().await.expect("workers").is_empty());
}

/// Of the events the newest are kept: at least a thousand, and after a prune
/// no more than so many.
pub async fn p13_events_are_bounded<S: Subject>() {
    const QUEUES: u32 = 1_000;
    let scene = Scene::<S>::new().await;
    let names: Vec<String> = (0..QUEUES).map(|n| format!("q{n}")).collect();
    let queues: Vec<&str> = names.iter().map(String::as_str).collect();
    let rounds = EVENTS_KEPT / u64::from(3 * QUEUES) + 2;
    for round in 0..rounds {
        let lane = |n: u32| {
            let number = u128::from(round) * 10_000 + u128::from(n) + 1;
            job_with(number, |spec| spec.queue = queue(&names[n as usize]))
        };
        scene.add((0..QUEUES).map(lane).collect()).await;
        let leases = scene.claim_from(&queues, QUEUES).await;
        assert_eq!(leases.len(), QUEUES as usize);
        let done = |leased: &windlass_core::store::Leased| Settlement {
            lease: leased.lease_ref(),
            outcome: Outcome::DONE,
        };
        scene.store().settle(leases.iter().map(done).collect()).await.expect("settle");
        scene.clock.advance(ms("31d"));
        assert_eq!(scene.store().prune().await.expect("prune"), u64::from(QUEUES));
    }
    let (mut kept, mut since) = (Vec::new(), None);
    loop {
        let events: Vec<Event> = scene.store().events(since, EVENTS_MAX).await.expect("events");
        let Some(last) = events.last() else { break };
        since = Some(last.position);
        kept.extend(events.iter().map(|event| (event.at, event.what)));
    }
    let count = kept.len() as u64;
    assert!((1_000..=EVENTS_KEPT).contains(&count), "{count} events are kept");
    let newest = scene.store().now().await.expect("now").plus_ms(-(ms("31d") as i64));
    assert_eq!(kept.last(), Some(&(newest, What::Completed)), "the oldest go first");
}

/// A batch that is too large is refused whole.
pub async fn p19_batches_have_a_limit<S: Subject>() {
    let scene = Scene::<S>::new().await;
    let jobs: Vec<NewJob> = (1..=ENQUEUE_MAX as u128 + 1).map(job).collect();
    let answer = scene.store().enqueue(jobs.clone()).await;
    assert!(matches!(answer, Err(StoreError::Invalid(_))), "{answer:?}");
    assert!(scene.find(1).await.is_none(), "nothing of it stayed");
    let answers = scene.store().enqueue(jobs[1..].to_vec()).await.expect("as many as may");
    assert_eq!(answers.len(), ENQUEUE_MAX);
    let answer = scene.store().claim(scene.request(&["q"], CLAIM_MAX + 1)).await;
    assert!(matches!(answer, Err(StoreError::Invalid(_))), "{answer:?}");
    for lease_ms in [0, 99, 86_400_001] {
        let mut request = scene.request(&["q"], 1);
        request.lease_ms = Some(lease_ms);
        let answer = scene.store().claim(request).await;
        assert!(matches!(answer, Err(StoreError::Invalid(_))), "{lease_ms}: {answer:?}");
    }
    assert_eq!(scene.claim(CLAIM_MAX).await.len(), ENQUEUE_MAX);
    assert!(scene.store().enqueue(vec![]).await.expect("nothing is not too much").is_empty());
}

/// A policy that makes no sense is refused, and what was there stays.
pub async fn p19_senseless_policies_are_refused<S: Subject>() {
    let scene = Scene::<S>::new().await;
    scene.policy(|policy| policy.limit = Some(4)).await;
    let refused = async |change: fn(&mut windlass_core::policy::queue::QueuePolicy)| {
        let mut policy = Default::default();
        change(&mut policy);
        let answer = scene.store().put_queue(queue("q"), policy).await;
        assert!(matches!(answer, Err(StoreError::Invalid(_))), "{answer:?}");
    };
    refused(|policy| policy.limit = Some(0)).await;
    refused(|policy| policy.lease_ms = 99).await;
    refused(|policy| policy.crashes_max = 0).await;
    refused(|policy| policy.max_attempts = Some(0)).await;
    refused(|policy| (policy.ladder, policy.max_attempts) = (ladder("none"), Some(2))).await;
    refused(|policy| policy.ageing_ms = Some(0)).await;
    let queues = scene.store().queues().await.expect("queues");
    assert_eq!((queues.len(), queues[0].policy.limit), (1, Some(4)));
    for text in ["x".repeat(201), String::new(), "a\0b".to_owned()] {
        let filter = JobFilter { text: Some(text), ..Default::default() };
        let answer = scene.store().list(ListRequest { filter, limit: 5, after: None }).await;
        assert!(matches!(answer, Err(StoreError::Invalid(_))), "{answer:?}");
    }
}

/// A claim gives 32 MiB of payloads and steps at most, in order, and at least one job; the rest stays queued.
pub async fn p19_a_claim_is_bounded_in_bytes<S: Subject>() {
    let scene = Scene::<S>::new().await;
    let large = format!("\"{}\"", "x".repeat(999_998));
    let new = |n: u128| {
        let mut new = job(n);
        new.spec.payload = json(&large);
        new
    };
    for from in [1, 13, 25] {
        scene.add((from..from + 12).map(new).collect()).await;
    }
    let first = scene.claim(100).await;
    let ids = |leases: &[Leased]| leases.iter().map(|leased| number(leased.job.id)).collect::<Vec<_>>();
    assert_eq!(ids(&first), (1..=33).collect::<Vec<_>>(), "a million bytes each");
    assert_eq!(scene.claimed(100).await, [34, 35, 36], "the rest was left where it was");
    for some in first.chunks(11) {
        let steps = some.iter().map(|leased| step(leased.lease_ref(), "s", &large)).collect();
        assert_eq!(scene.store().store_steps(steps).await.expect("store_steps"), [Written::Done; 11]);
        let release = |leased: &Leased| Settlement { lease: leased.lease_ref(), outcome: Outcome::Released };
        let released = scene.store().settle(some.iter().map(release).collect()).await;
        assert_eq!(released.expect("settle"), [Written::Done; 11]);
    }
    assert_eq!(scene.claimed(100).await, (1..=16).collect::<Vec<_>>(), "two million bytes each");
    assert_eq!(scene.claimed(100).await, (17..=32).collect::<Vec<_>>());
    assert_eq!(scene.claimed(100).await, [33]);
    assert_eq!(scene.store().audit().await.expect("audit"), Vec::<String>::new());
}
