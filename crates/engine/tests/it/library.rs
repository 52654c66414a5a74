//! The library as a program of somebody's own uses it: state, layers, events,
//! queues with slots of their own, results, options, schedules.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use windlass_engine::core::store::Store;
use windlass_engine::{
    Context, Failure, FailureReason, JobRequest, Next, OrFail, StateName, StoreError, WaitError, WorkerEvent,
};

use crate::stage::{Note, Stage, Sum, note};

/// What handlers share.
struct App {
    greeting: &'static str,
    said: Mutex<Vec<String>>,
}

async fn greet(note: Note, ctx: Context<App>) -> Result<(), Failure> {
    let App { greeting, said } = ctx.state();
    said.lock().unwrap().push(format!("{greeting}, {}", note.text));
    Ok(())
}

#[tokio::test]
async fn handlers_share_a_state() {
    let stage = Stage::new();
    stage.enqueue("Ada").await;
    let sum = stage.client.enqueue(Sum(vec![1, 2])).await.unwrap();
    let app = Arc::new(App { greeting: "hello", said: Mutex::default() });
    // A handler that was said before the state has none, and works on.
    let worker = stage.worker().handle(async |Sum(of): Sum, _: Context| Ok(of.iter().sum()));
    let shared = app.clone();
    let worker = worker.state(shared).handle(async |note: Note, ctx: Context<Arc<App>>| {
        ctx.state().said.lock().unwrap().push(note.text);
        Ok(())
    });
    worker.run_until_idle().await.unwrap();
    assert_eq!(sum.wait().await.unwrap(), 3);
    assert_eq!(*app.said.lock().unwrap(), ["Ada"]);

    stage.enqueue("Bob").await;
    let app = App { greeting: "hello", said: Mutex::default() };
    assert_eq!(stage.worker().state(app).handle(greet).run_until_idle().await.unwrap().settled, 1);
}

#[tokio::test]
async fn layers_stand_around_attempts() {
    let stage = Stage::new();
    stage.policy(|policy| policy.ladder = "1s".parse().unwrap()).await;
    let heard: Arc<Mutex<Vec<String>>> = Arc::default();
    let hear = |name: &'static str| {
        let heard = heard.clone();
        move |ctx: Context, next: Next| {
            let heard = heard.clone();
            async move {
                heard.lock().unwrap().push(format!("{name} {}", ctx.attempt()));
                let ended = next.run(ctx).await;
                heard.lock().unwrap().push(format!("{name} {}", if ended.is_ok() { "ok" } else { "failed" }));
                ended
            }
        }
    };
    stage.enqueue("once more").await;
    let worker = stage.worker().layer(hear("outer")).layer(hear("inner"));
    let worker = worker.handle(async |_: Note, ctx: Context| match ctx.attempt() {
        1 => Err("not yet")?,
        _ => Ok(()),
    });
    worker.run_until_idle().await.unwrap();
    let around = |attempt, end| {
        [
            format!("outer {attempt}"),
            format!("inner {attempt}"),
            format!("inner {end}"),
            format!("outer {end}"),
        ]
    };
    assert_eq!(*heard.lock().unwrap(), [around(1, "failed"), around(2, "ok")].concat());
}

/// Wherever a layer is said, it stands around all handlers: one that was said before the state, too.
#[tokio::test]
async fn a_layer_that_is_said_before_the_state_is_no_less_one() {
    let stage = Stage::new();
    let heard: Arc<Mutex<Vec<String>>> = Arc::default();
    let (outer, inner) = (heard.clone(), heard.clone());
    let sum = stage.client.enqueue(Sum(vec![1, 2])).await.unwrap();
    stage.enqueue("Ada").await;
    let worker = stage.worker().handle(async |Sum(of): Sum, _: Context| Ok(of.iter().sum()));
    let worker = worker.layer(move |ctx: Context, next: Next| {
        outer.lock().unwrap().push(format!("outer {}", ctx.job().spec.kind));
        next.run(ctx)
    });
    let worker = worker.state("hello").layer(move |ctx: Context<&'static str>, next: Next<&'static str>| {
        inner.lock().unwrap().push(format!("inner {} {}", ctx.job().spec.kind, ctx.state()));
        next.run(ctx)
    });
    let worker = worker.handle(async |_: Note, ctx: Context<&'static str>| {
        assert_eq!(*ctx.state(), "hello");
        Ok(())
    });
    worker.run_until_idle().await.unwrap();
    assert_eq!(sum.wait().await.unwrap(), 3);
    let mut heard = std::mem::take(&mut *heard.lock().unwrap());
    heard.sort();
    assert_eq!(heard, ["inner note hello", "inner sum hello", "outer note", "outer sum"]);
}

/// An attempt whose handler does not listen has an end like any other: whoever hears of ends hears of it, once.
#[tokio::test]
async fn events_tell_of_attempts_that_were_stopped() {
    let stage = Stage::new();
    stage.policy(|policy| policy.ladder = "1s".parse().unwrap()).await;
    let id = stage.enqueue_with("deaf", |job| job.timeout(Duration::from_secs(5))).await;
    let heard: Arc<Mutex<Vec<String>>> = Arc::default();
    let hear = heard.clone();
    let worker = stage.worker().grace(Duration::from_secs(2)).on_event(move |event| {
        hear.lock().unwrap().push(match event {
            WorkerEvent::Started { job } => format!("{} starts", job.attempt),
            WorkerEvent::Ended { job, outcome, took } => {
                format!("{} {} after {} s", job.attempt, outcome.word(), took.as_secs())
            }
            other => format!("{other:?}"),
        });
    });
    let client = stage.client.clone();
    let worker = worker.handle(move |_: Note, ctx: Context| {
        let client = client.clone();
        async move {
            if ctx.attempt() == 2 {
                client.cancel(ctx.id()).await?;
            }
            std::future::pending::<Result<(), Failure>>().await
        }
    });
    worker.run_until_idle().await.unwrap();
    assert_eq!(stage.job(id).await.state.name(), StateName::Canceled);
    let expected = ["1 starts", "1 retry after 7 s", "2 starts", "2 canceled after 2 s"];
    assert_eq!(*heard.lock().unwrap(), expected);
}

#[tokio::test]
async fn events_tell_what_a_worker_does() {
    let stage = Stage::new();
    stage.policy(|policy| policy.ladder = "1s".parse().unwrap()).await;
    let id = stage.enqueue("flaky").await;
    let heard: Arc<Mutex<Vec<String>>> = Arc::default();
    let worker = stage.worker().on_event({
        let heard = heard.clone();
        move |event: &WorkerEvent<'_>| {
            heard.lock().unwrap().push(match event {
                WorkerEvent::Started { job } => format!("{} {} starts", job.spec.kind, job.attempt),
                WorkerEvent::Ended { job, outcome, took } => {
                    format!("{} {} {} after {took:?}", job.spec.kind, job.attempt, outcome.word())
                }
                other => format!("{other:?}"),
            });
        }
    });
    let worker = worker.handle(async |_: Note, ctx: Context| {
        ctx.sleep(Duration::from_millis(20)).await?;
        if ctx.attempt() == 1 { Err("not yet")? } else { Ok(()) }
    });
    worker.run_until_idle().await.unwrap();
    assert_eq!(stage.job(id).await.state.name(), StateName::Completed);
    let expected =
        ["note 1 starts", "note 1 retry after 20ms", "note 2 starts", "note 2 completed after 20ms"];
    assert_eq!(*heard.lock().unwrap(), expected);
}

/// A queue with slots of its own never takes those of the others, nor gives its own away.
#[tokio::test]
async fn queues_have_slots_of_their_own() {
    let stage = Stage::new();
    for _ in 0..20 {
        stage.client.enqueue(JobRequest::new("note", note("slow"))).queue("slow").await.unwrap();
        stage.client.enqueue(note("quick")).await.unwrap();
    }
    let (now, most) = (
        Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]),
        Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]),
    );
    let worker = stage.worker().slots(3).queue("slow", 2).handle({
        let (now, most) = (now.clone(), most.clone());
        move |_: Note, ctx: Context| {
            let (now, most) = (now.clone(), most.clone());
            async move {
                let at = usize::from(ctx.job().spec.queue.as_str() == "slow");
                most[at].fetch_max(now[at].fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                ctx.sleep(Duration::from_millis(100)).await?;
                now[at].fetch_sub(1, Ordering::SeqCst);
                Ok(())
            }
        }
    });
    assert_eq!(worker.run_until_idle().await.unwrap().settled, 40);
    assert_eq!([&most[0], &most[1]].map(|most| most.load(Ordering::SeqCst)), [3, 2]);
}

/// What is wrong with any option is the one error of the enqueue, and nothing is enqueued.
#[tokio::test]
async fn options_have_one_error_at_the_end() {
    let stage = Stage::new();
    let client = &stage.client;
    let long = "x".repeat(1_000);
    for (job, field) in [
        (client.enqueue(note("a")).key(&long).delay(Duration::from_secs(1)), "key"),
        (client.enqueue(note("a")).queue("").key("fine"), "queue"),
        (client.enqueue(note("a")).ladder("soon"), "ladder"),
        (client.enqueue(note("a")).max_attempts(0), "max_attempts"),
    ] {
        match job.await {
            Err(StoreError::Invalid(invalid)) => assert_eq!(invalid.field, field),
            other => panic!("{field}: {other:?}"),
        }
    }
    assert!(
        client.schedule("nightly").job(note("a")).await.unwrap_err().to_string().contains("cron is missing")
    );
    assert!(stage.store.queues().await.unwrap().is_empty());
}

#[tokio::test]
async fn results_say_how_a_job_ended() {
    let stage = Stage::new();
    let enqueue = async |of: u32| stage.client.enqueue(Sum(vec![of])).await.unwrap();
    let (failed, canceled) = (enqueue(1).await, enqueue(2).await);
    let many = stage.client.enqueue_many([Sum(vec![3]), Sum(vec![4])]).await.unwrap();
    stage.client.cancel(canceled.id()).await.unwrap();
    let worker = stage.worker().handle(async |Sum(of): Sum, _: Context| match of[0] {
        1 => Err("no such number").permanent()?,
        of => Ok(of),
    });
    worker.run_until_idle().await.unwrap();
    match failed.wait().await {
        Err(WaitError::Failed { reason: FailureReason::Permanent, error, .. }) => {
            assert_eq!(error, "no such number")
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(canceled.wait().await, Err(WaitError::Canceled(id)) if id == canceled.id()));
    assert_eq!((many[0].wait().await.unwrap(), many[1].wait().await.unwrap()), (3, 4));
    let other: Result<String, _> =
        windlass_engine::JobHandle::<String>::wait(&retyped(&stage, 3).await).await;
    assert!(matches!(other, Err(WaitError::Output { .. })));
}

/// A job whose result is not what its caller thinks.
async fn retyped(stage: &Stage, of: u32) -> windlass_engine::JobHandle<String> {
    let job = stage.client.enqueue(JobRequest::<String>::of(&Retyped(vec![of]))).await.unwrap();
    let worker = stage.worker().handle(async |Sum(of): Sum, _: Context| Ok(of[0]));
    worker.run_until_idle().await.unwrap();
    job
}

#[derive(serde::Serialize, serde::Deserialize)]
struct Retyped(Vec<u32>);

impl windlass_engine::Job for Retyped {
    const KIND: &'static str = "sum";
    type Output = String;
}

/// How long this thread has worked: what others do at the same time is not in it.
fn worked() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap())
}

/// A ladder of hours is climbed in no time, and the same way each time.
#[tokio::test]
async fn hours_pass_in_a_moment() {
    let stage = Stage::new();
    let began = worked();
    let runs = Arc::new(AtomicU32::new(0));
    let id = stage.enqueue_with("climb", |job| job.ladder("10m 20m 30m")).await;
    let worker = stage.worker().handle({
        let runs = runs.clone();
        move |_: Note, ctx: Context| {
            runs.fetch_add(1, Ordering::SeqCst);
            async move { if ctx.attempt() < 4 { Err("not yet")? } else { Ok(()) } }
        }
    });
    worker.run_until_idle().await.unwrap();
    let job = stage.job(id).await;
    assert_eq!((job.state.name(), runs.load(Ordering::SeqCst)), (StateName::Completed, 4));
    assert!(job.state.ended_at().unwrap().ms_since(job.created_at) >= 3_600_000);
    // The store, the client, the worker and its loops are all on this thread.
    let took = worked() - began;
    assert!(took < Duration::from_millis(50), "an hour took {took:?}");
}

/// More attempts than the ladder has rungs: the last rung repeats.
#[tokio::test]
async fn the_last_rung_repeats() {
    let stage = Stage::new();
    let id = stage.enqueue_with("climb", |job| job.ladder("1s 10s").max_attempts(5)).await;
    let worker = stage.worker().handle(async |_: Note, _: Context| Err(Failure::from("never")));
    worker.run_until_idle().await.unwrap();
    let job = stage.job(id).await;
    assert_eq!((job.state.name(), job.attempt), (StateName::Failed, 5));
    let starts: Vec<_> = job.history.iter().map(|entry| entry.started_at.unwrap()).collect();
    let waits: Vec<u64> = starts.windows(2).map(|pair| pair[1].ms_since(pair[0]) / 1_000).collect();
    assert!(waits[0] == 1 && waits[1..].iter().all(|wait| (10..12).contains(wait)), "{waits:?}");
}

/// More attempts than one need a rung to wait by: a number that would be ignored is refused, in either order.
#[tokio::test]
async fn attempts_without_a_rung_are_refused() {
    let stage = Stage::new();
    let job = || JobRequest::of(&note("again"));
    for job in [job().ladder("none").max_attempts(5), job().max_attempts(5).ladder("none")] {
        let refused = stage.client.enqueue(job).await.unwrap_err().to_string();
        assert!(refused.contains("max_attempts is 5") && refused.contains("rung"), "{refused}");
    }
    let once = stage.client.enqueue(job().ladder("none").max_attempts(1)).await.unwrap().id();
    assert_eq!(stage.job(once).await.spec.retry.unwrap().attempts_max(), 1);
}
