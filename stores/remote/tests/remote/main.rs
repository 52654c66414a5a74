//! A store, a server in front of it, and the store that speaks to the server:
//! whatever is asked of the one is what the other says.

mod generated;
mod served;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use uuid::Uuid;
use windlass_engine::core::audit::AuditFrom;
use windlass_engine::core::error::StoreError;
use windlass_engine::core::event::{Event, What};
use windlass_engine::core::id::{BudgetName, JobId, Key, Kind, QueueName, ScheduleName, WorkerName};
use windlass_engine::core::job::{JobSpec, NewJob, Start};
use windlass_engine::core::json::Json;
use windlass_engine::core::policy::budget::BudgetPolicy;
use windlass_engine::core::policy::queue::QueuePolicy;
use windlass_engine::core::policy::schedule::{Missed, Overlap, SchedulePolicy};
use windlass_engine::core::query::{JobFilter, ListRequest};
use windlass_engine::core::state::{State, StateName};
use windlass_engine::core::store::{CancelAnswer, ClaimRequest, LeaseRef, RetryAnswer, Source, Spent, Store};
use windlass_engine::world::RealWorld;
use windlass_engine::{Client, Context, Failure, Job, JobRecord, Worker};
use windlass_remote::{Options, RemoteStore};
use windlass_server::{Secret, Server, Settings};
use windlass_testkit::eventually::answered;
use windlass_testkit::memory::MemoryStore;

struct Scene {
    near: Arc<MemoryStore>,
    far: Arc<RemoteStore>,
    url: String,
    _end: oneshot::Sender<()>,
}

const TOKEN: &str = "a-token-that-is-long-enough-for-a-test";

impl Scene {
    async fn new() -> Self {
        let near = Arc::new(MemoryStore::new(Arc::new(RealWorld::new())));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let settings = Settings { token: Some(Secret::new(TOKEN)), ..Settings::default() };
        let server = Server::new(near.clone(), settings);
        let (end, ended) = oneshot::channel();
        tokio::spawn(windlass_server::serve(listener, async { drop(ended.await) }, server));
        let far = connect(&url, Some(TOKEN)).await.unwrap();
        Self { near, far, url, _end: end }
    }

    /// The job, as both say; they must say the same.
    async fn job(&self, id: JobId) -> JobRecord {
        let near = self.near.get(id).await.unwrap().unwrap();
        let far = self.far.get(id).await.unwrap().unwrap();
        assert_eq!(shown(far), shown(near.clone()));
        near
    }
}

/// Without what the API keeps to itself.
fn shown(mut job: JobRecord) -> JobRecord {
    (job.seq, job.rank) = (0, 0);
    for entry in &mut job.history {
        (entry.fence, entry.started_at) = (0, None);
    }
    job
}

async fn connect(url: &str, token: Option<&str>) -> Result<Arc<RemoteStore>, StoreError> {
    let options = Options { token: token.map(str::to_owned), ..Options::default() };
    RemoteStore::connect(url, options).await
}

fn queue(name: &str) -> QueueName {
    QueueName::new(name).unwrap()
}

fn new(n: u128, kind: &str) -> NewJob {
    let payload = Json::payload(format!(r#"{{"n":{n},"exact":1.10,"text":"\u00fc \" \\"}}"#)).unwrap();
    let spec = JobSpec::new(Kind::new(kind).unwrap(), queue("a queue/ü?"), payload);
    NewJob { id: JobId(Uuid::from_u128(n)), spec, start: Start::Now }
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_come_back_as_they_were_sent() {
    let scene = Scene::new().await;
    let mut rich = new(1, "k");
    rich.spec.priority = -3;
    rich.spec.key = Some(Key::new("shop 7").unwrap());
    rich.spec.budgets = vec![BudgetName::new("api").unwrap()];
    rich.spec.timeout_ms = Some(90_000);
    rich.spec.meta = Some(Json::payload(r#"{"by":"me"}"#).unwrap());
    rich.spec.retry = Some(serde_json::from_str(r#"{"ladder":"1m 5m","max_attempts":2}"#).unwrap());
    rich.start = Start::AfterMs(3_600_000);
    let sent = vec![rich.clone(), new(2, "k"), new(3, "other")];
    let answers = scene.far.enqueue(sent.clone()).await.unwrap();
    assert!(answers.iter().zip(&sent).all(|(answer, sent)| answer.id == sent.id && !answer.deduplicated));
    // Asking again is harmless; another content under the same id is refused.
    assert!(scene.far.enqueue(sent.clone()).await.unwrap().iter().all(|answer| answer.deduplicated));
    let conflict = scene.far.enqueue(vec![new(1, "k")]).await;
    assert_eq!(conflict, Err(StoreError::Conflict(rich.id)));
    assert_eq!(scene.job(rich.id).await.spec, rich.spec);
    assert_eq!(scene.far.get(JobId(Uuid::from_u128(9))).await.unwrap(), None);

    let ask = |filter: JobFilter, limit| ListRequest { filter, limit, after: None };
    let one = JobFilter { kind: Some(Kind::new("other").unwrap()), ..JobFilter::default() };
    assert_eq!(scene.far.list(ask(one, 10)).await.unwrap().jobs[0].id, sent[2].id);
    let mut request = ask(JobFilter { text: Some("Ü \\".into()), ..JobFilter::default() }, 2);
    let near = scene.near.list(request.clone()).await.unwrap();
    let far = scene.far.list(request.clone()).await.unwrap();
    assert_eq!(far.next, near.next);
    request.filter = JobFilter { states: vec![StateName::Queued], ..JobFilter::default() };
    let first = scene.far.list(request.clone()).await.unwrap();
    request.after = first.next;
    let second = scene.far.list(request).await.unwrap();
    let ids: Vec<JobId> = first.jobs.iter().chain(&second.jobs).map(|job| job.id).collect();
    assert_eq!(ids, [sent[2].id, sent[1].id, sent[0].id]);
    for id in ids {
        assert_eq!(scene.far.explain(id).await.unwrap(), scene.near.explain(id).await.unwrap());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cancel_and_retry_say_what_happened() {
    let scene = Scene::new().await;
    let id = scene.far.enqueue(vec![new(1, "k")]).await.unwrap()[0].id;
    let nobody = JobId(Uuid::from_u128(9));
    assert_eq!(scene.far.retry(id).await, Ok(RetryAnswer::NotFinal));
    assert_eq!(scene.far.cancel(id).await, Ok(CancelAnswer::Canceled));
    assert_eq!(scene.far.cancel(id).await, Ok(CancelAnswer::Final));
    assert_eq!(scene.job(id).await.state.name(), StateName::Canceled);
    assert_eq!(scene.far.retry(id).await, Ok(RetryAnswer::Retried));
    assert_eq!(scene.job(id).await.retries, 1);
    // Who did it is told beside it, after the fact.
    let of_jobs = |events: Vec<Event>| -> Vec<Event> {
        events.into_iter().filter(|event| event.what != What::Acted).collect()
    };
    let events = scene.far.events(None, 1_000).await.unwrap();
    let near = scene.near.events(None, 1_000).await.unwrap();
    assert!(near.starts_with(&events), "{near:?}");
    assert_eq!(of_jobs(events.clone()).len(), 3, "{events:?}");
    let newest = events.last().unwrap().position;
    assert!(newest.is_behind(scene.far.events_end().await.unwrap()));
    assert_eq!(scene.far.events(Some(events[0].position), 1).await.unwrap(), events[1..2]);
    assert_eq!(scene.far.cancel(nobody).await, Ok(CancelAnswer::NotFound));
    assert_eq!(scene.far.retry(nobody).await, Ok(RetryAnswer::NotFound));
    let both = vec![id, nobody, id];
    let answers = [CancelAnswer::Canceled, CancelAnswer::NotFound, CancelAnswer::Final];
    assert_eq!(scene.far.cancel_all(both.clone()).await.unwrap(), answers);
    let answers = [RetryAnswer::Retried, RetryAnswer::NotFound, RetryAnswer::NotFinal];
    assert_eq!(scene.far.retry_all(both).await.unwrap(), answers);
}

/// Workers ask for cancels twice a second: that must not be a renewal of all that they hold.
#[tokio::test(flavor = "multi_thread")]
async fn asking_for_cancels_holds_on_to_nothing() {
    let scene = Scene::new().await;
    let ids: Vec<JobId> =
        scene.far.enqueue(vec![new(1, "k"), new(2, "k")]).await.unwrap().iter().map(|one| one.id).collect();
    let request = ClaimRequest {
        request_id: Uuid::from_u128(7),
        worker: WorkerName::new("w").unwrap(),
        queues: vec![queue("a queue/ü?")],
        kinds: None,
        limit: 2,
        lease_ms: None,
    };
    let leases: Vec<LeaseRef> =
        scene.far.claim(request).await.unwrap().leases.iter().map(|one| one.lease_ref()).collect();
    assert_eq!(leases.len(), 2);
    assert_eq!(scene.far.cancels(leases.clone()).await, Ok(vec![]));
    assert_eq!(scene.far.cancel(ids[1]).await, Ok(CancelAnswer::Requested));
    let before = [scene.job(ids[0]).await, scene.job(ids[1]).await];
    assert_eq!(scene.far.cancels(leases).await, Ok(vec![ids[1]]));
    assert_eq!([scene.job(ids[0]).await, scene.job(ids[1]).await], before);
}

/// An audit over a server comes in the bites of its store.
#[tokio::test(flavor = "multi_thread")]
async fn an_audit_comes_in_bites() {
    let scene = Scene::new().await;
    let (mut from, mut bites) = (AuditFrom::default(), 0);
    loop {
        let far = scene.far.audit_bite(from).await.unwrap();
        assert_eq!(far, scene.near.audit_bite(from).await.unwrap());
        bites += 1;
        let Some(next) = far.next else { break };
        from = next;
    }
    assert!(bites > 0);
    assert_eq!(scene.far.audit().await.unwrap(), Vec::<String>::new());
    scene.far.risks().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn policies_are_set_and_read() {
    let scene = Scene::new().await;
    let policy = QueuePolicy { limit: Some(3), ageing_ms: Some(5_000), ..QueuePolicy::default() };
    scene.far.put_queue(queue("a/b"), policy.clone()).await.unwrap();
    scene.far.pause_queue(queue("a/b"), true).await.unwrap();
    assert_eq!(scene.far.queues().await.unwrap(), scene.near.queues().await.unwrap());
    assert_eq!(scene.far.queues().await.unwrap()[0].policy, policy);

    let api = BudgetName::new("api").unwrap();
    let policy = BudgetPolicy { per_second: Some(2), ..BudgetPolicy::default() };
    scene.far.put_budget(api.clone(), policy).await.unwrap();
    assert_eq!(scene.far.spend(api.clone(), 2).await, Ok(Spent::Granted));
    assert!(matches!(scene.far.spend(api.clone(), 2).await, Ok(Spent::Wait { in_ms: 1.. })));
    assert_eq!(scene.far.spend(api.clone(), 3).await, Ok(Spent::Never));
    scene.far.cool_down(api.clone(), 60_000).await.unwrap();
    let budgets = scene.far.budgets().await.unwrap();
    assert_eq!(budgets[0].budget.policy, policy);
    assert!(budgets[0].budget.cooling_until.is_some());

    let name = ScheduleName::new("nightly").unwrap();
    let policy = SchedulePolicy {
        cron: "0 3 * * *".into(),
        zone: "Europe/Berlin".into(),
        overlap: Overlap::Queue,
        missed: Missed::All(7),
        paused: false,
        job: new(1, "k").spec,
    };
    scene.far.put_schedule(name.clone(), policy.clone()).await.unwrap();
    let far = scene.far.schedules().await.unwrap();
    let near = scene.near.schedules().await.unwrap();
    assert_eq!((&far[0].policy, far[0].next_due()), (&policy, near[0].next_due()));
    assert_eq!(scene.far.delete_schedule(name.clone()).await, Ok(true));
    assert_eq!(scene.far.delete_schedule(name).await, Ok(false));
    assert_eq!(scene.far.audit().await, Ok(vec![]));
}

#[derive(Serialize, Deserialize)]
struct Staged {
    n: u32,
}

impl Job for Staged {
    const KIND: &'static str = "staged";
    type Output = u32;
}

#[derive(Serialize, Deserialize)]
struct Broken;

impl Job for Broken {
    const KIND: &'static str = "broken";
    type Output = ();
}

/// A worker of the engine, far away: steps, progress, retries, results.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_works_over_it() {
    let scene = Scene::new().await;
    let policy = QueuePolicy { ladder: "1ms".parse().unwrap(), ..QueuePolicy::default() };
    scene.far.put_queue(QueueName::default(), policy).await.unwrap();
    let client = Client::new(scene.far.clone());
    let ids =
        [client.enqueue(Staged { n: 1 }).await.unwrap().id(), client.enqueue(Broken).await.unwrap().id()];
    let runs = Arc::new(AtomicU32::new(0));
    let (counted, far) = (runs.clone(), scene.far.clone());
    let worker = Worker::new(scene.far.clone())
        .handle(move |Staged { n }: Staged, ctx: Context| {
            let (counted, far) = (counted.clone(), far.clone());
            async move {
                let seen = async || Some(far.workers().await.ok()?.len()).filter(|workers| *workers == 1);
                assert_eq!(answered(seen).await, Some(1), "the server knows the worker by its claims");
                let once = || async move {
                    counted.fetch_add(1, Ordering::Relaxed);
                    Ok(n + 40)
                };
                let stored: u32 = ctx.step("once", once).await?;
                ctx.progress("half").await?;
                match ctx.attempt() {
                    1 => Err(Failure::retry("not yet")),
                    _ => Ok(stored + 1),
                }
            }
        })
        .handle(|_: Broken, _: Context| async { Err(Failure::permanent("no good")) });
    let summary = worker.run_until_idle().await.unwrap();
    assert_eq!((summary.settled, summary.lost), (3, 0));
    assert_eq!(runs.load(Ordering::Relaxed), 1);
    let job = scene.job(ids[0]).await;
    assert!(matches!(&job.state, State::Completed { result: Some(json), .. } if json.as_str() == "42"));
    assert_eq!((job.attempt, job.steps.len()), (2, 1));
    let job = scene.job(ids[1]).await;
    assert_eq!((job.state.name(), job.last_error()), (StateName::Failed, Some("no good")));
    let gone = async || Some(scene.far.workers().await.ok()?.len()).filter(|workers| *workers == 0);
    assert_eq!(answered(gone).await, Some(0), "it has said goodbye");
}

/// Work that comes while a worker waits is told to it.
#[tokio::test(flavor = "multi_thread")]
async fn new_work_wakes() {
    let scene = Scene::new().await;
    let (told, mut hears) = tokio::sync::mpsc::unbounded_channel();
    let _registration = scene.far.on_work(Arc::new(move |_| {
        let _ = told.send(());
    }));
    // The greeting of the stream: from here on nothing is missed.
    hears.recv().await.unwrap();
    scene.near.enqueue(vec![new(1, "k")]).await.unwrap();
    hears.recv().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_work_says_why() {
    let scene = Scene::new().await;
    for token in [None, Some("wrong")] {
        let far = connect(&scene.url, token).await.unwrap();
        let refused = far.queues().await.unwrap_err().to_string();
        assert!(refused.contains("WINDLASS_TOKEN"), "{refused}");
    }
    let nowhere = connect("http://127.0.0.1:1", None).await.err().unwrap().to_string();
    assert!(nowhere.contains("windlass serve"), "{nowhere}");
    for url in ["ftp://host", "http://", "http://me:pass@host", "http://host?x=1", "windlass.db"] {
        assert!(matches!(connect(url, None).await, Err(StoreError::Invalid(_))), "{url}");
    }
    let mut large = new(1, "k");
    large.spec.payload = Json::trusted(format!("\"{}\"", "x".repeat(1 << 20)));
    assert!(matches!(scene.far.enqueue(vec![large]).await, Err(StoreError::Invalid(_))));
}
