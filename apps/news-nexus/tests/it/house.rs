//! A folder with everything that the server needs, and the server in it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};

use serde_json::{Value, json};
use windlass_standins::{GoogleRss, OpenAi, xlsx};
use windlass_testkit::eventually::eventually;

use crate::ask::{Reply, ask};
use crate::tables::Tables;

pub const RSS: &str = "/request-google-rss/start-job";
pub const SCORER: &str = "/semantic-scorer/start-job";
pub const STATES: &str = "/state-assigner/start-job";

/// The head of the workbook with the searches.
pub const HEAD: [&str; 6] =
    ["id", "and_keywords", "and_exact_phrases", "or_keywords", "or_exact_phrases", "time_range"];

/// The folder, the stand-ins and the settings.
pub struct House {
    pub folder: tempfile::TempDir,
    pub google: GoogleRss,
    pub openai: OpenAi,
    pub env: BTreeMap<&'static str, String>,
}

impl House {
    /// A house in order: one search, one keyword, a database with its seed rows.
    pub async fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (google, openai) = (GoogleRss::start().await, OpenAi::start().await);
        let text = |text: &str| text.to_owned();
        let env = BTreeMap::from([
            ("PATH_AND_FILENAME_FOR_QUERY_SPREADSHEET_AUTOMATED", text("queries.xlsx")),
            ("PATH_TO_SEMANTIC_SCORER_DIR", text("scorer")),
            ("PATH_TO_LOGS", text("logs")),
            ("NODE_ENV", text("testing")),
            ("KEY_OPEN_AI", openai.key()),
            ("PATH_TO_SAVE_CHATGPT_RESPONSES", text("responses")),
            ("NAME_APP", text("WorkerNode")),
            ("NAME_DB", text("news.db")),
            ("PATH_DATABASE", text("db")),
            ("PORT", text("0")),
            ("GOOGLE_RSS_URL", google.url()),
            ("OPENAI_BASE_URL", openai.url()),
            ("MILISECONDS_IN_BETWEEN_REQUESTS", text("0")),
        ]);
        let house = Self { folder, google, openai, env };
        house.searches(&[["1", "fire", "", "", "", ""]]);
        std::fs::create_dir_all(house.path("scorer")).expect("a folder");
        house.write("scorer/NewsNexusSemanticScorerKeywords.xlsx", &xlsx::rows(&[["Keyword"], ["fire"]]));
        house.tables().seed();
        house
    }

    pub fn with(mut self, name: &'static str, value: &str) -> Self {
        self.env.insert(name, value.to_owned());
        self
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn write(&self, name: &str, bytes: &[u8]) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, bytes).expect("a file");
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// The workbook with these searches below its head.
    pub fn searches(&self, rows: &[[&str; 6]]) {
        let all: Vec<[&str; 6]> = [HEAD].into_iter().chain(rows.iter().copied()).collect();
        self.write("queries.xlsx", &xlsx::rows(&all));
    }

    pub fn tables(&self) -> Tables {
        Tables::open(&self.path("db/news.db"))
    }

    pub fn queue_file(&self) -> Value {
        serde_json::from_str(&self.read("runtime/queue-jobs.json")).expect("the queue file is JSON")
    }

    pub fn command(&self) -> Command {
        let mut command = Command::new(windlass_testkit::binary::windlass());
        command.arg("news-nexus").current_dir(self.folder.path()).env_clear().envs(&self.env);
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).stdin(Stdio::null());
        command
    }

    /// Runs it to its end: for starts that must fail.
    pub fn refused(&self) -> (ExitStatus, String) {
        let output = self.command().output().expect("the program starts");
        (output.status, String::from_utf8_lossy(&output.stderr).into_owned())
    }

    /// Starts it and waits until it serves.
    pub async fn start(&self) -> Running<'_> {
        self.start_in("").await
    }

    /// As [`Self::start`], in a folder of the house.
    pub async fn start_in(&self, folder: &str) -> Running<'_> {
        let file = |name: &str| std::fs::File::create(self.path(name)).expect("a file");
        let (out, errors) = (file("stdout.txt"), file("stderr.txt"));
        let mut command = self.command();
        command.current_dir(self.path(folder));
        let child = command.stdout(out).stderr(errors).spawn().expect("the program starts");
        let mut running = Running { house: self, child, addr: ([127, 0, 0, 1], 0).into() };
        running.addr = eventually("the server says where it is", async || {
            let text = self.read("stdout.txt");
            let addr = text.split("http://").nth(1)?.split_whitespace().next()?;
            addr.parse().ok()
        })
        .await;
        running
    }
}

/// The server. It is killed when the test is over.
pub struct Running<'a> {
    pub house: &'a House,
    child: Child,
    pub addr: SocketAddr,
}

impl Running<'_> {
    pub async fn get(&self, path: &str) -> Reply {
        ask(self.addr, "GET", path, "", "").await
    }

    pub async fn post(&self, path: &str, body: &str) -> Reply {
        ask(self.addr, "POST", path, "content-type: application/json\r\n", body).await
    }

    /// Starts a job; answers its id.
    pub async fn job(&self, path: &str, body: &str) -> String {
        let reply = self.post(path, body).await;
        assert_eq!(reply.status, 202, "{reply:?}");
        assert_eq!((&reply.body["status"], &reply.body["endpointName"]), (&json!("queued"), &json!(path)));
        reply.body["jobId"].as_str().expect("an id").to_owned()
    }

    /// The record of a job with parameters and result.
    pub async fn status(&self, id: &str) -> Value {
        let reply = self.get(&format!("/queue-info/check-status/{id}")).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.body["job"].clone()
    }

    /// Waits until a job is in a state.
    pub async fn until(&self, id: &str, state: &str) -> Value {
        let what = format!("job {id} is {state}");
        let found = eventually(&what, async || {
            let job = self.status(id).await;
            let over = matches!(job["status"].as_str(), Some("completed" | "failed" | "canceled"));
            (over || job["status"] == state).then_some(job)
        });
        let found = found.await;
        assert_eq!(found["status"], state, "{found}\n{}", self.house.read("stderr.txt"));
        found
    }

    /// Starts a job and waits for its end.
    pub async fn run(&self, path: &str, body: &str, state: &str) -> Value {
        let id = self.job(path, body).await;
        self.until(&id, state).await
    }

    pub async fn cancel(&self, id: &str) -> Reply {
        self.post(&format!("/queue-info/cancel_job/{id}"), "").await
    }

    /// The process of the job that runs: the only child of the server's only child, its keeper, once it runs
    /// its own program. Before that it may be without its group still, and who
    /// stops it then stops the server too, which waits for the program to start.
    pub async fn job_process(&self) -> i32 {
        let of_server = program_of(self.child.id());
        eventually("the job has a process", async || {
            let pid = child_of(child_of(self.child.id())?)?;
            let own = program_of(pid);
            (!own.is_empty() && own != of_server).then_some(pid.cast_signed())
        })
        .await
    }

    pub fn signal(&self, signal: i32) {
        kill(i32::try_from(self.child.id()).expect("a process number fits"), signal);
    }

    /// Ends it as an operator does.
    pub fn stop(mut self) -> ExitStatus {
        self.signal(libc::SIGTERM);
        self.child.wait().expect("a child of ours")
    }

    /// kill -9.
    pub fn kill(mut self) {
        self.child.kill().expect("a child of ours");
        self.child.wait().expect("a child of ours");
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a signal.
pub fn kill(pid: i32, signal: i32) {
    // SAFETY: the number is that of a process which this test or its server started.
    let sent = unsafe { libc::kill(pid, signal) };
    assert_eq!(sent, 0, "cannot signal {pid}");
}

/// The first process that another has started.
fn child_of(pid: u32) -> Option<u32> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let lists =
        threads.flatten().filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    let all: String = lists.collect();
    all.split_whitespace().next()?.parse().ok()
}

/// With what a process was started; nothing of one that is gone.
fn program_of(pid: u32) -> Vec<u8> {
    std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default()
}

/// Whether a process is there and no zombie.
pub fn lives(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['Z', 'X']))
}
