//! A database, the providers, and the program between them: what `cargo build --release` makes. Only tests that step
//! a clock of their own run the worker in their own process (`inside.rs`).

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use serde_json::Value;
use tokio_postgres::{Client, NoTls};
use windlass_standins::{OpenAi, Twilio};
use windlass_testkit::eventually::{answered, eventually};
use windlass_testkit::postgres::{Database, Server};
use windlass_testkit::program::Program;

/// Messages that are not over.
pub const OPEN: &str = "SELECT count(*) FROM whatsapp_inbound_messages WHERE processing_status IN ('READY', 'RETRY', 'PROCESSING')";

pub struct Scene {
    pub database: Database,
    pub client: Client,
    pub twilio: Twilio,
    pub openai: OpenAi,
    pub folder: tempfile::TempDir,
    pub env: HashMap<String, String>,
}

impl Scene {
    /// A migrated database without messages.
    pub async fn new() -> Self {
        let scene = Self::bare().await;
        scene.migrate().await;
        scene
    }

    /// An empty database.
    pub async fn bare() -> Self {
        Self::on(Server::shared().await).await
    }

    /// An empty database of this server.
    pub async fn on(server: Arc<Server>) -> Self {
        let database = server.fresh_database().await;
        let client = connect(&database.url()).await;
        let (twilio, openai) = (Twilio::start().await, OpenAi::start().await);
        let folder = tempfile::tempdir().unwrap();
        let origins = format!("{},{}", twilio.cdn.url(), twilio.url());
        let pairs = [
            ("DATABASE_URL", database.url()),
            ("OPENAI_API_KEY", openai.key()),
            ("OPENAI_BASE_URL", openai.url()),
            ("TWILIO_ACCOUNT_SID", twilio.account()),
            ("TWILIO_AUTH_TOKEN", twilio.token()),
            ("TWILIO_BASE_URL", twilio.url()),
            ("WORKER_ALLOW_ORIGINS", origins),
            ("AUDIO_STORE_URL", format!("file://{}", folder.path().join("audio").display())),
            ("WORKER_POLL_INTERVAL_MS", "50".to_owned()),
            // A lock that ran out is taken back in two looks, a third of this apart.
            ("WORKER_LOCK_DURATION_MINUTES", "0.1".to_owned()),
            ("WORKER_ID", "worker_1".to_owned()),
        ];
        let env = pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        Self { database, client, twilio, openai, folder, env }
    }

    pub fn set(&mut self, name: &str, value: &str) {
        self.env.insert(name.to_owned(), value.to_owned());
    }

    /// Who comes to the database from now on, if not the owner of the tables.
    pub fn log_in_as(&mut self, role: &str) {
        let mut url = url::Url::parse(&self.database.url()).unwrap();
        url.set_username(role).unwrap();
        self.set("DATABASE_URL", url.as_str());
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(windlass_testkit::binary::windlass());
        command.arg("nurse-tour").args(args).env_clear().envs(&self.env);
        command
    }

    /// Runs a verb to its end, off the runtime that the stand-ins run on.
    pub async fn run(&self, args: &[&str]) -> Output {
        let mut command = self.command(args);
        tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
    }

    /// What a verb says with `--json`, a value for each line. It must end well.
    pub async fn told(&self, args: &[&str]) -> Vec<Value> {
        let output = self.run(&[args, &["--json"]].concat()).await;
        assert!(output.status.success(), "{args:?}: {output:?}");
        values(&output)
    }

    /// Adds what the database lacks, and answers what that was.
    pub async fn migrate(&self) -> Vec<String> {
        texts(&self.told(&["migrate"]).await[0]["added"])
    }

    /// What is missing, and what is wrong with what is there.
    pub async fn check(&self) -> (Vec<String>, Vec<String>) {
        let output = self.run(&["check", "--json"]).await;
        let found = values(&output);
        assert_eq!(output.status.code(), Some(i32::from(!found.is_empty())), "{output:?}");
        let all = |word: &str| found.iter().filter_map(|one| Some(one[word].as_str()?.to_owned())).collect();
        (all("missing"), all("wrong"))
    }

    /// Lets claiming go on, and answers what was lifted.
    pub async fn resume(&self) -> Vec<String> {
        texts(&self.told(&["resume"]).await[0]["lifted"])
    }

    pub async fn status(&self) -> Value {
        self.told(&["status"]).await.remove(0)
    }

    pub fn log(&self, name: &str) -> PathBuf {
        self.folder.path().join(format!("{name}.log"))
    }

    /// What a program has said so far.
    pub fn said(&self, name: &str) -> String {
        std::fs::read_to_string(self.log(name)).unwrap_or_default()
    }

    /// Starts a worker, or the webhook, that writes all it says into a file.
    pub fn spawn(&self, name: &str, args: &[&str]) -> Program {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(self.log(name)).unwrap();
        let errors = log.try_clone().unwrap();
        let mut command = self.command(args);
        Program::start(command.env("WORKER_ID", name).stdout(Stdio::from(log)).stderr(Stdio::from(errors)))
    }

    /// Starts a worker by its name in the settings, and waits until it is at work.
    pub async fn start(&self) -> Running<'_> {
        self.start_as(&self.env["WORKER_ID"]).await
    }

    /// As [`Self::start`], by another name.
    pub async fn start_as(&self, name: &str) -> Running<'_> {
        let before = self.said(name).len();
        let program = self.spawn(name, &[]);
        let running = Running { scene: self, name: name.to_owned(), before, program };
        running.until_said("Worker starting").await;
        running
    }

    /// Works until nothing is READY, RETRY or PROCESSING any more.
    pub async fn drain(&self) -> Summary {
        let running = self.start().await;
        if answered(async || (self.count(OPEN).await == 0).then_some(())).await.is_none() {
            panic!("messages are not over; the worker said:\n{}", running.said());
        }
        running.stop().await
    }

    /// A READY voice message of an agency, with Twilio's stand-in behind it.
    pub async fn message(&self, sid: &str) {
        let media = self.twilio.media_url(sid, &format!("ME{sid}"));
        self.client
            .execute(
                "INSERT INTO whatsapp_inbound_messages (message_sid, from_number, agency_id, message_type, media_url, \
                 processing_status, current_stage, retry_count, received_at) \
                 VALUES ($1, 'whatsapp:+4915100000001', 'agency-1', 'voice', $2, 'READY', 'RECEIVED', 0, \
                 to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"'))",
                &[&sid, &media],
            )
            .await
            .unwrap();
    }

    pub fn database_name(&self) -> String {
        let url = url::Url::parse(&self.database.url()).unwrap();
        url.path().trim_start_matches('/').to_owned()
    }

    /// A second connection.
    pub async fn admin(&self) -> Client {
        connect(&self.database.url()).await
    }

    /// Another database of the same server.
    pub fn admin_url(&self) -> String {
        let mut url = url::Url::parse(&self.database.url()).unwrap();
        url.set_path("/postgres");
        url.to_string()
    }

    pub async fn sql(&self, sql: &str) {
        self.client.batch_execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    }

    pub async fn count(&self, sql: &str) -> i64 {
        self.client.query_one(sql, &[]).await.unwrap().get(0)
    }

    pub async fn until(&self, what: &str, sql: &str, wanted: i64) {
        eventually(what, async || (self.count(sql).await == wanted).then_some(())).await;
    }

    /// A column of a message, as text.
    pub async fn of(&self, sid: &str, column: &str) -> Option<String> {
        let sql = format!("SELECT {column}::text FROM whatsapp_inbound_messages WHERE message_sid = $1");
        self.client.query_one(&sql, &[&sid]).await.unwrap().get(0)
    }

    pub async fn is(&self, sid: &str, column: &str, expected: &str) {
        assert_eq!(self.of(sid, column).await.as_deref(), Some(expected), "{column} of {sid}");
    }

    pub async fn documents(&self) -> i64 {
        self.count("SELECT count(*) FROM pending_care_documentations").await
    }

    /// How often a path of OpenAI's was asked.
    pub fn asked(&self, path: &str) -> usize {
        self.openai.asked().iter().filter(|ask| ask.path.ends_with(path)).count()
    }
}

/// A worker that runs until it is told to stop.
pub struct Running<'a> {
    scene: &'a Scene,
    name: String,
    /// How much was in its log before.
    before: usize,
    program: Program,
}

/// What a worker says of its life when it ends.
pub struct Summary {
    pub claimed: u64,
    pub settled: u64,
}

impl Running<'_> {
    /// What it has said.
    pub fn said(&self) -> String {
        self.scene.said(&self.name).split_off(self.before)
    }

    pub async fn until_said(&self, what: &str) {
        if answered(async || self.said().contains(what).then_some(())).await.is_none() {
            panic!("it did not say {what:?}, but:\n{}", self.said());
        }
    }

    /// Tells it to end, and waits until it has heard.
    pub async fn tell(&self) {
        self.program.signal(libc::SIGTERM);
        self.until_said("Shutdown requested").await;
    }

    pub async fn stop(self) -> Summary {
        self.tell().await;
        self.ended().await
    }

    /// Waits for the good end of one that was told.
    pub async fn ended(self) -> Summary {
        let Self { scene, name, before, program } = self;
        let status = tokio::task::spawn_blocking(move || program.wait()).await.unwrap();
        let said = scene.said(&name).split_off(before);
        assert_eq!(status.code(), Some(0), "{said}");
        let line = said.lines().rfind(|line| line.contains("Worker stopped"));
        let line = line.unwrap_or_else(|| panic!("it did not say how it was:\n{said}"));
        let number = |field: &str| {
            let word = line.split(' ').find_map(|word| word.strip_prefix(field)).expect("it is told");
            word.parse().unwrap()
        };
        Summary { claimed: number("claimed="), settled: number("settled=") }
    }
}

pub async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// The JSON that a program wrote, whether it is a line each or spread over several.
pub fn values(output: &Output) -> Vec<Value> {
    let values = serde_json::Deserializer::from_slice(&output.stdout).into_iter();
    values.map(|value| value.unwrap_or_else(|error| panic!("{error}: {output:?}"))).collect()
}

fn texts(list: &Value) -> Vec<String> {
    let list = list.as_array().unwrap_or_else(|| panic!("{list} is no list"));
    list.iter().map(|text| text.as_str().unwrap().to_owned()).collect()
}
