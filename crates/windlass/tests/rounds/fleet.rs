//! Programs under load: three workers, a client that enqueues, a listener of events. They know a URL and nothing else.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use windlass::core::id::ScheduleName;
use windlass::core::job::{Job, NewJob};
use windlass::core::policy::schedule::Schedule;
use windlass::core::query::{JobFilter, ListRequest, PAGE_MAX};
use windlass::core::store::{Settlement, Written};
use windlass::postgres::PostgresStore;
use windlass::world::{RealWorld, World, new_id};
use windlass::{
    BudgetName, BudgetPolicy, Client, Context, Failure, Handler, JobId, JobRequest, Json, LeaseRef, Missed,
    Outcome, Overlap, QueueName, QueuePolicy, Source, StateName, Store, StoreError, Summary, Time, Worker,
    WorkerError, WorkerEvent,
};
use windlass_testkit::eventually::eventually;

use crate::heard::Heard;
use crate::oracle::{AT_ONCE, Left, Lost, Oracle, PER_DAY, PER_SECOND, Sort};

/// Twelve seconds are the shortest lease of which the guide says that no restart of the server is a crash.
pub const LEASE_MS: u32 = 12_000;
const WORKERS: usize = 3;
const SLOTS: usize = 12;
/// Jobs come in bursts, so that keys, limits and seconds have something to hold back.
const BURST: usize = 4;
const BETWEEN_BURSTS_MS: u64 = 1_500;
const MOVE_MS: u64 = 60;
const SCHEDULE: &str = "ticks";

pub struct Fleet {
    pub oracle: Arc<Oracle>,
    store: Arc<PostgresStore>,
    heard: Arc<Heard>,
    /// First the client is told to stop, then everybody.
    stop: watch::Sender<Stop>,
    client: JoinHandle<()>,
    workers: Vec<JoinHandle<Result<Summary, WorkerError>>>,
    listener: JoinHandle<()>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stop {
    Nobody,
    Client,
    Everybody,
}

impl Fleet {
    /// Sets up the store and starts everybody.
    pub async fn start(url: &str) -> Self {
        let store = PostgresStore::connect(url).await.expect("a store");
        set_up(&store).await;
        let (oracle, heard) = (Arc::new(Oracle::default()), Arc::new(Heard::default()));
        let stop = watch::Sender::new(Stop::Nobody);
        let mut workers = Vec::new();
        for n in 0..WORKERS {
            let own = PostgresStore::connect(url).await.expect("a store");
            workers.push(tokio::spawn(worker(own, n, &oracle).run_until(until(&stop, Stop::Everybody))));
        }
        let own = PostgresStore::connect(url).await.expect("a store");
        let client = tokio::spawn(enqueue(Arc::clone(&store), Arc::clone(&oracle), stop.subscribe()));
        let listener = tokio::spawn(Arc::clone(&heard).listen(own, until(&stop, Stop::Everybody)));
        Self { oracle, store, heard, stop, client, workers, listener }
    }

    /// Until so many more attempts have begun: the load is felt.
    pub async fn works(&self, attempts: usize) {
        let from = self.oracle.begun();
        eventually("work goes on", async || (self.oracle.begun() >= from + attempts).then_some(())).await;
    }

    /// Enqueues a job from now on, until that is answered: the task gives when it was.
    pub fn asks(&self) -> JoinHandle<u64> {
        let (store, oracle) = (Arc::clone(&self.store), Arc::clone(&self.oracle));
        tokio::spawn(async move {
            let world = RealWorld::new();
            accepted(&store, &oracle, vec![new_job(&world, 0, Sort::Plain)]).await;
            oracle.now_ms()
        })
    }

    /// When something comes about, from now on.
    pub fn notes_when(&self, comes: impl Future<Output = ()> + Send + 'static) -> JoinHandle<u64> {
        let oracle = Arc::clone(&self.oracle);
        tokio::spawn(async move {
            comes.await;
            oracle.now_ms()
        })
    }

    /// Lets so much time pass: an outage has a length, and nothing to wait for.
    pub async fn passes(&self, ms: u64) {
        RealWorld::new().sleep_ms(ms).await;
    }

    /// The jobs that the store has as completed now.
    pub async fn completed(&self) -> HashSet<JobId> {
        let jobs = eventually("jobs", async || all_jobs(&*self.store).await.ok()).await;
        jobs.values().filter(|job| job.state.name() == StateName::Completed).map(|job| job.id).collect()
    }

    /// Lets everything come to its end, and judges it. `lost`: which commits may be.
    pub async fn end(self, lost: Option<Lost>) -> Vec<String> {
        self.stop.send_replace(Stop::Client);
        self.client.await.expect("the client under load");
        let name = ScheduleName::new(SCHEDULE).expect("a name");
        let last = eventually("no more ticks", async || {
            let schedules = self.store.schedules().await.ok()?;
            let schedule = schedules.into_iter().next()?;
            self.store.delete_schedule(name.clone()).await.ok().map(|_| schedule)
        })
        .await;
        let jobs = eventually("all that may run has run", async || {
            let jobs = all_jobs(&*self.store).await.ok()?;
            jobs.values().all(is_over).then_some(jobs)
        })
        .await;
        let completed: HashSet<JobId> =
            jobs.values().filter(|job| job.state.name() == StateName::Completed).map(|job| job.id).collect();
        let has_heard = async || self.heard.has_heard(&completed).then_some(());
        eventually("the listener has heard of all", has_heard).await;
        self.stop.send_replace(Stop::Everybody);
        for worker in self.workers {
            worker.await.expect("no panic").expect("a worker that ends in order");
        }
        self.listener.await.expect("the listener");
        let floor = self.store.epoch().await.expect("an epoch").epoch.floor;
        let mut wrong = self.heard.judge(lost.is_some());
        wrong.extend(ticks(&last, &jobs));
        wrong.extend(stale_ends(&self.store, &self.oracle, &jobs).await);
        wrong.extend(self.store.audit().await.expect("audit"));
        let day = jobs.values().filter(|job| Sort::of(job) == Sort::Day).count();
        assert!(day > PER_DAY, "{day} jobs for a day's {PER_DAY}: the load did not try the window");
        wrong.extend(self.oracle.judge(&Left { jobs, floor, lost }));
        wrong
    }
}

async fn until_stopped(mut stop: watch::Receiver<Stop>, at: Stop) {
    // Nobody is left to say it when the test is over.
    let _ = stop.wait_for(|said| *said >= at).await;
}

fn until(stop: &watch::Sender<Stop>, at: Stop) -> impl Future<Output = ()> + Send + 'static {
    until_stopped(stop.subscribe(), at)
}

async fn set_up(store: &Arc<PostgresStore>) {
    let policy = QueuePolicy { lease_ms: LEASE_MS, ..QueuePolicy::default() };
    for (queue, limit) in [("default", None), ("limited", Some(AT_ONCE as u32))] {
        let name = QueueName::new(queue).expect("a name");
        store.put_queue(name, QueuePolicy { limit, ..policy.clone() }).await.expect("a queue");
    }
    let none = BudgetPolicy::default();
    for (sort, policy) in [
        (Sort::Slots, BudgetPolicy { slots: Some(AT_ONCE as u32), ..none }),
        (Sort::Second, BudgetPolicy { per_second: Some(PER_SECOND as u32), ..none }),
        (Sort::Day, BudgetPolicy { per_day: Some(PER_DAY as u32), ..none }),
    ] {
        store.put_budget(BudgetName::new(sort.name()).expect("a name"), policy).await.expect("a budget");
    }
    let client = Client::new(store.clone());
    let schedule =
        client.schedule(SCHEDULE).cron("* * * * * *").overlap(Overlap::Queue).missed(Missed::All(100));
    schedule.job(JobRequest::<Value>::new(&Sort::Tick.name(), 0)).await.expect("a schedule");
}

fn worker(store: Arc<PostgresStore>, n: usize, oracle: &Arc<Oracle>) -> Worker<Arc<Oracle>> {
    let hears = Arc::clone(oracle);
    let mut worker = Worker::new(store)
        .name(&format!("worker-{n}"))
        .queues(["default", "limited"])
        .slots(SLOTS)
        .on_event(move |event| {
            if let WorkerEvent::Lost { job_id, fence } = event {
                hears.loses(*job_id, *fence);
            }
        })
        .state(Arc::clone(oracle));
    for sort in Sort::ENQUEUED.into_iter().chain([Sort::Tick]) {
        worker = worker.handle_kind(&sort.name(), Healthy);
    }
    worker
}

/// A handler that stores a step and then moves for a while. Nothing is ever wrong with it.
struct Healthy;

#[async_trait::async_trait]
impl Handler<Arc<Oracle>> for Healthy {
    async fn run(&self, ctx: Context<Arc<Oracle>>) -> Result<Option<Json>, Failure> {
        let (oracle, job) = (ctx.state(), ctx.job());
        oracle.begins(job);
        let body = async || {
            oracle.runs_step(job);
            Ok(7)
        };
        let _: u32 = ctx.step("fetch", body).await?;
        oracle.has_step(job);
        let moves = if Sort::of(job) == Sort::Long { 60 } else { 5 };
        for _ in 0..moves {
            oracle.moves(job);
            ctx.sleep(Duration::from_millis(MOVE_MS)).await?;
        }
        oracle.moves(job);
        oracle.ends(job);
        Ok(None)
    }
}

fn new_job(world: &RealWorld, n: usize, sort: Sort) -> NewJob {
    let mut job = JobRequest::<Value>::new(&sort.name(), n).id(new_id(world));
    match sort {
        Sort::Keyed => job = job.key(n % 3),
        Sort::Limited => job = job.queue("limited"),
        Sort::Slots | Sort::Second | Sort::Day => job = job.budget(sort.name()),
        Sort::Plain | Sort::Long | Sort::Tick => {}
    }
    job.build().expect("a job")
}

/// Enqueues jobs, and repeats that as it is until it is answered.
async fn accepted(store: &PostgresStore, oracle: &Oracle, jobs: Vec<NewJob>) {
    let world = RealWorld::new();
    loop {
        match store.enqueue(jobs.clone()).await {
            Ok(answers) => return oracle.accepted(answers.iter().map(|answer| answer.id)),
            Err(error) => assert!(error.is_transient(), "an outage is no other error than this: {error}"),
        }
        world.sleep_ms(20).await;
    }
}

/// Enqueues a burst of every sort now and then, and on a machine that is slow a few more at the end: more than a day has room for.
async fn enqueue(store: Arc<PostgresStore>, oracle: Arc<Oracle>, stop: watch::Receiver<Stop>) {
    let world = RealWorld::new();
    let (mut n, mut of_the_day) = (0, 0);
    while *stop.borrow() == Stop::Nobody || of_the_day <= PER_DAY {
        of_the_day += BURST;
        let mut jobs = Vec::new();
        for sort in Sort::ENQUEUED.into_iter().flat_map(|sort| [sort; BURST]) {
            n += 1;
            jobs.push(new_job(&world, n, sort));
        }
        accepted(&store, &oracle, jobs).await;
        tokio::select! {
            () = world.sleep_ms(BETWEEN_BURSTS_MS) => {}
            () = until_stopped(stop.clone(), Stop::Client) => {}
        }
    }
}

async fn all_jobs(store: &dyn Store) -> Result<HashMap<JobId, Job>, StoreError> {
    let (mut jobs, mut after) = (HashMap::new(), None);
    loop {
        let request = ListRequest { filter: JobFilter::default(), limit: PAGE_MAX, after };
        let page = store.list(request).await?;
        jobs.extend(page.jobs.into_iter().map(|job| (job.id, job)));
        after = page.next;
        if after.is_none() {
            return Ok(jobs);
        }
    }
}

/// Whether nothing more will happen to it: it has ended, or the day has nothing left for it.
fn is_over(job: &Job) -> bool {
    match job.state.name() {
        StateName::Queued => Sort::of(job) == Sort::Day,
        StateName::Running => false,
        StateName::Completed | StateName::Failed | StateName::Canceled => true,
    }
}

/// Ticks that have no job in the store, and jobs that are of no tick: there is one for each, since the first.
fn ticks(schedule: &Schedule, jobs: &HashMap<JobId, Job>) -> Vec<String> {
    let last = schedule.last_run.expect("it has run");
    // One more may have been due before it was taken away.
    let runs = schedule.runs_before(last.plus_ms(10_000), 3_600);
    let by_id: HashMap<JobId, Time> = runs.iter().map(|run| (schedule.job_for(*run).id, *run)).collect();
    let found = jobs.values().filter(|job| Sort::of(job) == Sort::Tick);
    let (known, foreign): (Vec<&Job>, Vec<&Job>) = found.partition(|job| by_id.contains_key(&job.id));
    let first = known.iter().map(|job| by_id[&job.id]).min().expect("a tick");
    let without = runs.iter().filter(|run| (first..=last).contains(run));
    let without = without.filter(|run| !jobs.contains_key(&schedule.job_for(**run).id));
    let missing = without.map(|run| format!("the tick of {run} has no job"));
    missing.chain(foreign.iter().map(|job| format!("{} is the job of no tick", job.id))).collect()
}

/// Ends under fences that are not the newest, said once more now that all is over: each is refused and changes nothing.
async fn stale_ends(store: &PostgresStore, oracle: &Oracle, jobs: &HashMap<JobId, Job>) -> Vec<String> {
    let is_stale = |(id, fence): &(JobId, u64)| jobs.get(id).is_none_or(|job| job.fence != *fence);
    let stale = oracle.leases().into_iter().filter(is_stale);
    let ends: Vec<Settlement> = stale
        .map(|(job_id, fence)| LeaseRef { job_id, fence, ticket: None })
        .map(|lease| Settlement { lease, outcome: Outcome::DONE })
        .collect();
    let answers = store.settle(ends.clone()).await.expect("an answer");
    let taken = ends.iter().zip(answers).filter(|(_, answer)| *answer != Written::Lost);
    let mut wrong: Vec<String> =
        taken.map(|(end, answer)| format!("a stale end was answered {answer:?}: {end:?}")).collect();
    if all_jobs(store).await.expect("jobs") != *jobs {
        wrong.push("stale ends have changed something".into());
    }
    wrong
}
