//! Programs that are held still, in real time, since the kernel knows no other.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use windlass_engine::core::id::JobId;
use windlass_engine::core::state::StateName;
use windlass_engine::core::store::{Source, Store};
use windlass_engine::process::Command;
use windlass_engine::world::RealWorld;
use windlass_engine::{Client, JobRecord, JobRequest, Summary, Worker, WorkerError};
use windlass_testkit::eventually::eventually;
use windlass_testkit::memory::MemoryStore;

use crate::faulty::Faulty;

/// Says when it begins, and ends when a file says so; says when it was asked to end.
const SCRIPT: &str = r#"cd "$FOLDER"; echo $$ >> begun; trap 'echo asked >> asked; exit 3' TERM
    while [ ! -e finish ]; do sleep 0.02; done"#;

struct Bench {
    folder: tempfile::TempDir,
    store: Arc<MemoryStore>,
    line: Arc<Faulty>,
    stop: oneshot::Sender<()>,
    ended: JoinHandle<Result<Summary, WorkerError>>,
}

impl Bench {
    async fn new() -> (Self, JobId) {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(MemoryStore::new(Arc::new(RealWorld::new())));
        let line = Faulty::new(store.clone());
        let command = Command::new(["/bin/sh", "-c", SCRIPT]).unwrap().env("FOLDER", folder.path());
        let (stop, stopped) = oneshot::channel::<()>();
        let worker = Worker::from_source(line.clone())
            .housekeeping(false)
            .lease(Duration::from_secs(1))
            .handle_command("run", command);
        let ended = tokio::spawn(worker.run_until(async move {
            let _ = stopped.await;
        }));
        let job = JobRequest::new("run", &serde_json::Value::Null).ladder("10ms");
        let id = Client::new(store.clone()).enqueue(job).await.unwrap().id();
        (Self { folder, store, line, stop, ended }, id)
    }

    /// The lines of a file that the program writes.
    fn lines(&self, name: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.folder.path().join(name)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    async fn begun(&self) -> String {
        eventually("the program begins", async || self.lines("begun").pop()).await
    }

    async fn until_in(&self, pid: &str, states: &str) {
        let what = format!("process {pid} is in one of {states}");
        eventually(&what, async || states.contains(&state_of(pid)).then_some(())).await;
    }

    async fn job(&self, id: JobId) -> JobRecord {
        self.store.get(id).await.unwrap().unwrap()
    }

    fn finish(&self) {
        std::fs::write(self.folder.path().join("finish"), "").unwrap();
    }

    async fn completed(&self, id: JobId) -> JobRecord {
        eventually("the job is completed", async || {
            Some(self.job(id).await).filter(|job| job.state.name() == StateName::Completed)
        })
        .await
    }
}

/// The letter of a process's state; nothing when it is gone.
fn state_of(pid: &str) -> String {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid).join("stat")).unwrap_or_default();
    let rest = stat.rsplit_once(") ").map(|(_, rest)| rest).unwrap_or_default();
    rest.chars().take(1).collect()
}

/// A program whose worker cannot renew is stopped, and goes on when the store is back: it is started once.
#[tokio::test]
async fn a_program_is_stopped_and_goes_on() {
    let (bench, id) = Bench::new().await;
    let pid = bench.begun().await;
    bench.line.cut_off.store(true, Ordering::SeqCst);
    bench.until_in(&pid, "T").await;
    bench.finish();
    // Past the end of its lease, and it does not see the file.
    let end = bench.job(id).await.lease().unwrap().expires_at;
    eventually("the lease has ended", async || (bench.store.now().await.unwrap() > end).then_some(())).await;
    assert_eq!(state_of(&pid), "T");
    bench.line.cut_off.store(false, Ordering::SeqCst);
    let job = bench.completed(id).await;
    assert_eq!((job.attempt, job.crashes, bench.lines("begun").len()), (1, 0, 1));
    assert!(bench.lines("asked").is_empty());
    let _ = bench.stop.send(());
    let summary = bench.ended.await.unwrap().unwrap();
    assert_eq!((summary.settled, summary.lost), (1, 0));
}

/// A program that stands still and has lost its job is asked to end, and hears it: SIGTERM with SIGCONT.
#[tokio::test]
async fn a_program_that_stands_still_and_is_lost_ends() {
    let (bench, id) = Bench::new().await;
    let pid = bench.begun().await;
    bench.line.cut_off.store(true, Ordering::SeqCst);
    bench.until_in(&pid, "T").await;
    eventually("the job is taken back", async || {
        let looked = bench.store.expire().await.unwrap();
        (!looked.jobs.is_empty()).then_some(())
    })
    .await;
    assert_eq!(state_of(&pid), "T", "it does nothing while another may have the job");
    bench.line.cut_off.store(false, Ordering::SeqCst);
    bench.until_in(&pid, "").await;
    assert_eq!(bench.lines("asked"), ["asked"]);
    bench.finish();
    let job = bench.completed(id).await;
    // A claim that was first asked while the line was cut may have come too late, and was given back.
    assert_eq!((job.attempt, job.crashes), (2, 1));
    let _ = bench.stop.send(());
    assert_eq!(bench.ended.await.unwrap().unwrap().lost, 1);
}
