//! Child processes, in real time, since the kernel knows no other.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use windlass_engine::JobRecord;
use windlass_engine::core::id::JobId;
use windlass_engine::core::state::{State, StateName};
use windlass_engine::core::store::Store;
use windlass_engine::process::{Command, Limits};
use windlass_engine::world::RealWorld;
use windlass_engine::{Client, JobRequest, Summary, Worker, WorkerError};
use windlass_testkit::eventually::eventually;
use windlass_testkit::memory::MemoryStore;

struct Bench {
    store: Arc<MemoryStore>,
    client: Client,
    stop: oneshot::Sender<()>,
    ended: JoinHandle<Result<Summary, WorkerError>>,
}

impl Bench {
    /// A worker that runs jobs of the kind `run` with a shell script.
    fn with(script: &str) -> Self {
        Self::with_command(shell(script), Duration::from_millis(400))
    }

    fn with_command(command: Command, grace: Duration) -> Self {
        Self::with_worker(|worker| worker.grace(grace).slots(8).handle_command("run", command))
    }

    fn with_worker(dress: impl FnOnce(Worker) -> Worker) -> Self {
        let store = Arc::new(MemoryStore::new(Arc::new(RealWorld::new())));
        let (stop, stopped) = oneshot::channel::<()>();
        let worker = dress(Worker::new(store.clone()));
        let ended = tokio::spawn(worker.run_until(async move {
            let _ = stopped.await;
        }));
        Self { client: Client::new(store.clone()), store, stop, ended }
    }

    async fn enqueue(&self, payload: &serde_json::Value) -> JobId {
        let job = JobRequest::new("run", payload).ladder("10ms");
        self.client.enqueue(job).await.unwrap().id()
    }

    async fn until(&self, id: JobId, what: &str, fits: impl Fn(&JobRecord) -> bool) -> JobRecord {
        eventually(what, async || self.store.get(id).await.unwrap().filter(|job| fits(job))).await
    }

    async fn ended(&self, id: JobId) -> JobRecord {
        self.until(id, "the job is over", |job| job.state.name().is_final()).await
    }

    async fn run(&self, payload: serde_json::Value) -> JobRecord {
        let id = self.enqueue(&payload).await;
        self.ended(id).await
    }

    async fn stop(self) -> Summary {
        let _ = self.stop.send(());
        self.ended.await.unwrap().unwrap()
    }
}

fn shell(script: &str) -> Command {
    Command::new(["/bin/sh", "-c", script]).unwrap()
}

fn result(job: &JobRecord) -> String {
    match &job.state {
        State::Completed { result: Some(result), .. } => result.as_str().to_owned(),
        other => panic!("{:?}: {other:?}, {:?}", job.state.name(), job.last_error()),
    }
}

fn alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    // A zombie that nobody has reaped yet runs no more, but must not stay.
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}

fn zombies() -> usize {
    let me = format!("PPid:\t{}", std::process::id());
    let folders = std::fs::read_dir("/proc").unwrap().flatten();
    let statuses = folders.filter_map(|folder| std::fs::read_to_string(folder.path().join("status")).ok());
    statuses.filter(|status| status.contains("State:\tZ") && status.lines().any(|line| line == me)).count()
}

/// Payload on stdin, who it is in the environment, words on stdout.
#[tokio::test]
async fn a_program_gets_its_job_and_speaks() {
    let bench = Bench::with(
        r#"read payload
        echo "some ordinary output"
        echo "::windlass {\"progress\": {\"of\": 2}}"
        echo "::windlass {\"step\": {\"name\": \"one\", \"output\": 1}}"
        echo "::windlass {\"result\": {\"payload\": $payload, \"kind\": \"$WINDLASS_KIND\", \"fence\": $WINDLASS_FENCE, \"attempt\": $WINDLASS_ATTEMPT}}""#,
    );
    let job = bench.run(serde_json::json!({"a": 1})).await;
    assert_eq!(result(&job), r#"{"payload":{"a":1},"kind":"run","fence":1,"attempt":1}"#);
    assert_eq!(job.progress.unwrap().as_str(), r#"{"of":2}"#);
    assert_eq!(job.steps[0].output.as_str(), "1");
    bench.stop().await;
}

/// Exit codes: 0 completed, 65 failed for good, others try again; the end of stderr is kept.
#[tokio::test]
async fn exit_codes_and_stderr() {
    let bench = Bench::with(
        r#"read code; echo "line one" >&2; echo "the reason" >&2
        [ -n "$WINDLASS_STEPS" ] && cat "$WINDLASS_STEPS" >&2
        echo '::windlass {"step": {"name": "kept", "output": "yes"}}'
        [ "$code" = 15 ] && kill -9 $$
        exit $code"#,
    );
    for (code, state, attempts, error) in [
        (0, StateName::Completed, 1, None),
        (65, StateName::Failed, 1, Some("exit status: 65: line one\nthe reason")),
        (7, StateName::Failed, 2, Some("exit status: 7: line one\nthe reason\n{\"kept\":\"yes\"}")),
        (15, StateName::Failed, 2, Some("signal: 9 (SIGKILL): line one\nthe reason\n{\"kept\":\"yes\"}")),
    ] {
        let job = bench.run(serde_json::json!(code)).await;
        assert_eq!((job.state.name(), job.attempt, job.last_error()), (state, attempts, error), "{code}");
    }
    bench.stop().await;
}

/// Only what is allowed of the worker's environment reaches the program, and
/// no descriptor beside the three.
#[tokio::test]
async fn the_environment_is_clean() {
    // Something of our own environment that nobody allowed: cargo sets it.
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    let command = shell(
        r#"n=0; i=3; while [ $i -lt 64 ]; do [ -e /proc/$$/fd/$i ] && n=$((n+1)); i=$((i+1)); done
        echo "::windlass {\"result\": [\"${CARGO_MANIFEST_DIR:-none}\", \"$ONE\", $n]}""#,
    );
    let bench = Bench::with_command(command.env("ONE", "1"), Duration::from_secs(1));
    let job = bench.run(serde_json::Value::Null).await;
    assert_eq!(result(&job), r#"["none","1",0]"#);
    assert!(std::fs::read_dir("/proc/self/fd").unwrap().count() > 8, "the worker itself has many more");
    bench.stop().await;
}

/// Cancel asks by SIGTERM; a program that listens ends as it likes.
#[tokio::test]
async fn cancel_is_sigterm_to_the_group() {
    let bench = Bench::with(
        r#"trap 'echo "::windlass {\"progress\": \"asked\"}"; exit 3' TERM; echo '::windlass {"progress": "ready"}'; while :; do sleep 0.02; done"#,
    );
    let id = bench.enqueue(&serde_json::Value::Null).await;
    bench.until(id, "it is ready", |job| job.progress.is_some()).await;
    bench.client.cancel(id).await.unwrap();
    let job = bench.ended(id).await;
    assert_eq!((job.state.name(), job.progress.unwrap().as_str()), (StateName::Canceled, r#""asked""#));
    bench.stop().await;
}

/// Faults 48, 49: a program that ignores SIGTERM is killed when its grace is
/// over, with all that it started, also what left its group.
#[tokio::test]
async fn fault_48_49_deaf_programs_and_their_grandchildren_are_killed() {
    let bench = Bench::with(
        r#"trap '' TERM
        sleep 1000 & one=$!
        setsid env -i sleep 1000 & two=$!
        ( setsid sh -c 'trap "" TERM; sleep 1000 & echo $! > "$1"; wait' x "$FILE" ) &
        while [ ! -s "$FILE" ]; do sleep 0.01; done
        echo "::windlass {\"progress\": [$$, $one, $two, $(cat "$FILE")]}"
        wait; wait; wait; while :; do sleep 1; done"#
            .replace("$FILE", &format!("/tmp/windlass-test-{}", std::process::id()))
            .as_str(),
    );
    let id = bench.enqueue(&serde_json::Value::Null).await;
    let job = bench.until(id, "it is ready", |job| job.progress.is_some()).await;
    let pids: Vec<u32> = job.progress.unwrap().read().unwrap();
    assert!(pids.iter().all(|pid| alive(*pid)), "{pids:?}");
    bench.client.cancel(id).await.unwrap();
    let job = bench.ended(id).await;
    assert_eq!(job.state.name(), StateName::Canceled);
    eventually("all processes are gone", async || (!pids.iter().any(|pid| alive(*pid))).then_some(())).await;
    let asked = job.history.iter().find(|entry| entry.what.as_str() == "cancel_requested").unwrap().at;
    let took = job.state.ended_at().unwrap().ms_since(asked);
    assert!((400..2_000).contains(&took), "grace of 400 ms took {took} ms");
    bench.stop().await;
    let _ = std::fs::remove_file(format!("/tmp/windlass-test-{}", std::process::id()));
    eventually("no zombie is left", async || (zombies() == 0).then_some(())).await;
}

/// The grace is the worker's, whether it is said before the program or after it: without it, it would be ten seconds.
#[tokio::test]
async fn grace_in_either_order() {
    const GRACE: Duration = Duration::from_millis(300);
    let deaf = || shell(r#"trap '' TERM; echo '::windlass {"progress": 1}'; while :; do sleep 0.1; done"#);
    let orders: [fn(Worker, Command) -> Worker; 2] = [
        |worker, deaf| worker.grace(GRACE).handle_command("run", deaf),
        |worker, deaf| worker.handle_command("run", deaf).grace(GRACE),
    ];
    for order in orders {
        let bench = Bench::with_worker(|worker| order(worker, deaf()));
        let id = bench.enqueue(&serde_json::Value::Null).await;
        bench.until(id, "it runs", |job| job.progress.is_some()).await;
        bench.client.cancel(id).await.unwrap();
        let job = bench.ended(id).await;
        let asked = job.history.iter().find(|entry| entry.what.as_str() == "cancel_requested").unwrap().at;
        let took = job.state.ended_at().unwrap().ms_since(asked);
        assert!((300..5_000).contains(&took), "a grace of 300 ms took {took} ms");
        bench.stop().await;
    }
}

/// What a program leaves running when it ends by itself ends with it.
#[tokio::test]
async fn nothing_outlives_its_attempt() {
    let bench =
        Bench::with(r#"setsid env -i sh -c 'setsid sleep 1000 & wait' & echo "::windlass {\"result\": $!}""#);
    let job = bench.run(serde_json::Value::Null).await;
    let pid: u32 = result(&job).parse().unwrap();
    eventually("it is gone", async || (!alive(pid)).then_some(())).await;
    bench.stop().await;
}

/// A program that somebody beside the worker's attempts has started, in a group of its own.
fn stranger() -> std::process::Child {
    use std::os::unix::process::CommandExt;
    std::process::Command::new("sleep").arg("1000").process_group(0).spawn().unwrap()
}

/// A deaf program is killed, and with it nothing that is not its own.
#[tokio::test]
async fn a_program_that_is_killed_takes_nobody_along() {
    let bench =
        Bench::with(r#"trap '' TERM; echo '::windlass {"progress": 1}'; while :; do sleep 0.02; done"#);
    let id = bench.enqueue(&serde_json::Value::Null).await;
    bench.until(id, "it runs", |job| job.progress.is_some()).await;
    let mut stranger = stranger();
    bench.client.cancel(id).await.unwrap();
    assert_eq!(bench.ended(id).await.state.name(), StateName::Canceled);
    bench.stop().await;
    assert!(stranger.try_wait().unwrap().is_none(), "it was killed with it");
    stranger.kill().unwrap();
    stranger.wait().unwrap();
}

/// Whoever kills its keeper leaves its descendants to the worker, which ends them all the same; what else is under way goes on.
#[tokio::test]
async fn who_kills_its_keeper_leaves_nothing() {
    // Older than the attempt by more than the hundredth of a second in which the kernel counts.
    let mut stranger = stranger();
    let bench = Bench::with(
        r#"read kills
        [ "$kills" = true ] || { sleep 0.05; echo '::windlass {"progress": []}'; while [ ! -e "$DONE" ]; do sleep 0.02; done; exit 0; }
        setsid env -i sleep 1000 & one=$!
        env -i sleep 1000 & two=$!
        echo "::windlass {\"progress\": [$one, $two]}"
        sleep 0.2; kill -9 $PPID; sleep 1000"#
            .replace("$DONE", &format!("/tmp/windlass-test-done-{}", std::process::id()))
            .as_str(),
    );
    let beside = bench.enqueue(&serde_json::json!(false)).await;
    bench.until(beside, "another runs", |job| job.progress.is_some()).await;
    let id = bench.enqueue(&serde_json::json!(true)).await;
    let job = bench.until(id, "it is ready", |job| job.progress.is_some()).await;
    let pids: Vec<u32> = job.progress.unwrap().read().unwrap();
    assert_eq!(pids.len(), 2);
    bench.ended(id).await;
    assert!(!pids.iter().any(|pid| std::path::Path::new(&format!("/proc/{pid}")).exists()), "nor as zombies");
    std::fs::write(format!("/tmp/windlass-test-done-{}", std::process::id()), "").unwrap();
    assert_eq!(bench.ended(beside).await.attempt, 1);
    bench.stop().await;
    assert!(stranger.try_wait().unwrap().is_none(), "it was there before");
    stranger.kill().unwrap();
    stranger.wait().unwrap();
    let _ = std::fs::remove_file(format!("/tmp/windlass-test-done-{}", std::process::id()));
    eventually("no zombie is left", async || (zombies() == 0).then_some(())).await;
}

/// Fault 51: many short programs leave no zombie and lose no result.
#[tokio::test]
async fn fault_51_no_zombies() {
    let bench = Bench::with(r#"read n; echo "::windlass {\"result\": $n}""#);
    let mut ids = Vec::new();
    for n in 0..300 {
        ids.push((n, bench.enqueue(&serde_json::json!(n)).await));
    }
    for (n, id) in ids {
        assert_eq!(result(&bench.ended(id).await), n.to_string());
    }
    bench.stop().await;
    eventually("no zombie is left", async || (zombies() == 0).then_some(())).await;
}

/// Fault 52: a program that floods its output is read to the end in bounded
/// memory, and one whose pipe stays open does not hold up the attempt.
#[tokio::test]
async fn fault_52_floods_and_open_pipes() {
    let bench = Bench::with(
        r#"head -c 30000000 /dev/zero; head -c 30000000 /dev/zero >&2; echo; echo '::windlass {"result": "done"}'"#,
    );
    assert_eq!(result(&bench.run(serde_json::Value::Null).await), r#""done""#);
    bench.stop().await;
    // Whatever it did to hide, it holds the pipe open for no longer than the program lives.
    let bench = Bench::with(r#"setsid env -i sleep 1000 & echo '::windlass {"result": "left"}'; exit 0"#);
    assert_eq!(result(&bench.run(serde_json::Value::Null).await), r#""left""#);
    bench.stop().await;
}

#[tokio::test]
async fn limits_hold() {
    let limits = Limits { open_files: Some(16), file_bytes: Some(1_000), ..Limits::default() };
    let command = shell(
        r#"n=$(ulimit -n); f=$(ulimit -f); c=$(ulimit -c); echo "::windlass {\"result\": [$n, $f, $c]}""#,
    );
    let bench = Bench::with_command(command.limits(limits), Duration::from_secs(1));
    assert_eq!(result(&bench.run(serde_json::Value::Null).await), "[16,1,0]");
    bench.stop().await;
}

#[tokio::test]
async fn a_program_that_is_not_there_is_a_clear_error() {
    let bench = Bench::with_command(Command::new(["/nowhere/to/be/found"]).unwrap(), Duration::from_secs(1));
    let job = bench.run(serde_json::Value::Null).await;
    let error = job.last_error().unwrap();
    assert!(error.starts_with("cannot start /nowhere/to/be/found: No such file"), "{error}");
    bench.stop().await;
    assert!(Command::new(Vec::<String>::new()).is_err());
}
