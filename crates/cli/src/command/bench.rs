//! `windlass bench`: honest figures of a store on this machine.
//!
//! Every call counts when it is durable. Jobs carry a payload, the handler does
//! nothing, finished jobs are kept until the measurement is over.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use windlass_engine::core::id::QueueName;
use windlass_engine::core::policy::queue::QueuePolicy;
use windlass_engine::core::store::Store;
use windlass_engine::world::{RealWorld, World, monotonic_ns};
use windlass_engine::{Client, Context, Job, JobRequest, Worker};

use crate::output::{progress, table, thousands};
use crate::say;
use crate::wiring::{make_store, without_password};

/// How to measure.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Every figure is of durable work: a call is answered when its commit is on disk.\n\
    Without --store a fresh SQLite file in a temporary folder is measured, and deleted.\n\
    On a store of yours the jobs go to the queue windlass-bench, and are deleted afterwards.\n\n\
    Examples:\n  windlass bench\n  windlass bench --store postgres://localhost/jobs --json\n  \
    windlass bench --only drain --jobs 1000000")]
pub struct BenchArgs {
    /// json:FILE, sqlite:FILE or postgres://USER@HOST/DATABASE; only when it is said: WINDLASS_STORE is left alone
    #[arg(long, value_name = "URL")]
    pub store: Option<String>,
    /// A server, such as http://127.0.0.1:7717: its store is measured through it; WINDLASS_URL is left alone
    #[arg(long, value_name = "URL", conflicts_with = "store")]
    pub url: Option<String>,
    /// How many jobs each part has (the one-by-one part has a fifth of it)
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(100..=10_000_000))]
    pub jobs: u32,
    /// How many producers enqueue at once, one job at a time
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub producers: u16,
    /// How many jobs one batch has
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub batch: u16,
    /// How many jobs the worker runs at once
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub slots: u16,
    /// Bytes of a payload
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(2..=1_000_000))]
    pub payload_bytes: u32,
    /// Only these parts
    #[arg(long, value_enum, value_delimiter = ',')]
    pub only: Vec<BenchPart>,
}

/// A part of the measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum BenchPart {
    /// Enqueue one job at a time, by many producers at once
    EnqueueOne,
    /// Enqueue in batches, by one producer
    EnqueueBatch,
    /// Drain a backlog with one worker
    Drain,
    /// From enqueue to start on an idle worker
    Latency,
}

const QUEUE: &str = "windlass-bench";
/// One job every so many milliseconds, when the latency is measured.
const LATENCY_EVERY_MS: u64 = 20;
/// How many of them.
const LATENCY_JOBS: u32 = 250;

#[derive(Serialize, Deserialize)]
struct Nothing {
    /// When the job was handed over, on the clock of this process.
    sent_ns: u64,
    filling: String,
}

impl Job for Nothing {
    const KIND: &'static str = "windlass-bench";
    type Output = ();
    const QUEUE: &'static str = QUEUE;
}

/// A figure.
#[derive(Serialize)]
struct Figure {
    part: &'static str,
    jobs: u32,
    seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    per_second: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p50_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p99_ms: Option<f64>,
}

#[derive(Serialize)]
struct Report {
    store: String,
    version: &'static str,
    producers: u16,
    batch: u16,
    slots: u16,
    payload_bytes: u32,
    figures: Vec<Figure>,
    peak_memory_mib: Option<f64>,
}

/// Measures.
pub async fn run(args: BenchArgs, json: bool) -> anyhow::Result<()> {
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    let named = args.url.clone().or_else(|| args.store.clone());
    let url = named.clone().unwrap_or_else(|| format!("sqlite:{}", folder.path().join("bench.db").display()));
    let store = make_store(&url).await?;
    empty(&store).await?;
    let bench = Bench { client: Client::new(store.clone()), store, args: args.clone() };
    let mut figures = Vec::new();
    for part in [BenchPart::EnqueueOne, BenchPart::EnqueueBatch, BenchPart::Drain, BenchPart::Latency] {
        if args.only.is_empty() || args.only.contains(&part) {
            figures.push(bench.measure(part).await?);
        }
    }
    empty(&bench.store).await?;
    let report = Report {
        store: if named.is_some() { without_password(&url) } else { "sqlite (temporary)".into() },
        version: env!("CARGO_PKG_VERSION"),
        producers: args.producers,
        batch: args.batch,
        slots: args.slots,
        payload_bytes: args.payload_bytes,
        figures,
        peak_memory_mib: peak_memory_mib(),
    };
    print(&report, json)
}

struct Bench {
    client: Client,
    store: Arc<dyn Store>,
    args: BenchArgs,
}

impl Bench {
    async fn measure(&self, part: BenchPart) -> anyhow::Result<Figure> {
        match part {
            BenchPart::EnqueueOne => self.enqueue_one_by_one().await,
            BenchPart::EnqueueBatch => self.enqueue_in_batches().await,
            BenchPart::Drain => self.drain().await,
            BenchPart::Latency => self.latency().await,
        }
    }

    async fn enqueue_one_by_one(&self) -> anyhow::Result<Figure> {
        let producers = u32::from(self.args.producers);
        let each = (self.args.jobs / 5 / producers).max(1);
        let bar = progress("enqueue one by one", u64::from(each * producers));
        let start = monotonic_ns();
        let mut tasks = Vec::new();
        for _ in 0..producers {
            let (client, job, bar) = (self.client.clone(), self.job()?, bar.clone());
            tasks.push(tokio::spawn(async move {
                for _ in 0..each {
                    client.enqueue(job.clone()).await?;
                    bar.inc(1);
                }
                anyhow::Ok(())
            }));
        }
        for task in tasks {
            task.await??;
        }
        bar.finish_and_clear();
        Ok(rate("enqueue one by one", each * producers, start))
    }

    async fn enqueue_in_batches(&self) -> anyhow::Result<Figure> {
        let start = monotonic_ns();
        self.fill(self.args.jobs).await?;
        Ok(rate("enqueue in batches", self.args.jobs, start))
    }

    async fn fill(&self, jobs: u32) -> anyhow::Result<()> {
        let bar = progress("enqueue in batches", u64::from(jobs));
        let mut left = jobs;
        while left > 0 {
            let count = left.min(u32::from(self.args.batch));
            let batch: anyhow::Result<Vec<JobRequest<()>>> = (0..count).map(|_| self.job()).collect();
            self.client.enqueue_many(batch?).await?;
            left -= count;
            bar.inc(u64::from(count));
        }
        bar.finish_and_clear();
        Ok(())
    }

    async fn drain(&self) -> anyhow::Result<Figure> {
        // What the parts before left, and no more than asked for.
        empty(&self.store).await?;
        self.fill(self.args.jobs).await?;
        let bar = progress("drain", u64::from(self.args.jobs));
        let ran = Arc::new(AtomicU64::new(0));
        let worker = self.worker().handle({
            let (ran, bar) = (ran.clone(), bar.clone());
            move |_: Nothing, _: Context| {
                if ran.fetch_add(1, Ordering::Relaxed).is_multiple_of(1_000) {
                    bar.inc(1_000);
                }
                async { Ok(()) }
            }
        });
        let start = monotonic_ns();
        let summary = worker.run_until_idle().await?;
        let figure = rate("drain", self.args.jobs, start);
        bar.finish_and_clear();
        let ran = ran.load(Ordering::Relaxed);
        anyhow::ensure!(
            summary.settled == u64::from(self.args.jobs) && ran == summary.settled,
            "drained {} jobs in {ran} runs instead of {}",
            summary.settled,
            self.args.jobs
        );
        Ok(figure)
    }

    async fn latency(&self) -> anyhow::Result<Figure> {
        empty(&self.store).await?;
        let (taken, mut latencies) = tokio::sync::mpsc::unbounded_channel();
        let worker = self.worker().handle(move |job: Nothing, _: Context| {
            // Should nobody listen any more, the measurement is over.
            let _ = taken.send(monotonic_ns() - job.sent_ns);
            async move { Ok(()) }
        });
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let running = tokio::spawn(worker.run_until(async move {
            let _ = stopped.await;
        }));
        let bar = progress("latency", u64::from(LATENCY_JOBS));
        let start = monotonic_ns();
        let world = RealWorld::new();
        let mut found = Vec::new();
        // The first ones open connections and fill caches; they do not count.
        for at in 0..LATENCY_JOBS + 20 {
            world.sleep_ms(LATENCY_EVERY_MS).await;
            self.client.enqueue(self.job()?).await?;
            let latency = latencies.recv().await.context("the worker has ended")?;
            if at >= 20 {
                found.push(latency);
                bar.inc(1);
            }
        }
        bar.finish_and_clear();
        let _ = stop.send(());
        running.await??;
        found.sort_unstable();
        let percentile = |share: f64| found[((found.len() - 1) as f64 * share) as usize] as f64 / 1e6;
        let mut figure = rate("latency when idle", LATENCY_JOBS, start);
        figure.per_second = None;
        figure.p50_ms = Some(percentile(0.50));
        figure.p99_ms = Some(percentile(0.99));
        Ok(figure)
    }

    fn worker(&self) -> Worker {
        Worker::new(self.store.clone()).slots(usize::from(self.args.slots)).grace(Duration::from_secs(5))
    }

    fn job(&self) -> anyhow::Result<JobRequest<()>> {
        let mut payload = Nothing { sent_ns: monotonic_ns(), filling: String::new() };
        let bare = serde_json::to_string(&payload)?.len();
        payload.filling = "x".repeat((self.args.payload_bytes as usize).saturating_sub(bare));
        Ok(JobRequest::of(&payload))
    }
}

fn rate(part: &'static str, jobs: u32, start_ns: u64) -> Figure {
    let seconds = (monotonic_ns() - start_ns) as f64 / 1e9;
    Figure { part, jobs, seconds, per_second: Some(f64::from(jobs) / seconds), p50_ms: None, p99_ms: None }
}

/// Takes all jobs of earlier measurements out of the store.
async fn empty(store: &Arc<dyn Store>) -> anyhow::Result<()> {
    let queue = QueueName::new(QUEUE)?;
    let client = Client::new(store.clone());
    cancel_queued(&client, &queue).await?;
    let policy = QueuePolicy { retention_days: 0, ..QueuePolicy::default() };
    store.put_queue(queue.clone(), policy).await?;
    while store.prune().await? > 0 {}
    store.put_queue(queue, QueuePolicy::default()).await?;
    Ok(())
}

async fn cancel_queued(client: &Client, queue: &QueueName) -> anyhow::Result<()> {
    use windlass_engine::core::query::{JobFilter, ListRequest, PAGE_MAX};
    use windlass_engine::core::state::StateName;
    let filter =
        JobFilter { states: vec![StateName::Queued], queue: Some(queue.clone()), ..JobFilter::default() };
    let mut after = None;
    loop {
        let request = ListRequest { filter: filter.clone(), limit: PAGE_MAX, after };
        let page = client.store().list(request).await?;
        let cancels = page.jobs.iter().map(|job| client.cancel(job.id));
        for canceled in futures::future::join_all(cancels).await {
            canceled?;
        }
        after = page.next;
        if after.is_none() {
            return Ok(());
        }
    }
}

fn print(report: &Report, json: bool) -> anyhow::Result<()> {
    if json {
        say!("{}", serde_json::to_string(report)?);
        return Ok(());
    }
    let row = |figure: &Figure| {
        let number =
            |value: Option<f64>, unit: &str| value.map(|v| format!("{v:.2}{unit}")).unwrap_or_default();
        vec![
            figure.part.to_owned(),
            thousands(f64::from(figure.jobs)),
            format!("{:.2} s", figure.seconds),
            figure.per_second.map(thousands).unwrap_or_default(),
            number(figure.p50_ms, " ms"),
            number(figure.p99_ms, " ms"),
        ]
    };
    let rows: Vec<Vec<String>> = report.figures.iter().map(row).collect();
    say!("store {}, windlass {}", report.store, report.version);
    say!(
        "{} producers, batches of {}, {} slots, payload of {} bytes, every answer durable\n",
        report.producers,
        report.batch,
        report.slots,
        report.payload_bytes
    );
    say!("{}", table(&["part", "jobs", "time", "jobs/s", "p50", "p99"], &rows));
    if let Some(memory) = report.peak_memory_mib {
        say!("\npeak memory of this process: {memory:.0} MiB");
    }
    Ok(())
}

fn peak_memory_mib() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kib: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib / 1024.0)
}
