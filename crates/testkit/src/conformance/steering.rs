//! 28: what people ask for jobs, queues and budgets beside cancel and retry.

use windlass_core::error::StoreError;
use windlass_core::event::What;
use windlass_core::id::{JobId, StepName};
use windlass_core::job::Start;
use windlass_core::policy::budget::BudgetPolicy;
use windlass_core::policy::queue::QueuePolicy;
use windlass_core::state::StateName;
use windlass_core::store::{
    DeleteAnswer, LeaseRef, QueueDeletion, Rerun, RerunAnswer, RunNowAnswer, Written,
};
use windlass_core::time::Clock;
use windlass_core::transition::Outcome;

use super::scene::*;
use crate::subject::Subject;

/// Claims the first of those that may start.
async fn first<S: Subject>(scene: &Scene<S>) -> LeaseRef {
    scene.claim(1).await.remove(0).lease_ref()
}

fn from(n: u128, name: &str) -> Rerun {
    Rerun { job_id: id(n), from: StepName::new(name).expect("a name") }
}

/// A job that is delayed, parked or on its ladder is due at once, in its place.
pub async fn p28_a_job_is_run_now<S: Subject>() {
    use RunNowAnswer::{AlreadyDue, Due, Final, NotFound, Running};
    let mut scene = Scene::<S>::new().await;
    scene.policy(|policy| policy.ladder = ladder("1h 1h")).await;
    scene.add(vec![job(1), job(2), job_at(3, Start::AfterMs(60_000))]).await;
    let (one, two) = (first(&scene).await, first(&scene).await);
    scene.end(one, retry_with("not yet")).await;
    scene.end(two, Outcome::Parked { until: Start::AfterMs(3_600_000) }).await;
    scene.add(vec![job(4), job(5), job(6)]).await;
    let running = first(&scene).await;
    scene.store().cancel(id(6)).await.expect("cancel");
    assert_eq!(running.job_id, id(4));
    let ids = [3, 2, 1, 4, 5, 6, 9, 3].map(id).to_vec();
    let answers = scene.store().run_now_all(ids).await.expect("run now");
    assert_eq!(answers, [Due, Due, Due, Running, AlreadyDue, Final, NotFound, AlreadyDue]);
    scene.reopen().await;
    let job = scene.job(1).await;
    assert_eq!((job.run_at, job.attempt), (scene.clock.wall(), 1), "it climbs on from where it is");
    assert_eq!(job.history.last().map(|entry| entry.what), Some(What::MadeDue));
    assert_eq!(scene.claimed(10).await, [1, 2, 3, 5], "in the order of acceptance");
    let many: Vec<JobId> = (0..1_001).map(id).collect();
    assert!(matches!(scene.store().run_now_all(many).await, Err(StoreError::Invalid(_))));
}

/// A key, a limit, a pause and a budget hold a job that is run now as they hold any other.
pub async fn p28_run_now_lifts_no_other_hold<S: Subject>() {
    let scene = Scene::<S>::new().await;
    let none = BudgetPolicy { slots: Some(0), ..BudgetPolicy::default() };
    scene.store().put_budget(budget("none"), none).await.expect("budget");
    let later = |n, keyed: bool| {
        let mut new = job_with(n, |spec| {
            spec.key = key("k").filter(|_| keyed);
            spec.budgets = if keyed { vec![] } else { vec![budget("none")] };
        });
        new.start = Start::AfterMs(60_000);
        new
    };
    scene.add(vec![job_with(1, |spec| spec.key = key("k")), later(2, true), later(3, false)]).await;
    let holder = scene.claim_one().await;
    let answers = scene.store().run_now_all(vec![id(2), id(3)]).await.expect("run now");
    assert_eq!(answers, [RunNowAnswer::Due; 2]);
    assert!(scene.claim(10).await.is_empty(), "the key is held, and the budget is empty");
    scene.end(holder, Outcome::DONE).await;
    assert_eq!(scene.claimed(10).await, [2]);
    assert_eq!(scene.store().audit().await.expect("audit"), Vec::<String>::new());
}

/// A new life from a step on: what was stored before it stays, the rest is run again.
pub async fn p28_a_job_is_run_again_from_a_step<S: Subject>() {
    let mut scene = Scene::<S>::new().await;
    let twin = |n| job_with(n, |spec| spec.dedupe_key = dedupe("once"));
    scene.add(vec![twin(1)]).await;
    let lease = scene.claim_one().await;
    for name in ["fetch", "parse", "send"] {
        assert_eq!(scene.step(lease, name, "1").await, Written::Done);
    }
    assert_eq!(scene.store().rerun(from(1, "parse")).await.expect("rerun"), RerunAnswer::NotFinal);
    scene.end(lease, failed("broken")).await;
    assert_eq!(scene.store().rerun(from(1, "other")).await.expect("rerun"), RerunAnswer::NoStep);
    assert_eq!(scene.store().rerun(from(9, "parse")).await.expect("rerun"), RerunAnswer::NotFound);
    scene.add(vec![twin(2)]).await;
    assert_eq!(scene.store().rerun(from(1, "parse")).await.expect("rerun"), RerunAnswer::Taken(id(2)));
    assert_eq!(scene.job(1).await.steps.len(), 3, "what was refused has changed nothing");
    scene.store().cancel(id(2)).await.expect("cancel");
    let answers = scene.store().rerun_all(vec![from(1, "parse"), from(1, "parse")]).await.expect("rerun");
    assert_eq!(answers, [RerunAnswer::Retried, RerunAnswer::NotFinal]);
    scene.reopen().await;
    let job = scene.job(1).await;
    assert_eq!((job.state.name(), job.attempt, job.retries), (StateName::Queued, 0, 1));
    let leased = scene.claim(1).await.remove(0);
    let names: Vec<&str> = leased.job.steps.iter().map(|step| step.name.as_str()).collect();
    assert_eq!(names, ["fetch"]);
    // What is stored now is a step like any other.
    assert_eq!(scene.step(leased.lease_ref(), "parse", "2").await, Written::Done);
    assert_eq!(scene.step(leased.lease_ref(), "send", "2").await, Written::Done);
    let outputs: Vec<String> =
        scene.job(1).await.steps.iter().map(|step| step.output.as_str().to_owned()).collect();
    assert_eq!(outputs, ["1", "2", "2"]);
    assert_eq!(scene.store().audit().await.expect("audit"), Vec::<String>::new());
}

/// A job that is queued or final is gone, with its id; one that is running stays.
pub async fn p28_a_job_is_deleted<S: Subject>() {
    use DeleteAnswer::{Deleted, NotFound, Running};
    let mut scene = Scene::<S>::new().await;
    scene.add((1..=4).map(job).collect()).await;
    scene.add(vec![job_at(5, Start::AfterMs(60_000))]).await;
    let (one, two) = (first(&scene).await, first(&scene).await);
    scene.step(one, "one", "1").await;
    scene.end(one, Outcome::DONE).await;
    let since = scene.store().events_end().await.expect("position");
    let ids = [1, 2, 3, 5, 9, 1].map(id).to_vec();
    let answers = scene.store().delete_all(ids).await.expect("delete");
    assert_eq!(answers, [Deleted, Running, Deleted, Deleted, NotFound, NotFound]);
    let told = scene.store().events(Some(since), 10).await.expect("events");
    let mut gone: Vec<JobId> = told.iter().flat_map(|event| event.jobs.clone()).collect();
    gone.sort_unstable();
    assert!(told.iter().all(|event| event.what == What::Deleted), "{told:?}");
    assert_eq!(gone, [1, 3, 5].map(id));
    scene.reopen().await;
    for n in [1, 3, 5] {
        assert_eq!(scene.find(n).await, None);
    }
    scene.end(two, Outcome::DONE).await;
    assert_eq!(scene.settle(one, Outcome::DONE).await, Written::Lost);
    scene.clock.advance(60_000);
    assert_eq!(scene.claimed(10).await, [4]);
    // The id is free for another job, which has nothing of the first.
    scene.add(vec![job(1)]).await;
    let leased = scene.claim(1).await.remove(0);
    assert_eq!((leased.job.id, leased.job.steps.len(), leased.job.history.len()), (id(1), 0, 0));
    let many: Vec<JobId> = (0..1_001).map(id).collect();
    assert!(matches!(scene.store().delete_all(many).await, Err(StoreError::Invalid(_))));
    assert_eq!(scene.store().audit().await.expect("audit"), Vec::<String>::new());
}

/// Whoever waited behind a job that is deleted comes next; its dedupe key is free; it is counted nowhere.
pub async fn p28_deleted_jobs_leave_their_place<S: Subject>() {
    let scene = Scene::<S>::new().await;
    let keyed = |n| job_with(n, |spec| spec.key = key("k"));
    let once = |n| job_with(n, |spec| spec.dedupe_key = dedupe("once"));
    scene.add(vec![keyed(1), keyed(2), keyed(3), once(4)]).await;
    let answers = scene.store().delete_all(vec![id(1), id(4)]).await.expect("delete");
    assert_eq!(answers, [DeleteAnswer::Deleted; 2]);
    scene.add(vec![once(5)]).await;
    assert_eq!(scene.claimed(10).await, [2, 5]);
    let status = scene.store().queues().await.expect("queues").remove(0);
    assert_eq!((status.queued, status.running), (1, 2));
    // Retention counts what is there: two are kept, and the one that was deleted is none of them.
    scene.policy(|policy| policy.finished_max = 2).await;
    scene.add((11..=14).map(job).collect()).await;
    for leased in scene.claim(10).await {
        scene.end(leased.lease_ref(), Outcome::DONE).await;
        scene.clock.advance(1);
    }
    assert_eq!(scene.store().delete_all(vec![id(14)]).await.expect("delete"), [DeleteAnswer::Deleted]);
    assert_eq!(scene.store().prune().await.expect("prune"), 1);
    let kept = [scene.find(11).await, scene.find(12).await, scene.find(13).await].map(|job| job.is_some());
    assert_eq!(kept, [false, true, true]);
    assert_eq!(
        scene.store().delete_all(vec![id(12), id(13)]).await.expect("delete"),
        [DeleteAnswer::Deleted; 2]
    );
    assert_eq!(scene.store().prune().await.expect("prune"), 0);
    assert_eq!(scene.store().audit().await.expect("audit"), Vec::<String>::new());
}

/// The policy of a queue goes when nothing of it waits or runs; what has ended stays.
pub async fn p28_a_queue_is_deleted_when_it_is_empty<S: Subject>() {
    let mut scene = Scene::<S>::new().await;
    assert_eq!(scene.store().delete_queue(queue("q")).await.expect("delete"), QueueDeletion::NotFound);
    let policy = QueuePolicy { limit: Some(1), ..QueuePolicy::default() };
    scene.store().put_queue(queue("q"), policy).await.expect("queue");
    scene.store().pause_queue(queue("q"), true).await.expect("pause");
    let mine = |n| job_with(n, |spec| spec.queue = queue("q"));
    scene.add(vec![mine(1), mine(2)]).await;
    let held = QueueDeletion::InUse { queued: 2, running: 0 };
    assert_eq!(scene.store().delete_queue(queue("q")).await.expect("delete"), held);
    scene.store().pause_queue(queue("q"), false).await.expect("resume");
    let lease = scene.claim_from(&["q"], 10).await.remove(0).lease_ref();
    let held = QueueDeletion::InUse { queued: 1, running: 1 };
    assert_eq!(scene.store().delete_queue(queue("q")).await.expect("delete"), held);
    scene.end(lease, Outcome::DONE).await;
    scene.store().cancel(id(2)).await.expect("cancel");
    assert_eq!(scene.store().delete_queue(queue("q")).await.expect("delete"), QueueDeletion::Deleted);
    assert_eq!(scene.store().delete_queue(queue("q")).await.expect("delete"), QueueDeletion::NotFound);
    scene.reopen().await;
    assert!(scene.store().queues().await.expect("queues").iter().all(|status| status.name != queue("q")));
    assert!(scene.find(1).await.is_some(), "what has ended stays");
    scene.add(vec![mine(3), mine(4)]).await;
    assert_eq!(scene.claim_from(&["q"], 10).await.len(), 2, "the limit is gone");
}

/// A budget that is deleted binds nobody, and what was spent of it is forgotten.
pub async fn p28_a_budget_is_deleted<S: Subject>() {
    let mut scene = Scene::<S>::new().await;
    assert!(!scene.store().delete_budget(budget("b")).await.expect("delete"));
    let policy = BudgetPolicy { per_day: Some(1), ..BudgetPolicy::default() };
    scene.store().put_budget(budget("b"), policy).await.expect("budget");
    let mine = |n| job_with(n, |spec| spec.budgets = vec![budget("b")]);
    scene.add(vec![mine(1), mine(2)]).await;
    assert_eq!(scene.claimed(10).await, [1]);
    assert!(scene.claim(10).await.is_empty());
    assert!(scene.store().delete_budget(budget("b")).await.expect("delete"));
    assert!(!scene.store().delete_budget(budget("b")).await.expect("delete"));
    scene.reopen().await;
    assert_eq!(scene.store().budgets().await.expect("budgets"), vec![]);
    assert_eq!(scene.claimed(10).await, [2]);
    scene.store().put_budget(budget("b"), policy).await.expect("budget");
    let status = scene.store().budgets().await.expect("budgets").remove(0);
    assert_eq!((status.used.day, status.slots_used), (0, 2), "who runs still has a slot of it");
}
