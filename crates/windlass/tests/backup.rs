//! Backups that are made while a store is worked on, put back in its place, and gone on with. What is repeated is what the
//! guide says (`docs/guide/stores.md`). Those of Postgres are in `rounds`.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use windlass::core::store::Store;
use windlass::{Client, Context, Failure, Job, JobId, JobRequest, QueueName, QueuePolicy, StateName, Worker};
use windlass_testkit::eventually::eventually;
use windlass_testkit::program::Program;

/// After a restore nothing waits for longer than the longest lease.
const LEASE: Duration = Duration::from_secs(1);
const JOBS: usize = 40;

#[derive(serde::Serialize, serde::Deserialize)]
struct Work {
    /// Ends only after the backup.
    long: bool,
}

impl Job for Work {
    const KIND: &'static str = "work";
    type Output = ();
}

/// A folder with a store in it, and what the world outside knows of its jobs.
struct Place {
    folder: tempfile::TempDir,
    kind: &'static str,
    /// Every attempt that began, with its fence.
    begun: Arc<Mutex<Vec<(JobId, u64)>>>,
    /// The backup is made.
    made: watch::Sender<bool>,
    /// What was accepted after it.
    lost: Mutex<Vec<JobId>>,
}

impl Place {
    fn new(kind: &'static str) -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            kind,
            begun: Arc::default(),
            made: watch::Sender::new(false),
            lost: Mutex::default(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn file(&self) -> PathBuf {
        self.path("store")
    }

    async fn open(&self) -> Arc<dyn Store> {
        let url = format!("{}:{}", self.kind, self.file().display());
        let store = windlass::open(&url).await.unwrap();
        let policy = QueuePolicy { lease_ms: LEASE.as_millis() as u32, ..QueuePolicy::default() };
        store.put_queue(QueueName::default(), policy).await.unwrap();
        store
    }

    fn worker(&self, store: &Arc<dyn Store>) -> Worker {
        let (begun, made) = (self.begun.clone(), self.made.subscribe());
        let work = move |work: Work, ctx: Context| {
            begun.lock().unwrap().push((ctx.id(), ctx.fence()));
            let mut made = made.clone();
            async move {
                made.wait_for(|made| *made || !work.long).await?;
                Ok::<(), Failure>(())
            }
        };
        Worker::new(store.clone()).lease(LEASE).slots(2).handle(work)
    }

    /// Works on jobs, makes a backup when some of them are done, and works on. Answers which were accepted before it.
    async fn work(&self, backup: impl AsyncFn(&[JobId])) -> Vec<JobId> {
        let store = self.open().await;
        let (stop, stopped) = oneshot::channel::<()>();
        let worker = tokio::spawn(self.worker(&store).run_until(async { drop(stopped.await) }));
        let client = Client::new(store.clone());
        let accepted = enqueue(&client).await;
        let begun = || self.begun.lock().unwrap().len();
        eventually("some have begun", async || (begun() >= JOBS / 4).then_some(())).await;
        backup(&accepted).await;
        self.made.send_replace(true);
        let lost = enqueue(&client).await;
        *self.lost.lock().unwrap() = lost;
        eventually("all have begun", async || (begun() >= 2 * JOBS).then_some(())).await;
        let _ = stop.send(());
        worker.await.unwrap().unwrap();
        accepted
    }

    /// Puts a backup in the place of the store: the mark stays, the log of the file of before goes.
    fn put_back(&self, backup: &Path) {
        for beside in ["store-wal", "store-shm"] {
            drop(std::fs::remove_file(self.path(beside)));
        }
        std::fs::copy(backup, self.path("moved")).unwrap();
        std::fs::rename(self.path("moved"), self.file()).unwrap();
    }

    /// Opens what was put back and goes on with it: all of before the backup is there and is done, with other fences.
    async fn goes_on(&self, accepted: &[JobId]) {
        let store = self.open().await;
        let epoch = store.epoch().await.unwrap().epoch;
        assert!(epoch.number == 2 && epoch.lossy, "{epoch:?}");
        let lost = self.lost.lock().unwrap().clone();
        for id in &lost {
            assert!(store.get(*id).await.unwrap().is_none(), "it was accepted after the backup");
        }
        let before: HashSet<(JobId, u64)> = self.begun.lock().unwrap().drain(..).collect();
        let fresh = enqueue(&Client::new(store.clone())).await;
        let (stop, stopped) = oneshot::channel::<()>();
        let worker = tokio::spawn(self.worker(&store).run_until(async { drop(stopped.await) }));
        for id in accepted.iter().chain(&fresh) {
            eventually("it is done", async || {
                let job = store.get(*id).await.unwrap().expect("it was accepted before the backup");
                (job.state.name() == StateName::Completed).then_some(())
            })
            .await;
        }
        let _ = stop.send(());
        worker.await.unwrap().unwrap();
        let after = self.begun.lock().unwrap().clone();
        assert!(after.iter().all(|attempt| !before.contains(attempt)), "a fence was given twice");
        assert!(after.iter().all(|(_, fence)| *fence >= epoch.floor));
        let repeated = after.iter().filter(|(id, _)| before.iter().any(|(other, _)| other == id)).count();
        assert!(repeated > 0, "what ended after the backup is done again");
        assert_eq!(store.audit().await.unwrap(), Vec::<String>::new());
    }
}

async fn enqueue(client: &Client) -> Vec<JobId> {
    let mut ids = Vec::new();
    for n in 0..JOBS {
        let job = JobRequest::of(&Work { long: n == 0 });
        ids.push(client.enqueue(job).await.unwrap().id());
    }
    ids
}

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// `.backup` of SQLite's own command line, and `VACUUM INTO`.
#[tokio::test(flavor = "multi_thread")]
async fn sqlite_by_its_own_backup() {
    for line in [".backup", "VACUUM INTO"] {
        let place = Place::new("sqlite");
        let copy = place.path("backup.db");
        let accepted = place.work(async |_| {
            let mut sqlite = Command::new("sqlite3");
            run(sqlite.arg(place.file()).arg(format!("{line} '{}'", copy.display())));
        });
        let accepted = accepted.await;
        place.put_back(&copy);
        place.goes_on(&accepted).await;
    }
}

/// Litestream, which copies the log while it grows.
#[tokio::test(flavor = "multi_thread")]
async fn sqlite_by_litestream() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../stores/sqlite/tests/litestream");
    let output = Command::new(script).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let litestream = String::from_utf8(output.stdout).unwrap().trim().to_owned();
    let place = Place::new("sqlite");
    let (replica, restored) =
        (format!("file://{}", place.path("replica").display()), place.path("restored.db"));
    let accepted = place.work(async |accepted| {
        let log = || std::fs::File::create(place.path("litestream.log")).unwrap();
        let mut replicate = Command::new(&litestream);
        replicate.arg("replicate").arg(place.file()).arg(&replica).stdout(log()).stderr(log());
        let program = Program::start(&mut replicate);
        eventually("the copy has all that was accepted", async || {
            drop(std::fs::remove_file(&restored));
            let mut restore = Command::new(&litestream);
            restore.arg("restore").arg("-o").arg(&restored).arg(&replica);
            restore.output().ok().filter(|output| output.status.success())?;
            let copy = windlass::sqlite::rusqlite::Connection::open(&restored).ok()?;
            let jobs: isize = copy.query_row("SELECT count(*) FROM jobs", [], |row| row.get(0)).ok()?;
            (jobs >= accepted.len() as isize).then_some(())
        })
        .await;
        program.kill();
    });
    let accepted = accepted.await;
    place.put_back(&restored);
    place.goes_on(&accepted).await;
}

/// A copy of the JSON file, at any time.
#[tokio::test(flavor = "multi_thread")]
async fn json_by_a_copy() {
    let place = Place::new("json");
    let copy = place.path("backup.json");
    let accepted = place.work(async |_| assert!(std::fs::copy(place.file(), &copy).is_ok())).await;
    place.put_back(&copy);
    place.goes_on(&accepted).await;
}
