//! 18: schedules fire each run once over all handles; overlap and missed runs
//! follow their rules.

use windlass_core::error::StoreError;
use windlass_core::policy::schedule::{Missed, Overlap, SchedulePolicy};
use windlass_core::store::Fired;
use windlass_core::time::Clock;
use windlass_core::transition::Outcome;

use super::scene::*;
use crate::subject::Subject;

fn hourly(overlap: Overlap, missed: Missed) -> SchedulePolicy {
    let job = job(0).spec;
    SchedulePolicy { cron: "0 * * * *".into(), zone: "UTC".into(), overlap, missed, paused: false, job }
}

async fn stage<S: Subject>(policy: SchedulePolicy) -> Scene<S> {
    let scene = Scene::<S>::new().await;
    scene.store().put_schedule(schedule("s"), policy).await.expect("put_schedule");
    scene
}

async fn fire<S: Subject>(scene: &Scene<S>) -> Fired {
    scene.store().fire_schedules().await.expect("fire_schedules")
}

/// Each run makes one job, whoever fires, however often, over restarts.
pub async fn p18_a_run_fires_once<S: Subject>() {
    let mut scene = stage::<S>(hourly(Overlap::Queue, Missed::Last)).await;
    let other = scene.second().await;
    let fired = fire(&scene).await;
    assert!(fired.runs.is_empty(), "a new schedule begins now");
    assert!(fired.next_in_ms.is_some_and(|ms| ms <= 3_600_000));
    scene.clock.advance(ms("1h"));
    let (here, there) = tokio::join!(scene.store().fire_schedules(), other.fire_schedules());
    drop(other);
    let runs = [here.expect("fire").runs, there.expect("fire").runs].concat();
    assert_eq!(runs.len(), 1, "two schedulers, one run: {runs:?}");
    assert_eq!((runs[0].run, runs[0].skipped), (scene.clock.wall(), false));
    scene.reopen().await;
    assert!(fire(&scene).await.runs.is_empty());
    let jobs = scene.claim(9).await;
    assert_eq!(jobs.iter().map(|leased| leased.job.id).collect::<Vec<_>>(), [runs[0].job_id]);
    let schedules = scene.store().schedules().await.expect("schedules");
    assert_eq!((schedules[0].last_run, schedules[0].last_job), (Some(runs[0].run), Some(runs[0].job_id)));
}

/// With `skip`, a run is left out while the job of an earlier one is not over.
pub async fn p18_overlap<S: Subject>() {
    let scene = stage::<S>(hourly(Overlap::Skip, Missed::Last)).await;
    scene.clock.advance(ms("1h"));
    let first = fire(&scene).await.runs.remove(0);
    scene.clock.advance(ms("1h"));
    let second = fire(&scene).await.runs.remove(0);
    assert_eq!((second.job_id, second.skipped), (first.job_id, true));
    let lease = scene.claim_one().await;
    scene.end(lease, Outcome::DONE).await;
    scene.clock.advance(ms("1h"));
    let third = fire(&scene).await.runs.remove(0);
    assert_eq!((third.job_id != first.job_id, third.skipped), (true, false));
    let queue = stage::<S>(hourly(Overlap::Queue, Missed::Last)).await;
    for _ in 0..3 {
        queue.clock.advance(ms("1h"));
        assert!(!fire(&queue).await.runs[0].skipped);
    }
    assert_eq!(queue.claim(9).await.len(), 3);
}

/// Missed runs are left out, made up for by the newest, or by the newest few.
pub async fn p18_missed_runs<S: Subject>() {
    for (missed, expected) in
        [(Missed::Skip, vec![]), (Missed::Last, vec![5]), (Missed::All(3), vec![3, 4, 5])]
    {
        let scene = stage::<S>(hourly(Overlap::Queue, missed)).await;
        let start = scene.clock.wall();
        scene.clock.advance(ms("5h") + ms("30m"));
        let runs = fire(&scene).await.runs;
        let hours: Vec<u64> = runs.iter().map(|run| run.run.ms_since(start) / 3_600_000).collect();
        assert_eq!(hours, expected, "{missed:?}");
        assert!(fire(&scene).await.runs.is_empty(), "what is dealt with is dealt with");
        scene.clock.advance(ms("30m"));
        assert_eq!(fire(&scene).await.runs.len(), 1, "a run on time fires under every rule");
    }
}

/// Another line counts from the moment at which it is set: what it would have run before is not missed.
pub async fn p18_another_line_counts_from_now<S: Subject>() {
    let scene = stage::<S>(hourly(Overlap::Queue, Missed::All(9))).await;
    scene.clock.advance(ms("90m"));
    assert_eq!(fire(&scene).await.runs.len(), 1);
    scene.clock.advance(ms("25m"));
    let mut often = hourly(Overlap::Queue, Missed::All(9));
    often.cron = "*/10 * * * *".into();
    scene.store().put_schedule(schedule("s"), often).await.expect("put_schedule");
    let fired = fire(&scene).await;
    assert_eq!((fired.runs.len(), fired.next_in_ms), (0, Some(ms("5m"))));
    scene.clock.advance(ms("15m"));
    assert_eq!(fire(&scene).await.runs.len(), 2);
}

/// A schedule can be changed, put to rest and taken away; a bad one is refused.
pub async fn p18_schedules_change<S: Subject>() {
    let scene = stage::<S>(hourly(Overlap::Queue, Missed::Last)).await;
    let mut bad = hourly(Overlap::Skip, Missed::Last);
    bad.cron = "61 * * * *".into();
    let answer = scene.store().put_schedule(schedule("s"), bad).await;
    assert!(matches!(answer, Err(StoreError::Invalid(_))), "{answer:?}");
    let mut resting = hourly(Overlap::Queue, Missed::All(9));
    resting.paused = true;
    scene.clock.advance(ms("30m"));
    scene.store().put_schedule(schedule("s"), resting.clone()).await.expect("put_schedule");
    scene.clock.advance(ms("2h"));
    let fired = fire(&scene).await;
    assert_eq!(fired, Fired::default(), "it is at rest");
    resting.paused = false;
    scene.store().put_schedule(schedule("s"), resting.clone()).await.expect("put_schedule");
    let fired = fire(&scene).await;
    assert_eq!(
        (fired.runs.len(), fired.next_in_ms),
        (0, Some(ms("30m"))),
        "the runs of a pause are left out"
    );
    let schedules = scene.store().schedules().await.expect("schedules");
    let rested =
        schedules[0].rests.iter().map(|rest| rest.to.map(|to| to.ms_since(rest.from))).collect::<Vec<_>>();
    assert_eq!(rested, [Some(ms("2h"))], "and the pause is remembered");
    scene.clock.advance(ms("90m"));
    resting.missed = Missed::Last;
    scene.store().put_schedule(schedule("s"), resting.clone()).await.expect("put_schedule");
    resting.missed = Missed::All(9);
    scene.store().put_schedule(schedule("s"), resting).await.expect("put_schedule");
    assert_eq!(fire(&scene).await.runs.len(), 2, "another change goes on from where the schedule was");
    assert!(scene.store().delete_schedule(schedule("s")).await.expect("delete"));
    assert!(!scene.store().delete_schedule(schedule("s")).await.expect("delete"));
    assert!(scene.store().schedules().await.expect("schedules").is_empty());
    scene.clock.advance(ms("2h"));
    assert_eq!(fire(&scene).await, Fired::default());
}
