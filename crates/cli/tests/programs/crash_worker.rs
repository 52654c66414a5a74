//! A small program for the crash tests: produces jobs, works them in steps, and
//! writes down what it does, until somebody kills it.
//!
//! `crash_worker ROLE STORE LOG`. Every line of the log is appended by one
//! write, so the log has one order over all processes:
//! `acked ID` after an enqueue was answered, `start ID FENCE`, `run ID STEP
//! FENCE` when a step's work begins, `stored ID STEP FENCE` when it is durable.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass_engine::core::id::QueueName;
use windlass_engine::core::policy::queue::QueuePolicy;
use windlass_engine::core::store::Store;
use windlass_engine::process::Command;
use windlass_engine::world::{RealWorld, World};
use windlass_engine::{Client, Context, Failure, Job, Worker};

#[derive(Serialize, Deserialize)]
struct Crash {}

impl Job for Crash {
    const KIND: &'static str = "crash";
    type Output = ();
}

const STEPS: [&str; 3] = ["one", "two", "three"];

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, role, store, log] = arguments.as_slice() else {
        anyhow::bail!("usage: crash_worker ROLE STORE LOG")
    };
    let log = Log(Arc::new(OpenOptions::new().append(true).create(true).open(log)?));
    let store = open(store).await?;
    match role.as_str() {
        "prepare" => prepare(&store).await,
        "worker" => Ok(worker(store, log).run_until_signal().await.map(drop)?),
        "producer" => produce(store, log).await,
        "both" => tokio::select! {
            ended = worker(store.clone(), log.clone()).run_until_signal() => Ok(ended.map(drop)?),
            ended = produce(store, log) => ended,
        },
        "drain" => drain(store, log).await,
        "slow" => Ok(slow_worker(store, log).run_until_signal().await.map(drop)?),
        "poison" => Ok(poisoned(store).run_until_signal().await.map(drop)?),
        "sweep" => {
            println!("{}", windlass_engine::process::sweep_orphans());
            Ok(())
        }
        "parent" => Ok(parent(store).run_until_signal().await.map(drop)?),
        _ => anyhow::bail!("no such role: {role}"),
    }
}

async fn open(url: &str) -> anyhow::Result<Arc<dyn Store>> {
    Ok(windlass::open(url).await?)
}

/// Leases that run out soon, and as many attempts and crashes as it takes.
async fn prepare(store: &Arc<dyn Store>) -> anyhow::Result<()> {
    let policy = QueuePolicy {
        lease_ms: 1_000,
        ladder: ["10ms"; 60].join(" ").parse()?,
        crashes_max: 100,
        ..QueuePolicy::default()
    };
    store.put_queue(QueueName::default(), policy).await?;
    Ok(())
}

fn worker(store: Arc<dyn Store>, log: Log) -> Worker {
    with_pause(store, log, 3)
}

/// Slow enough to be frozen in the middle.
fn slow_worker(store: Arc<dyn Store>, log: Log) -> Worker {
    with_pause(store, log, 300)
}

fn with_pause(store: Arc<dyn Store>, log: Log, pause_ms: u64) -> Worker {
    let worker = Worker::new(store).slots(8).grace(Duration::from_secs(1));
    worker.handle(move |_: Crash, ctx: Context| {
        let log = log.clone();
        async move {
            let (id, fence) = (ctx.id(), ctx.fence());
            log.line(&format!("start {id} {fence}"))?;
            for step in STEPS {
                ctx.step(step, async || {
                    log.line(&format!("run {id} {step} {fence}"))?;
                    ctx.sleep(Duration::from_millis(pause_ms)).await
                })
                .await?;
                log.line(&format!("stored {id} {step} {fence}"))?;
            }
            Ok::<(), Failure>(())
        }
    })
}

async fn produce(store: Arc<dyn Store>, log: Log) -> anyhow::Result<()> {
    let client = Client::new(store);
    let world = RealWorld::new();
    loop {
        // An answer that never came is no promise, and no reason to stop.
        if let Ok(enqueued) = client.enqueue(Crash {}).await {
            log.line(&format!("acked {}", enqueued.id()))?;
        }
        world.sleep_ms(2).await;
    }
}

/// Works until all is over: also what dead workers still hold.
async fn drain(store: Arc<dyn Store>, log: Log) -> anyhow::Result<()> {
    loop {
        worker(store.clone(), log.clone()).run_until_idle().await?;
        if store.queues().await?.iter().all(|queue| queue.queued + queue.running == 0) {
            return Ok(());
        }
        RealWorld::new().sleep_ms(50).await;
    }
}

/// A job that kills its worker, beside one that would take its time.
fn poisoned(store: Arc<dyn Store>) -> Worker {
    Worker::new(store).slots(2).handle(async |_: Crash, ctx: Context| {
        if ctx.job().spec.priority == 0 {
            return ctx.sleep(Duration::from_secs(60)).await;
        }
        std::process::abort()
    })
}

/// Jobs as processes that would live for ever.
fn parent(store: Arc<dyn Store>) -> Worker {
    let script = r#"setsid env -i sleep 1000 & hidden=$!
        setsid sleep 1000 & echo "::windlass {\"progress\": [$$, $hidden, $!]}"; wait"#;
    let command = Command::new(["/bin/sh", "-c", script]).expect("the command has a program");
    Worker::new(store).slots(4).handle_command("crash", command)
}

#[derive(Clone)]
struct Log(Arc<File>);

impl Log {
    fn line(&self, line: &str) -> std::io::Result<()> {
        (&*self.0).write_all(format!("{line}\n").as_bytes())
    }
}
