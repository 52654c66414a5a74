//! Jobs that this program runs by itself, beside Node's Agenda: kinds of `listener.toml`, each a command or an HTTP
//! endpoint, and kinds that a program of one's own runs by handlers.

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
use windlass_engine::core::store::Source;
use windlass_engine::process::Command;
use windlass_engine::{Context as JobContext, Failure, Handler, Kind, QueueName, Worker};
use windlass_mongo::agenda::{AgendaRows, Options};
use windlass_outside::safe_http::{Body, Guard, Http, Limits, Request};

use crate::home::Home;
use crate::limits::Turns;
use crate::listener::QUEUE;
use crate::settings::JobsTarget;

/// The queue of rows, which Agenda has no name for.
const OF_ROWS: &str = "agenda";
/// What an endpoint may answer, and how long it may take.
const ANSWER_BYTES_MAX: u64 = 1 << 20;
const CALL_SECONDS: u64 = 300;
/// How long running jobs may go on when it is time to end: all must be over in five seconds.
const GRACE: Duration = Duration::from_secs(2);

/// `listener.toml`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Jobs {
    /// How many run at once of all kinds that say nothing of their own.
    #[serde(default = "at_once")]
    concurrency: usize,
    /// How many run at once in all, whatever kinds and listeners say.
    concurrency_in_all: Option<usize>,
    /// The queues of the store that are worked (`JOBS_TARGET=windlass`).
    #[serde(default = "queues")]
    queues: Vec<String>,
    #[serde(default)]
    jobs: BTreeMap<String, Way>,
}

/// How a kind of job is run.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Way {
    command: Option<Vec<String>>,
    url: Option<String>,
    /// How many of this kind run at once.
    concurrency: Option<usize>,
}

/// Handlers of a program of one's own, by kind.
#[derive(Clone, Default)]
pub(crate) struct Handlers(BTreeMap<String, Arc<dyn Handler>>);

impl Handlers {
    pub(crate) fn add(&mut self, kind: &str, handler: Arc<dyn Handler>) {
        self.0.insert(kind.to_owned(), handler);
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A handler that is shared between workers.
struct Shared(Arc<dyn Handler>);

#[async_trait]
impl Handler for Shared {
    async fn run(&self, context: JobContext) -> Result<Option<Json>, Failure> {
        self.0.run(context).await
    }
}

fn at_once() -> usize {
    20
}

fn queues() -> Vec<String> {
    vec![QUEUE.to_owned()]
}

/// Why jobs cannot be run; for people.
#[derive(Debug, thiserror::Error)]
#[error("LISTENER_CONFIG names {file}, which cannot be used: {why}")]
pub(crate) struct JobsError {
    file: String,
    why: String,
}

impl Default for Jobs {
    fn default() -> Self {
        Self { concurrency: at_once(), concurrency_in_all: None, queues: queues(), jobs: BTreeMap::new() }
    }
}

impl Jobs {
    /// Reads the file.
    pub(crate) fn read(path: &Path) -> Result<Self, JobsError> {
        let wrong = |why: String| JobsError { file: path.display().to_string(), why };
        let text = std::fs::read_to_string(path).map_err(|why| wrong(why.to_string()))?;
        let jobs: Self = toml::from_str(&text).map_err(|why| wrong(why.to_string()))?;
        for queue in &jobs.queues {
            QueueName::new(queue).map_err(|why| wrong(why.to_string()))?;
        }
        for (kind, way) in &jobs.jobs {
            Kind::new(kind).map_err(|why| wrong(format!("jobs.{kind}: {why}")))?;
            if way.command.is_some() == way.url.is_some() {
                return Err(wrong(format!("jobs.{kind} needs either a command or a url")));
            }
            if let Some(url) = &way.url {
                Url::parse(url).map_err(|why| wrong(format!("jobs.{kind}.url: {why}")))?;
            }
            if way.concurrency == Some(0) {
                return Err(wrong(format!("jobs.{kind}.concurrency is 0; leave the kind out to run none")));
            }
        }
        if jobs.concurrency_in_all == Some(0) {
            return Err(wrong("concurrency_in_all is 0; leave LISTENER_CONFIG out to run none".to_owned()));
        }
        if jobs.jobs.is_empty() || jobs.concurrency == 0 {
            return Err(wrong(
                "it names no job, or its concurrency is 0; leave LISTENER_CONFIG out where Node runs all"
                    .to_owned(),
            ));
        }
        Ok(jobs)
    }

    /// The kinds, in groups that share their slots.
    fn groups(&self, handlers: &Handlers) -> Vec<(Vec<String>, usize)> {
        let own = self.jobs.iter().filter_map(|(kind, way)| Some((vec![kind.clone()], way.concurrency?)));
        let mut groups: Vec<(Vec<String>, usize)> = own.collect();
        let together = self.jobs.iter().filter(|(_, way)| way.concurrency.is_none()).map(|(kind, _)| kind);
        let together: Vec<String> = together.chain(handlers.0.keys()).cloned().collect();
        if !together.is_empty() {
            groups.push((together, self.concurrency));
        }
        // Whoever cannot run is not taken.
        let most = self.concurrency_in_all.unwrap_or(usize::MAX);
        groups.iter_mut().for_each(|(_, slots)| *slots = most.min(*slots));
        groups
    }
}

/// Runs jobs until it is told to end.
pub(crate) async fn run(
    home: Home,
    jobs: Option<Jobs>,
    handlers: Handlers,
    told: Stop,
) -> Result<(), AppError> {
    if jobs.is_none() && handlers.is_empty() {
        told.wait().await;
        return Ok(());
    }
    let jobs = jobs.unwrap_or_default();
    let turns = Turns::new(home.clone(), jobs.concurrency_in_all);
    let mut workers = Vec::new();
    for (kinds, slots) in jobs.groups(&handlers) {
        let (source, queues) = source(&home, &jobs, &kinds).await?;
        let mut worker = Worker::from_source(source)
            .queues(queues.iter().map(String::as_str))
            .slots(slots)
            .grace(GRACE)
            .in_world(home.world.clone())
            .layer(turns.clone());
        for kind in &kinds {
            worker = match (handlers.0.get(kind), jobs.jobs.get(kind)) {
                (Some(handler), _) => worker.handle_kind(kind, Shared(handler.clone())),
                (None, Some(Way { command: Some(command), .. })) => {
                    worker.handle_command(kind, Command::new(command)?)
                }
                (None, Some(Way { url: Some(url), .. })) => {
                    worker.handle_kind(kind, Endpoint::to(&Url::parse(url)?)?)
                }
                (None, _) => worker,
            };
        }
        let told = told.clone();
        workers.push(async move { worker.run_until(told.wait()).await });
    }
    futures::future::try_join_all(workers).await?;
    Ok(())
}

/// Where these kinds are claimed from.
async fn source(
    home: &Home,
    jobs: &Jobs,
    kinds: &[String],
) -> Result<(Arc<dyn Source>, Vec<String>), AppError> {
    if home.target == JobsTarget::Windlass {
        let store: Arc<dyn Source> = home.store().await?.clone();
        return Ok((store, jobs.queues.clone()));
    }
    let names: Result<Vec<Kind>, _> = kinds.iter().map(Kind::new).collect();
    let options = Options {
        queue: QueueName::new(OF_ROWS)?,
        names: Some(names?),
        lock_lifetime_ms: home.lock_lifetime_ms,
        // Rows of one document run one behind the other, as jobs of the store do. The one that differs most comes first.
        key: ["data.documentId", "data.collection", "data.database"].map(str::to_owned).to_vec(),
        ..Options::default()
    };
    let rows = AgendaRows::of(&home.client.database(&home.database), &home.jobs_name, options).await?;
    Ok((rows, vec![OF_ROWS.to_owned()]))
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
        let jobs = read("concurrency = 3\n[jobs.mail]\ncommand = [\"node\", \"mail.js\"]\n[jobs.hook]\nurl = \"http://127.0.0.1:1/x\"\nconcurrency = 2\n").unwrap();
        assert_eq!((jobs.concurrency, jobs.jobs.len()), (3, 2));
        let own = (vec!["hook".to_owned()], 2);
        assert_eq!(jobs.groups(&Handlers::default()), [own, (vec!["mail".to_owned()], 3)]);
        let few =
            read("concurrency_in_all = 1\n[jobs.hook]\nurl = \"http://127.0.0.1:1/x\"\nconcurrency = 2\n");
        assert_eq!(few.unwrap().groups(&Handlers::default()), [(vec!["hook".to_owned()], 1)]);
        for (text, word) in [
            ("[jobs.mail]\n", "either"),
            ("[jobs]\n", "no job"),
            ("x = 1\n[jobs]", "unknown field"),
            ("[jobs.a]\nurl = \"nowhere\"", "url"),
            ("queues = [\"\"]\n[jobs.a]\nurl = \"http://127.0.0.1:1/\"", "queue"),
            ("[jobs.a]\nurl = \"http://127.0.0.1:1/\"\nconcurrency = 0", "concurrency"),
            ("concurrency_in_all = 0\n[jobs.a]\nurl = \"http://127.0.0.1:1/\"", "concurrency_in_all"),
        ] {
            let why = read(text).unwrap_err().to_string();
            assert!(why.contains(word), "{text}: {why}");
        }
    }
}
