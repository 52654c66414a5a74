//! Jobs that this program runs by itself, beside Node's Agenda: kinds of `listener.toml`, each a command or an HTTP
//! endpoint.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::Value;
use url::Url;
use windlass_app::{AppError, Stop};
use windlass_engine::core::json::Json;
use windlass_engine::process::Command;
use windlass_engine::{Context as JobContext, Failure, Handler, Kind, QueueName, Worker};
use windlass_mongo::agenda::{AgendaRows, Options};
use windlass_outside::safe_http::{Body, Guard, Http, Limits, Request};

use crate::home::Home;

/// The queue of rows, which Agenda has no name for.
const QUEUE: &str = "agenda";
/// What an endpoint may answer, and how long it may take.
const ANSWER_BYTES_MAX: u64 = 1 << 20;
const CALL_SECONDS: u64 = 300;
/// How long running jobs may go on when it is time to end: all must be over in five seconds.
const GRACE: Duration = Duration::from_secs(2);

/// `listener.toml`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Jobs {
    /// How many run at once.
    #[serde(default = "at_once")]
    concurrency: usize,
    /// How long a lock lasts; that of the Node definitions.
    #[serde(default = "lock_lifetime")]
    lock_lifetime_seconds: u32,
    jobs: BTreeMap<String, Way>,
}

/// How a kind of job is run.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Way {
    command: Option<Vec<String>>,
    url: Option<String>,
}

fn at_once() -> usize {
    20
}

fn lock_lifetime() -> u32 {
    600
}

/// Why jobs cannot be run; for people.
#[derive(Debug, thiserror::Error)]
#[error("{file}: {why}")]
pub(crate) struct JobsError {
    file: String,
    why: String,
}

impl Jobs {
    /// Reads the file.
    pub(crate) fn read(path: &Path) -> Result<Self, JobsError> {
        let wrong = |why: String| JobsError { file: path.display().to_string(), why };
        let text = std::fs::read_to_string(path).map_err(|why| wrong(why.to_string()))?;
        let jobs: Self = toml::from_str(&text).map_err(|why| wrong(why.to_string()))?;
        for (kind, way) in &jobs.jobs {
            Kind::new(kind).map_err(|why| wrong(format!("jobs.{kind}: {why}")))?;
            if way.command.is_some() == way.url.is_some() {
                return Err(wrong(format!("jobs.{kind} needs either a command or a url")));
            }
            if let Some(url) = &way.url {
                Url::parse(url).map_err(|why| wrong(format!("jobs.{kind}.url: {why}")))?;
            }
        }
        if jobs.jobs.is_empty() || jobs.concurrency == 0 {
            return Err(wrong(
                "it names no job, or its concurrency is 0; leave LISTENER_CONFIG out where Node runs all"
                    .to_owned(),
            ));
        }
        Ok(jobs)
    }
}

/// Runs jobs until it is told to end.
pub(crate) async fn run(home: Home, jobs: Jobs, told: Stop) -> Result<(), AppError> {
    let names: Result<Vec<Kind>, _> = jobs.jobs.keys().map(Kind::new).collect();
    let options = Options {
        queue: QueueName::new(QUEUE)?,
        names: Some(names?),
        lock_lifetime_ms: jobs.lock_lifetime_seconds.saturating_mul(1_000),
        ..Options::default()
    };
    let rows = AgendaRows::of(&home.client.database(&home.database), &home.jobs_name, options).await?;
    let mut worker = Worker::from_source(rows)
        .queues([QUEUE])
        .slots(jobs.concurrency)
        .grace(GRACE)
        .in_world(home.world.clone());
    for (kind, way) in &jobs.jobs {
        worker = match way {
            Way { command: Some(command), .. } => worker.handle_command(kind, Command::new(command)?),
            Way { url: Some(url), .. } => worker.handle_kind(kind, Endpoint::to(&Url::parse(url)?)?),
            Way { .. } => worker,
        };
    }
    worker.run_until(told.wait()).await?;
    Ok(())
}

/// Somebody's service that runs a job: `POST` with the job's data; an answer from 200 to 299 is success.
struct Endpoint {
    http: Arc<Http>,
    url: Url,
}

impl Endpoint {
    fn to(url: &Url) -> Result<Self, AppError> {
        let guard = Guard::new().allow(url)?;
        Ok(Self { http: Arc::new(Http::new(guard)), url: url.clone() })
    }
}

#[async_trait]
impl Handler for Endpoint {
    async fn run(&self, context: JobContext) -> Result<Option<Json>, Failure> {
        let data: Value = context.payload_as()?;
        let body = serde_json::json!({ "id": context.id().to_string(), "name": context.job().spec.kind.to_string(), "attempt": context.attempt(), "data": data });
        let limits =
            Limits { total: Duration::from_secs(CALL_SECONDS), bytes_max: ANSWER_BYTES_MAX, hops_max: 0 };
        let request = Request::post(self.url.clone(), Body::bytes(body.to_string()))
            .header(http::header::CONTENT_TYPE, "application/json")
            .map_err(Failure::permanent)?
            .limits(limits);
        let answer = self.http.send(request).await.map_err(Failure::retry)?;
        answer.ok().map_err(Failure::retry)?;
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Jobs, JobsError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("listener.toml");
        std::fs::write(&path, text).unwrap();
        Jobs::read(&path)
    }

    #[test]
    fn the_file_is_read_and_what_is_wrong_is_said() {
        let jobs = read("concurrency = 3\n[jobs.mail]\ncommand = [\"node\", \"mail.js\"]\n[jobs.hook]\nurl = \"http://127.0.0.1:1/x\"\n").unwrap();
        assert_eq!((jobs.concurrency, jobs.lock_lifetime_seconds, jobs.jobs.len()), (3, 600, 2));
        for (text, word) in [
            ("[jobs.mail]\n", "either"),
            ("[jobs]\n", "no job"),
            ("x = 1\n[jobs]", "unknown field"),
            ("[jobs.a]\nurl = \"nowhere\"", "url"),
        ] {
            let why = read(text).unwrap_err().to_string();
            assert!(why.contains(word), "{text}: {why}");
        }
    }
}
