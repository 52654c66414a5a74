//! Programs killed with -9 at random instants, while a producer goes on. Then
//! nothing is lost, nothing was held twice, and every stored step ran once.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use windlass_engine::core::id::{JobId, Kind, QueueName};
use windlass_engine::core::job::Job;
use windlass_engine::core::policy::queue::QueuePolicy;
use windlass_engine::core::state::{FailureReason, State, StateName};
use windlass_engine::core::store::Store;
use windlass_engine::world::{RealWorld, World};
use windlass_engine::{Client, JobRequest};
use windlass_testkit::eventually::eventually;

use crate::history::History;
use windlass_testkit::program::{Program, example};

/// How often each store is killed: `WINDLASS_CRASHES`, 20 when nothing is said.
pub fn crashes() -> u32 {
    std::env::var("WINDLASS_CRASHES").ok().and_then(|n| n.parse().ok()).unwrap_or(20)
}

struct Scene {
    folder: tempfile::TempDir,
    url: String,
}

impl Scene {
    fn new(url: impl FnOnce(&Path) -> String) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = url(folder.path());
        Self { folder, url }
    }

    fn log(&self) -> std::path::PathBuf {
        self.folder.path().join("log")
    }

    fn program(&self, role: &str) -> Program {
        let mut command = Command::new(example("crash_worker"));
        Program::start(command.arg(role).arg(&self.url).arg(self.log()))
    }

    fn run(&self, role: &str) {
        let status = self.program(role).wait();
        assert!(status.success(), "{role}: {status}");
    }

    /// Kills one of `roles` after another at random instants, and starts it anew.
    async fn torment(&self, roles: &[&str]) {
        let world = RealWorld::new();
        let mut programs: Vec<Program> = roles.iter().map(|role| self.program(role)).collect();
        for _ in 0..crashes() {
            let victim = fastrand::usize(..roles.len());
            world.sleep_ms(fastrand::u64(20..250)).await;
            let program = self.program(roles[victim]);
            // The newcomer waits at the door of a store for one process: first the kill.
            std::mem::replace(&mut programs[victim], program).kill();
        }
    }

    async fn torment_alone(&self, role: &str) {
        let world = RealWorld::new();
        for _ in 0..crashes() {
            let program = self.program(role);
            world.sleep_ms(fastrand::u64(30..300)).await;
            program.kill();
        }
    }

    /// Looks at what is there, after a worker has finished what was left.
    async fn judge(&self, store: Arc<dyn Store>) {
        let history = History::read(&self.log());
        assert!(history.wrong.is_empty(), "{:#?}", history.wrong);
        // A test that saw nothing proves nothing.
        assert!(
            history.acked.len() >= 20 && history.stored >= 20,
            "too little happened: {} acked, {} stored",
            history.acked.len(),
            history.stored
        );
        let mut crashed = 0;
        for id in &history.acked {
            let job = store.get(id.parse::<JobId>().unwrap()).await.unwrap();
            let job = job.unwrap_or_else(|| panic!("job {id} was accepted and is lost"));
            assert_eq!(job.state.name(), StateName::Completed, "job {id}: {:?}", job.history);
            assert_eq!(job.steps.len(), 3, "job {id}");
            crashed += job.history.iter().filter(|entry| entry.what.as_str() == "crashed").count();
        }
        println!(
            "{} kills: {} accepted, 0 lost, {} attempts, {} step runs for {} stored, {crashed} crashed attempts",
            crashes(),
            history.acked.len(),
            history.starts,
            history.runs,
            history.stored
        );
    }
}

async fn sqlite(path: &Path) -> Arc<dyn Store> {
    let options = windlass_sqlite::Options::new(Arc::new(RealWorld::new()));
    windlass_sqlite::SqliteStore::open_with(path.join("jobs.db"), options).await.unwrap()
}

/// Faults 1, 24, 34: any process dies at any instant.
#[tokio::test]
async fn crash_sqlite() {
    let scene = Scene::new(|folder| format!("sqlite:{}", folder.join("jobs.db").display()));
    scene.run("prepare");
    scene.torment(&["worker", "worker", "producer"]).await;
    scene.run("drain");
    scene.judge(sqlite(scene.folder.path()).await).await;
}

#[tokio::test]
async fn crash_json() {
    let scene = Scene::new(|folder| format!("json:{}", folder.join("jobs.json").display()));
    scene.run("prepare");
    scene.torment_alone("both").await;
    scene.run("drain");
    let options = windlass_json::Options::new(Arc::new(RealWorld::new()));
    let store = windlass_json::JsonStore::open_with(scene.folder.path().join("jobs.json"), options).await;
    scene.judge(store.unwrap()).await;
}

#[tokio::test]
async fn crash_postgres() {
    let server = windlass_testkit::postgres::Server::shared().await;
    let database = server.fresh_database().await;
    let scene = Scene::new(|_| database.url());
    scene.run("prepare");
    scene.torment(&["worker", "worker", "producer"]).await;
    scene.run("drain");
    let store =
        windlass_postgres::PostgresStore::connect_with(&scene.url, windlass_postgres::Options::default())
            .await;
    scene.judge(store.unwrap()).await;
}

/// Fault 24: a worker that is frozen past its lease, and wakes when another has
/// done its job, writes nothing.
#[tokio::test]
async fn fault_24_a_frozen_worker_writes_nothing() {
    let scene = Scene::new(|folder| format!("sqlite:{}", folder.join("jobs.db").display()));
    scene.run("prepare");
    let store = sqlite(scene.folder.path()).await;
    let id = enqueue(&store).await;
    let frozen = scene.program("slow");
    until(&store, id, "its first step is stored", |job| !job.steps.is_empty()).await;
    frozen.signal(libc::SIGSTOP);
    let other = scene.program("worker");
    let job = until(&store, id, "another has done it", |job| job.state.name() == StateName::Completed).await;
    assert!(job.fence >= 2 && job.history.iter().any(|entry| entry.what.as_str() == "crashed"));
    frozen.signal(libc::SIGCONT);
    // It wakes, finds its lease lost, and takes the next job that there is:
    // when that is done it has had every chance to write.
    other.kill();
    let next = enqueue(&store).await;
    until(&store, next, "the frozen one works again", |job| job.state.name() == StateName::Completed).await;
    assert_eq!(store.get(id).await.unwrap().unwrap(), job);
    let history = History::read(&scene.log());
    assert!(history.wrong.is_empty(), "{:#?}", history.wrong);
}

/// Fault 50: the processes of jobs die with their worker, even by kill -9, and so does all that they had started,
/// whatever group, session or environment it has.
#[tokio::test]
async fn fault_50_children_die_with_their_worker() {
    let (parent, processes, _scene) = processes().await;
    parent.kill();
    eventually("all processes are gone", async || (!processes.iter().flatten().any(alive)).then_some(()))
        .await;
}

/// When keepers and worker are killed alike, what has left its group is ended by the next start; what has also taken off
/// its mark is where control groups are delegated, as they are to whoever runs all of this as root.
#[tokio::test]
async fn fault_50_orphans_are_swept() {
    let (parent, processes, scene) = processes().await;
    parent.signal(libc::SIGSTOP);
    let keepers = parent.children();
    assert_eq!(keepers.len(), processes.len());
    for keeper in keepers {
        let killed = std::process::Command::new("kill").args(["-9", &keeper.to_string()]).status();
        assert!(killed.is_ok_and(|status| status.success()));
    }
    parent.kill();
    assert!(processes.iter().all(|[_, hidden, marked]| alive(hidden) && alive(marked)));
    scene.run("sweep");
    let all = windlass_engine::process::finds_all_orphans();
    let found =
        || processes.iter().flat_map(|[_, hidden, marked]| [all.then_some(hidden), Some(marked)]).flatten();
    eventually("those that can be found are gone", async || (!found().any(alive)).then_some(())).await;
    for [_, hidden, _] in processes.iter().filter(|_| !all) {
        let _ = std::process::Command::new("kill").args(["-9", &hidden.to_string()]).status();
    }
}

/// A worker with four jobs, and the processes of each: the program, one that has hidden, one that has left its group.
async fn processes() -> (Program, Vec<[u32; 3]>, Scene) {
    let scene = Scene::new(|folder| format!("sqlite:{}", folder.join("jobs.db").display()));
    scene.run("prepare");
    let store = sqlite(scene.folder.path()).await;
    let mut ids = Vec::new();
    for _ in 0..4 {
        ids.push(enqueue(&store).await);
    }
    let parent = scene.program("parent");
    let mut processes = Vec::new();
    for id in ids {
        let job = until(&store, id, "its process runs", |job| job.progress.is_some()).await;
        processes.push(job.progress.unwrap().read::<[u32; 3]>().unwrap());
    }
    assert!(processes.iter().flatten().all(alive));
    (parent, processes, scene)
}

fn alive(pid: &u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

/// Faults 34, 35: a job that kills its worker each time is quarantined after
/// three crashes; the job beside it is not lost.
#[tokio::test]
async fn fault_34_35_a_poison_job_is_quarantined() {
    let scene = Scene::new(|folder| format!("sqlite:{}", folder.join("jobs.db").display()));
    let store = sqlite(scene.folder.path()).await;
    let policy = QueuePolicy {
        lease_ms: 300,
        ladder: "10ms 10ms 10ms 10ms 10ms".parse().unwrap(),
        ..QueuePolicy::default()
    };
    store.put_queue(QueueName::default(), policy).await.unwrap();
    let bystander = enqueue(&store).await;
    let poison = JobRequest::new("crash", serde_json::json!({})).priority(1);
    let poison = Client::new(store.clone()).enqueue(poison).await.unwrap().id();
    for _ in 0..3 {
        let status = scene.program("poison").wait();
        assert!(!status.success());
    }
    let survivor = scene.program("worker");
    let job = until(&store, poison, "it is over", |job| job.state.name().is_final()).await;
    let State::Failed { reason, .. } = job.state else { panic!("{:?}", job.state) };
    assert_eq!((reason, job.crashes), (FailureReason::Quarantined, 3));
    let job = until(&store, bystander, "the other is done", |job| job.state.name().is_final()).await;
    assert!(matches!(
        job.state,
        State::Completed { .. } | State::Failed { reason: FailureReason::Quarantined, .. }
    ));
    survivor.kill();
}

async fn enqueue(store: &Arc<dyn Store>) -> JobId {
    let kind = Kind::new("crash").unwrap();
    let job = JobRequest::new(kind.as_str(), serde_json::json!({}));
    Client::new(store.clone()).enqueue(job.timeout(Duration::from_secs(60))).await.unwrap().id()
}

async fn until(store: &Arc<dyn Store>, id: JobId, what: &str, fits: impl Fn(&Job) -> bool) -> Job {
    eventually(what, async || store.get(id).await.unwrap().filter(|job| fits(job))).await
}
