//! 5, 6, 7, 10: what ends, stays ended; what was stored, stays stored;
//! attempts and crashes are counted; cancel.

use windlass_core::error::StoreError;
use windlass_core::event::What;
use windlass_core::id::JobId;
use windlass_core::job::Start;
use windlass_core::policy::queue::{OnCrash, QueuePolicy};
use windlass_core::state::{FailureReason, State, StateName};
use windlass_core::store::{CancelAnswer, LeaseRef, RetryAnswer, Written};
use windlass_core::transition::Outcome;

use super::scene::*;
use crate::subject::Subject;

/// Nothing but an explicit retry leaves a final state.
pub async fn p05_a_final_state_stays<S: Subject>() {
    let scene = Scene::<S>::new().await;
    scene.add((1..=4).map(job).collect()).await;
    let leases: Vec<LeaseRef> = scene.claim(3).await.iter().map(|leased| leased.lease_ref()).collect();
    scene.store().cancel(id(3)).await.expect("cancel");
    scene.end(leases[0], Outcome::DONE).await;
    scene.end(leases[1], failed("no")).await;
    scene.end(leases[2], Outcome::Canceled).await;
    scene.store().cancel(id(4)).await.expect("cancel");
    for n in 1..=4 {
        let before = scene.job(n).await;
        let lease = LeaseRef::new(id(n), before.fence);
        assert_eq!(scene.store().cancel(id(n)).await.expect("cancel"), CancelAnswer::Final);
        assert_eq!(scene.store().renew(vec![lease]).await.expect("renew").lost, [id(n)]);
        assert_eq!(scene.step(lease, "late", "1").await, Written::Lost);
        assert_eq!(scene.progress(lease, "1").await, Written::Lost);
        assert_eq!(scene.settle(lease, Outcome::Released).await, settled_again(n));
        assert!(scene.crash().await.is_empty());
        assert!(scene.claim(10).await.is_empty());
        assert_eq!(scene.job(n).await, before, "a final job changed");
    }
}

/// A release of an attempt that ended as canceled is a repeat by the rules of
/// core (a canceled job ends so whatever its worker says); of the others, lost.
fn settled_again(n: u128) -> Written {
    if n == 3 { Written::Done } else { Written::Lost }
}

/// An explicit retry starts a new life and is recorded; steps stay.
pub async fn p05_a_retry_starts_a_new_life<S: Subject>() {
    let scene = Scene::<S>::new().await;
    scene.add(vec![job(1)]).await;
    assert_eq!(scene.store().retry(id(1)).await.expect("retry"), RetryAnswer::NotFinal);
    assert_eq!(scene.store().retry(id(9)).await.expect("retry"), RetryAnswer::NotFound);
    let lease = scene.claim_one().await;
    assert_eq!(scene.store().retry(id(1)).await.expect("retry"), RetryAnswer::NotFinal);
    scene.step(lease, "one", "1").await;
    scene.progress(lease, "0.9").await;
    scene.end(lease, failed("broken")).await;
    scene.clock.advance(10);
    scene.retried(1).await;
    let job = scene.job(1).await;
    assert_eq!((job.state.name(), job.attempt, job.crashes, job.retries), (StateName::Queued, 0, 0, 1));
    assert_eq!(
        (job.run_at, job.progress.is_none(), job.steps.len()),
        (windlass_core::time::Clock::wall(&scene.clock), true, 1)
    );
    let whats: Vec<What> = job.history.iter().map(|entry| entry.what).collect();
    assert_eq!(whats, [What::Failed, What::Retried]);
    assert_eq!(job.history[0].error.as_deref(), Some("broken"));
    let second = scene.claim_one().await;
    assert!(second.fence > lease.fence);
    assert_eq!(scene.settle(lease, Outcome::DONE).await, Written::Lost, "the life before is over");
}

/// A retry does not take a dedupe key from the job that has it now.
pub async fn p05_a_retry_respects_the_dedupe_key<S: Subject>() {
    let scene = Scene::<S>::new().await;
    let twin = |n| job_with(n, |spec| spec.dedupe_key = dedupe("once"));
    scene.add(vec![twin(1)]).await;
    scene.store().cancel(id(1)).await.expect("cancel");
    scene.add(vec![twin(2)]).await;
    let before = scene.job(1).await;
    assert_eq!(scene.store().retry(id(1)).await.expect("retry"), RetryAnswer::Taken(id(2)));
    assert_eq!(scene.job(1).await, before);
    scene.store().cancel(id(2)).await.expect("cancel");
    scene.retried(1).await;
    assert_eq!(scene.store().retry(id(2)).await.expect("retry"), RetryAnswer::Taken(id(1)));
}

/// A stored step is given to every later attempt, and its first output stays.
pub async fn p06_a_stored_step_stays<S: Subject>() {
    let mut scene = Scene::<S>::new().await;
    scene.add(vec![job(1)]).await;
    let first = scene.claim_one().await;
    assert_eq!(scene.step(first, "fetch", "{\"bytes\":7}").await, Written::Done);
    assert_eq!(scene.step(first, "fetch", "\"other\"").await, Written::Done, "a repeat is harmless");
    assert_eq!(scene.step(first, "parse", "[]").await, Written::Done);
    scene.crash().await;
    assert_eq!(scene.step(first, "late", "1").await, Written::Lost);
    scene.reopen().await;
    let leased = scene.claim(1).await.remove(0);
    let steps: Vec<(&str, &str, u32)> = leased
        .job
        .steps
        .iter()
        .map(|step| (step.name.as_str(), step.output.as_str(), step.attempt))
        .collect();
    assert_eq!(steps, [("fetch", "{\"bytes\":7}", 1), ("parse", "[]", 1)]);
    scene.end(leased.lease_ref(), failed("no")).await;
    scene.retried(1).await;
    assert_eq!(scene.claim(1).await[0].job.steps.len(), 2, "not even a new life runs them again");
}

/// Attempts end with the ladder: each failure waits its rung, the last is the end.
pub async fn p07_attempts_end_with_the_ladder<S: Subject>() {
    let scene = Scene::<S>::new().await;
    scene.policy(|policy| policy.ladder = ladder("1m 5m")).await;
    scene.add(vec![job(1)]).await;
    for (attempt, delay) in [(1, Some(ms("1m"))), (2, Some(ms("5m"))), (3, None)] {
        let leased = scene.claim(1).await.remove(0);
        assert_eq!((leased.job.attempt, leased.retry_delay_ms), (attempt, delay));
        scene.end(leased.lease_ref(), retry_with("not yet")).await;
        let Some(delay) = delay else { break };
        scene.clock.advance(delay - 1);
        assert!(scene.claim(1).await.is_empty(), "a millisecond too early");
        scene.clock.advance(1);
    }
    let job = scene.job(1).await;
    let State::Failed { reason, .. } = job.state else { panic!("{:?}", job.state) };
    assert_eq!((reason, job.attempt, job.history.len()), (FailureReason::Exhausted, 3, 3));
}

/// A job's own retry rule goes before its queue's, and a handler may say when.
pub async fn p07_a_job_may_have_its_own_rule<S: Subject>() {
    let scene = Scene::<S>::new().await;
    let rule = windlass_core::policy::ladder::RetryRule { ladder: ladder("1h 1h"), max_attempts: Some(2) };
    scene.add(vec![job_with(1, |spec| spec.retry = Some(rule))]).await;
    let lease = scene.claim_one().await;
    scene.end(lease, Outcome::Retry { error: "busy".into(), when: Some(Start::AfterMs(500)) }).await;
    scene.clock.advance(500);
    let lease = scene.claim_one().await;
    scene.end(lease, Outcome::Retry { error: "busy".into(), when: Some(Start::AfterMs(500)) }).await;
    let job = scene.job(1).await;
    assert_eq!(job.state.name(), StateName::Failed, "two attempts were allowed");
}

/// A lease that ran out counts as a crash; the third without a step in
/// between is the last. A step sets the count back.
pub async fn p07_crashes_end_in_quarantine<S: Subject>() {
    let scene = Scene::<S>::new().await;
    scene.policy(|policy| policy.ladder = ladder("1s 1s 1s 1s 1s 1s 1s 1s")).await;
    scene.add(vec![job(1)]).await;
    for _ in 0..2 {
        scene.claim_one().await;
        assert_eq!(scene.crash().await, [1]);
    }
    let lease = scene.claim_one().await;
    scene.step(lease, "one", "1").await;
    assert_eq!(scene.crash().await, [1]);
    assert_eq!(scene.job(1).await.crashes, 1, "the step set the count back");
    for _ in 0..2 {
        scene.claim_one().await;
        scene.crash().await;
    }
    let job = scene.job(1).await;
    assert_eq!(job.crashes, 3);
    assert!(matches!(job.state, State::Failed { reason: FailureReason::Quarantined, .. }), "{:?}", job.state);
    assert!(job.history.iter().all(|entry| entry.what == What::Crashed && entry.error.is_some()));
}

/// What a crash means is the queue's to say; attempts are counted by crashes too.
pub async fn p07_a_crash_can_be_the_end<S: Subject>() {
    let scene = Scene::<S>::new().await;
    scene.policy(|policy| policy.on_crash = OnCrash::Fail).await;
    scene.add(vec![job(1)]).await;
    scene.claim_one().await;
    scene.crash().await;
    let state = scene.job(1).await.state;
    assert!(matches!(state, State::Failed { reason: FailureReason::Crashed, .. }), "{state:?}");
    scene.policy(|policy| policy.ladder = ladder("none")).await;
    scene.add(vec![job(2)]).await;
    scene.claim_one().await;
    scene.crash().await;
    let state = scene.job(2).await.state;
    assert!(matches!(state, State::Failed { reason: FailureReason::Exhausted, .. }), "{state:?}");
}

/// Giving a job back and parking it cost no attempt.
pub async fn p07_release_and_park_give_the_attempt_back<S: Subject>() {
    let scene = Scene::<S>::new().await;
    scene.policy(|policy| policy.ladder = ladder("none")).await;
    scene.add(vec![job(1)]).await;
    for round in 0..40 {
        let lease = scene.claim_one().await;
        assert_eq!(scene.job(1).await.attempt, 1);
        let until = Start::AfterMs(100);
        scene.end(lease, if round % 2 == 0 { Outcome::Released } else { Outcome::Parked { until } }).await;
        scene.clock.advance(if round % 2 == 0 { 0 } else { 100 });
    }
    let job = scene.job(1).await;
    assert_eq!((job.attempt, job.state.name()), (0, StateName::Queued));
}

/// A canceled queued job never starts.
pub async fn p10_a_canceled_queued_job_never_starts<S: Subject>() {
    let scene = Scene::<S>::new().await;
    scene.add(vec![job(1), job_at(2, Start::AfterMs(1_000)), job(3)]).await;
    assert_eq!(scene.store().cancel(id(1)).await.expect("cancel"), CancelAnswer::Canceled);
    assert_eq!(scene.store().cancel(id(2)).await.expect("cancel"), CancelAnswer::Canceled);
    assert_eq!(scene.store().cancel(id(1)).await.expect("cancel"), CancelAnswer::Final);
    assert_eq!(scene.store().cancel(id(9)).await.expect("cancel"), CancelAnswer::NotFound);
    scene.clock.advance(5_000);
    assert_eq!(scene.claimed(10).await, [3]);
    let job = scene.job(1).await;
    assert_eq!((job.state.name(), job.attempt), (StateName::Canceled, 0));
    assert_eq!(job.history.last().map(|entry| entry.what), Some(What::Canceled));
}

/// Many are canceled, and retried, in one call: each as if it came alone and after those before it.
pub async fn p10_many_are_steered_in_one_call<S: Subject>() {
    use {CancelAnswer as C, RetryAnswer as R};
    let scene = Scene::<S>::new().await;
    let policy = QueuePolicy { delete_finished: true, ..QueuePolicy::default() };
    scene.store().put_queue(queue("gone"), policy).await.expect("queue");
    let twin = |n| job_with(n, |spec| spec.dedupe_key = dedupe("twin"));
    let keyed = |n| job_with(n, |spec| spec.key = key("k"));
    scene.add(vec![job(1), job_at(2, Start::AfterMs(1_000)), keyed(3), keyed(4), twin(5)]).await;
    scene.add(vec![job_with(6, |spec| spec.queue = queue("gone"))]).await;
    let held = scene.claim(1).await;
    assert_eq!(held[0].job.id, id(1));
    let ids = [2, 1, 9, 3, 2, 1, 5, 6, 6].map(id).to_vec();
    let answers = scene.store().cancel_all(ids).await.expect("cancel");
    let told = [C::Canceled, C::Requested, C::NotFound, C::Canceled, C::Final, C::Requested, C::Canceled];
    assert_eq!(answers[..7], told);
    assert_eq!(answers[7..], [C::Canceled, C::NotFound], "what its queue does not keep is gone");
    // The second of two with one dedupe key finds it taken by the first, in the same call.
    scene.add(vec![twin(7)]).await;
    assert_eq!(scene.store().cancel(id(7)).await.expect("cancel"), C::Canceled);
    let ids = [3, 5, 7, 4, 3, 9].map(id).to_vec();
    let answers = scene.store().retry_all(ids).await.expect("retry");
    let told = [R::Retried, R::Retried, R::Taken(id(5)), R::NotFinal, R::NotFinal, R::NotFound];
    assert_eq!(answers, told);
    // The key is still one: the retried job keeps its place before the other.
    assert_eq!(scene.claimed(10).await, [3, 5]);
    let many: Vec<JobId> = (0..1_001).map(id).collect();
    assert!(matches!(scene.store().cancel_all(many.clone()).await, Err(StoreError::Invalid(_))));
    assert!(matches!(scene.store().retry_all(many).await, Err(StoreError::Invalid(_))));
    assert_eq!(scene.store().audit().await.expect("audit"), Vec::<String>::new());
}

/// A running job that is to be canceled: its worker is told with each renewal,
/// and it ends as canceled unless it was done first.
pub async fn p10_a_canceled_running_job_is_told_and_ends<S: Subject>() {
    let scene = Scene::<S>::new().await;
    scene.add((1..=4).map(job).collect()).await;
    let leases: Vec<LeaseRef> = scene.claim(4).await.iter().map(|leased| leased.lease_ref()).collect();
    for n in 1..=4 {
        assert_eq!(scene.store().cancel(id(n)).await.expect("cancel"), CancelAnswer::Requested);
    }
    assert_eq!(scene.store().cancel(id(1)).await.expect("cancel"), CancelAnswer::Requested);
    for _ in 0..2 {
        let renewed = scene.store().renew(leases.clone()).await.expect("renew");
        assert_eq!(renewed.cancel_requested.len(), 4);
    }
    let asked = [leases[2], with_fence(leases[0], 9), leases[1]].to_vec();
    assert_eq!(scene.store().cancels(asked).await.expect("cancels"), [id(3), id(2)]);
    scene.end(leases[0], Outcome::DONE).await;
    scene.end(leases[1], retry_with("stopped")).await;
    scene.end(leases[2], Outcome::Released).await;
    assert_eq!(scene.crash().await, [4]);
    let mut states = Vec::new();
    for n in 1..=4 {
        states.push(scene.job(n).await.state.name());
    }
    use StateName::{Canceled, Completed};
    assert_eq!(states, [Completed, Canceled, Canceled, Canceled]);
    assert!(scene.claim(10).await.is_empty(), "no new attempt starts");
    let requests = |job: windlass_core::job::Job| {
        job.history.iter().filter(|entry| entry.what == What::CancelRequested).count()
    };
    assert_eq!(requests(scene.job(1).await), 1, "asked twice, noted once");
}
