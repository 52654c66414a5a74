//! Jobs that run: results, retries, steps, slots, schedules.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use windlass_engine::core::id::{BudgetName, QueueName, ScheduleName};
use windlass_engine::core::policy::budget::BudgetPolicy;
use windlass_engine::core::policy::schedule::{Missed, Overlap, SchedulePolicy};
use windlass_engine::core::state::{FailureReason, State, StateName};
use windlass_engine::core::store::Store;
use windlass_engine::{Context, Failure, JobRequest};

use crate::stage::{Note, Stage, Sum, note};

#[tokio::test]
async fn async_and_blocking_handlers_give_results() {
    let stage = Stage::new();
    let sum = stage.client.enqueue(Sum(vec![2, 3])).await.unwrap();
    assert_eq!(stage.client.result::<Sum>(sum.id()).await.unwrap(), None, "not over yet");
    let running = stage.start(stage.worker().handle(async |Sum(of): Sum, _: Context| Ok(of.iter().sum())));
    assert_eq!(sum.wait().await.unwrap(), 5);
    assert_eq!(stage.client.result::<Sum>(sum.id()).await.unwrap(), Some(5));
    assert_eq!(running.stop().await.settled, 1);

    let id = stage.enqueue("again").await;
    let blocking = stage.worker().handle_blocking(|note: Note, ctx: Context| {
        ctx.wait(ctx.progress(&"half"))?;
        assert_eq!(note.text, "again");
        Ok(())
    });
    let running = stage.start(blocking);
    let job = stage.until_state(id, StateName::Completed).await;
    assert_eq!(job.progress.unwrap().as_str(), r#""half""#);
    assert!(job.state.ended_at().is_some());
    running.stop().await;
}

#[tokio::test]
async fn every_way_to_fail_has_its_end() {
    let stage = Stage::new();
    stage.policy(|policy| policy.ladder = "1m 5m".parse().unwrap()).await;
    let tries: Arc<Mutex<HashMap<String, u32>>> = Arc::default();
    let worker = stage.worker().handle({
        let tries = tries.clone();
        move |note: Note, _: Context| {
            let tries = tries.clone();
            async move {
                let count = {
                    let mut tries = tries.lock().unwrap();
                    let count = tries.entry(note.text.clone()).or_default();
                    *count += 1;
                    *count
                };
                match note.text.as_str() {
                    "retry" => Err(Failure::retry("no luck")),
                    "permanent" => Err(Failure::permanent("never")),
                    "panic" => panic!("boom {count}"),
                    "park" if count < 4 => Err(Failure::park(Duration::from_secs(3))),
                    "error" => Ok("x".parse::<u32>().map(drop)?),
                    _ => Ok(()),
                }
            }
        }
    });
    let names = ["retry", "permanent", "panic", "park", "error"];
    let mut ids = HashMap::new();
    for name in names {
        ids.insert(name, stage.enqueue(name).await);
    }
    let running = stage.start(worker);
    let over = async || {
        let mut all = true;
        for id in ids.values() {
            all &= stage.job(*id).await.state.name().is_final();
        }
        all
    };
    stage.until("all are over", over).await;
    running.stop().await;
    for (name, state, attempts, error) in [
        ("retry", StateName::Failed, 3, Some("no luck")),
        ("permanent", StateName::Failed, 1, Some("never")),
        ("panic", StateName::Failed, 3, Some("the handler panicked: boom 3")),
        ("park", StateName::Completed, 1, None),
        ("error", StateName::Failed, 3, Some("invalid digit found in string")),
    ] {
        let job = stage.job(ids[name]).await;
        assert_eq!((job.state.name(), job.attempt, job.last_error()), (state, attempts, error), "{name}");
    }
    assert_eq!(tries.lock().unwrap()["park"], 4, "parking costs no attempt");
    let State::Failed { reason, .. } = stage.job(ids["retry"]).await.state else { unreachable!() };
    assert_eq!(reason, FailureReason::Exhausted);
    // The delays follow the ladder, each up to a fifth longer.
    let job = stage.job(ids["retry"]).await;
    let starts: Vec<_> = job.history.iter().map(|entry| entry.started_at.unwrap()).collect();
    let waits: Vec<u64> = starts.windows(2).map(|pair| pair[1].ms_since(pair[0])).collect();
    assert!((60_000..72_000).contains(&waits[0]) && (300_000..360_000).contains(&waits[1]), "{waits:?}");
}

#[tokio::test]
async fn a_stored_step_is_not_run_again() {
    let stage = Stage::new();
    let runs = Arc::new(Mutex::new(Vec::new()));
    let sum = stage.client.enqueue(Sum(Vec::new())).await.unwrap();
    let worker = stage.worker().handle({
        let runs = runs.clone();
        move |_: Sum, ctx: Context| {
            let runs = runs.clone();
            async move {
                let step = async |name: &'static str, gives: u32| {
                    let runs = runs.clone();
                    let attempt = ctx.attempt();
                    ctx.step(name, async || {
                        runs.lock().unwrap().push((name, attempt));
                        Ok(gives)
                    })
                    .await
                };
                let sum = step("first", 1).await? + step("second", 2).await?;
                if ctx.attempt() == 1 {
                    return Err(Failure::retry_after("once", Duration::from_millis(10)));
                }
                Ok(sum + step("third", 3).await?)
            }
        }
    });
    let running = stage.start(worker);
    assert_eq!(sum.wait().await.unwrap(), 6);
    running.stop().await;
    assert_eq!(*runs.lock().unwrap(), [("first", 1), ("second", 1), ("third", 2)]);
}

/// Claims no more than it has slots, and a slow job does not hold back the others.
#[tokio::test]
async fn slots_are_kept_and_nobody_waits_for_the_slowest() {
    let stage = Stage::new();
    let (now, most) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let release = Arc::new(tokio::sync::Notify::new());
    let slow = stage.enqueue("slow").await;
    let mut quick = Vec::new();
    for at in 0..50 {
        quick.push(stage.enqueue(&format!("quick {at}")).await);
    }
    let worker = stage.worker().slots(3).handle({
        let (now, most, release) = (now.clone(), most.clone(), release.clone());
        move |note: Note, _: Context| {
            let (now, most, release) = (now.clone(), most.clone(), release.clone());
            async move {
                let running = now.fetch_add(1, Ordering::SeqCst) + 1;
                most.fetch_max(running, Ordering::SeqCst);
                match note.text.as_str() {
                    "slow" => release.notified().await,
                    _ => tokio::task::yield_now().await,
                }
                now.fetch_sub(1, Ordering::SeqCst);
                Ok(())
            }
        }
    });
    let running = stage.start(worker);
    for id in quick {
        stage.until_state(id, StateName::Completed).await;
    }
    assert_eq!(stage.job(slow).await.state.name(), StateName::Running);
    release.notify_one();
    stage.until_state(slow, StateName::Completed).await;
    running.stop().await;
    assert_eq!(most.load(Ordering::SeqCst), 3);
}

/// Fault 55: a kind that this worker does not know is left for others.
#[tokio::test]
async fn fault_55_unknown_kinds_are_not_claimed() {
    let stage = Stage::new();
    let other = windlass_engine::JobRequest::new("other", ());
    let other = stage.client.enqueue(other).await.unwrap().id();
    let known = stage.enqueue("known").await;
    let running = stage.start(stage.worker().handle(async |_: Note, _: Context| Ok(())));
    stage.until_state(known, StateName::Completed).await;
    running.stop().await;
    let other = stage.job(other).await;
    assert_eq!((other.state, other.attempt), (State::Queued, 0));
}

#[tokio::test]
async fn an_idle_worker_ends_by_itself() {
    let stage = Stage::new();
    for at in 0..300 {
        stage.enqueue(&at.to_string()).await;
    }
    stage.enqueue_with("later", |job| job.delay(Duration::from_secs(5))).await;
    let worker = stage.worker().slots(20).handle(async |_: Note, _: Context| Ok(()));
    let ended = tokio::spawn(worker.run_until_idle());
    stage.until("the worker ends", async || ended.is_finished()).await;
    assert_eq!(ended.await.unwrap().unwrap().settled, 301);
}

/// A handler spends of a budget as it goes, and waits when it is used up.
#[tokio::test]
async fn spending_waits_for_the_budget() {
    let stage = Stage::new();
    let etsy = BudgetName::new("etsy").unwrap();
    let policy = BudgetPolicy { per_second: Some(5), ..BudgetPolicy::default() };
    stage.store.put_budget(etsy, policy).await.unwrap();
    let id = stage.enqueue("calls").await;
    let worker = stage.worker().handle(async |_: Note, ctx: Context| {
        for _ in 0..12 {
            ctx.spend("etsy", 1).await?;
        }
        Ok(())
    });
    let running = stage.start(worker);
    let job = stage.until_state(id, StateName::Completed).await;
    running.stop().await;
    let took = job.state.ended_at().unwrap().ms_since(job.started_at.unwrap());
    assert!((2_000..4_000).contains(&took), "12 calls at 5 per second took {took} ms");
}

/// A cool-down said by one job holds back the next that names the budget.
#[tokio::test]
async fn a_cool_down_holds_back_the_others() {
    let stage = Stage::new();
    let with_budget = |job: windlass_engine::JobRequest<()>| job.budget("api");
    let first = stage.enqueue_with("first", with_budget).await;
    let worker = stage.worker().slots(1).handle(async |note: Note, ctx: Context| {
        if note.text == "first" {
            ctx.cool_down("api", Duration::from_secs(30)).await?;
        }
        Ok(())
    });
    let running = stage.start(worker);
    let first = stage.until_state(first, StateName::Completed).await;
    let second = stage.enqueue_with("second", with_budget).await;
    let second = stage.until_state(second, StateName::Completed).await;
    running.stop().await;
    let waited = second.started_at.unwrap().ms_since(first.started_at.unwrap());
    assert!((30_000..35_000).contains(&waited), "waited {waited} ms");
}

#[tokio::test]
async fn schedules_fire_in_time() {
    let stage = Stage::new();
    let job = windlass_engine::core::job::JobSpec::new(
        windlass_engine::core::id::Kind::new("note").unwrap(),
        QueueName::default(),
        windlass_engine::core::json::Json::payload(r#"{"text":"tick"}"#).unwrap(),
    );
    let policy = SchedulePolicy {
        cron: "*/10 * * * * *".into(),
        zone: "UTC".into(),
        overlap: Overlap::Skip,
        missed: Missed::Last,
        paused: false,
        job,
    };
    stage.store.put_schedule(ScheduleName::new("every-ten").unwrap(), policy).await.unwrap();
    let starts = Arc::new(Mutex::new(Vec::new()));
    let worker = stage.worker().handle({
        let starts = starts.clone();
        move |_: Note, ctx: Context| {
            starts.lock().unwrap().push(ctx.job().created_at);
            async { Ok(()) }
        }
    });
    let running = stage.start(worker);
    stage.until("four runs", async || starts.lock().unwrap().len() >= 4).await;
    running.stop().await;
    let starts = starts.lock().unwrap();
    for (at, start) in starts.iter().take(4).enumerate() {
        let late = start.ms() - (1_767_225_600_000 + 10_000 * (at as i64 + 1));
        assert!((0..1_000).contains(&late), "run {at} was {late} ms late");
    }
}

/// A worker is not idle because a claim found nothing while a job ran: what
/// that one held back (here by its key) comes after it.
#[tokio::test]
async fn what_a_running_job_held_back_is_not_forgotten() {
    let stage = Stage::new();
    for _ in 0..20 {
        let stage = stage.fresh();
        for page in 0..6 {
            stage.enqueue_with(&page.to_string(), |job| job.key("shop")).await;
        }
        let worker = stage
            .worker()
            .slots(4)
            .handle(async |_: Note, ctx: Context| ctx.sleep(Duration::from_millis(30)).await);
        let ended = tokio::spawn(worker.run_until_idle());
        stage.until("the worker ends", async || ended.is_finished()).await;
        let summary = ended.await.unwrap().unwrap();
        assert_eq!((summary.claimed, summary.settled), (6, 6));
    }
}

/// A worker that waits for work has its claim made in the commit that brings it: when the enqueue has
/// answered, the job is running, though nobody else has had a turn. So it is for the second, too.
#[tokio::test]
async fn a_waiting_worker_claims_in_the_commit_of_the_enqueue() {
    let stage = Stage::new();
    let running = stage.start(stage.worker().slots(4).handle(async |_: Note, ctx: Context| {
        ctx.stopping().await;
        ctx.go_on().await
    }));
    for at in 0..2 {
        stage.world().advance(Duration::from_secs(1)).await;
        let job = JobRequest::of(&note(&format!("note {at}"))).build().unwrap();
        let id = job.id;
        stage.store.enqueue(vec![job]).await.unwrap();
        assert_eq!(stage.job(id).await.state.name(), StateName::Running);
    }
    running.stop().await;
}
