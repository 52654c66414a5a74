//! The tools: what each is called, what it takes, and what it does.

use anyhow::Context as _;
use serde::Serialize;
use serde_json::{Value, json};
use windlass_engine::JobRequest;
use windlass_engine::core::id::JobId;
use windlass_engine::core::query::JobFilter;
use windlass_engine::core::state::StateName;
use windlass_engine::core::store::{CancelAnswer, RetryAnswer, Store};
use windlass_engine::world::{RealWorld, new_id};
use windlass_server::search::find;
use windlass_server::{doctor, text};

use crate::command::which::ShortId;

/// How many jobs are listed, and how many may be changed by one call.
const LISTED_MAX: usize = 50;
const CHANGED_MAX: usize = 10_000;
/// How many jobs the doctor looks at.
const LOOKS_MAX: usize = 500;

struct Tool {
    name: &'static str,
    about: &'static str,
    /// The fields that it takes, with their types and what they are.
    takes: &'static [(&'static str, &'static str, &'static str)],
    needs: &'static [&'static str],
    acts: bool,
}

const FILTER: &[(&str, &str, &str)] = &[
    ("state", "string", "queued, running, completed, failed or canceled"),
    ("queue", "string", "in this queue"),
    ("kind", "string", "of this kind"),
    ("key", "string", "with this key"),
    ("text", "string", "with this text in id, kind, key or payload"),
];
const MANY: &[(&str, &str, &str)] = &[
    ("state", "string", "only those in this state"),
    ("queue", "string", "in this queue"),
    ("kind", "string", "of this kind"),
    ("key", "string", "with this key"),
    ("text", "string", "with this text in id, kind, key or payload"),
    ("dry_run", "boolean", "only count them; true unless you say false"),
];
const ONE: &[(&str, &str, &str)] = &[("id", "string", "the job's id, or its last digits")];
const NEW: &[(&str, &str, &str)] = &[
    ("kind", "string", "the kind"),
    ("queue", "string", "the queue; default when left out"),
    ("payload", "object", "the payload"),
];

#[rustfmt::skip]
const TOOLS: &[Tool] = &[
    Tool { name: "doctor", about: "What is wrong, and what to do about it. Begin here.", takes: &[], needs: &[], acts: false },
    Tool { name: "list_queues", about: "The queues with their depth and policy.", takes: &[], needs: &[], acts: false },
    Tool { name: "list_workers", about: "Who works, on what, and when they were last heard of.", takes: &[], needs: &[], acts: false },
    Tool { name: "list_budgets", about: "What each budget allows, and what is used of it.", takes: &[], needs: &[], acts: false },
    Tool { name: "list_schedules", about: "The schedules with their last and next runs.", takes: &[], needs: &[], acts: false },
    Tool { name: "list_jobs", about: "The newest 50 jobs that fit.", takes: FILTER, needs: &[], acts: false },
    Tool { name: "get_job", about: "One job with payload, steps, attempts and errors.", takes: ONE, needs: &["id"], acts: false },
    Tool { name: "explain_job", about: "Why a job is not running, by the same rules that the claim uses.", takes: ONE, needs: &["id"], acts: false },
    Tool { name: "get_log", about: "What the newest attempts of a job said.", takes: ONE, needs: &["id"], acts: false },
    Tool { name: "cancel_job", about: "Cancel one job: at once when it is queued, through its worker when it is running.", takes: ONE, needs: &["id"], acts: true },
    Tool { name: "retry_job", about: "Start a new life of a job that is over. Its stored steps stay.", takes: ONE, needs: &["id"], acts: true },
    Tool { name: "cancel_jobs", about: "Cancel all queued and running jobs that fit a filter, or count them.", takes: MANY, needs: &[], acts: true },
    Tool { name: "retry_jobs", about: "Retry all failed jobs that fit a filter, or count them.", takes: MANY, needs: &[], acts: true },
    Tool { name: "enqueue_job", about: "Enqueue a job.", takes: NEW, needs: &["kind"], acts: true },
];

/// The tools, as the protocol lists them.
pub(super) fn listed(act: bool) -> Vec<Value> {
    let schema = |tool: &Tool| {
        let fields = tool
            .takes
            .iter()
            .map(|(name, sort, about)| ((*name).to_owned(), json!({ "type": sort, "description": about })));
        let fields: serde_json::Map<String, Value> = fields.collect();
        json!({ "type": "object", "properties": fields, "required": tool.needs, "additionalProperties": false })
    };
    let tools = TOOLS.iter().filter(|tool| act || !tool.acts);
    tools
        .map(|tool| {
            json!({
                "name": tool.name, "description": tool.about, "inputSchema": schema(tool),
                "annotations": { "readOnlyHint": !tool.acts, "destructiveHint": tool.acts },
            })
        })
        .collect()
}

/// Uses a tool; nothing when there is no such one.
pub(super) async fn call(
    store: &dyn Store,
    act: bool,
    name: &str,
    given: &Value,
) -> Option<anyhow::Result<Value>> {
    let tool = TOOLS.iter().find(|tool| tool.name == name && (act || !tool.acts))?;
    Some(match check(tool, given) {
        Ok(()) => run(store, tool.name, given).await,
        Err(error) => Err(error),
    })
}

fn check(tool: &Tool, given: &Value) -> anyhow::Result<()> {
    let names: Vec<&String> = given.as_object().into_iter().flatten().map(|(name, _)| name).collect();
    let known = |name: &str| tool.takes.iter().any(|(takes, _, _)| *takes == name);
    if let Some(name) = names.iter().find(|name| !known(name)) {
        anyhow::bail!("{} takes no {name}", tool.name);
    }
    if let Some(name) = tool.needs.iter().find(|name| given.get(**name).is_none()) {
        anyhow::bail!("{name} is needed");
    }
    Ok(())
}

async fn run(store: &dyn Store, name: &str, given: &Value) -> anyhow::Result<Value> {
    match name {
        "doctor" => Ok(json!({ "findings": doctor::look(store, LOOKS_MAX).await? })),
        "list_queues" => {
            let now = store.now().await?;
            all("queues", store.queues().await?, |queue| text::queue(queue, now))
        }
        "list_workers" => {
            let now = store.now().await?;
            all("workers", store.workers().await?, |worker| text::worker(worker, now))
        }
        "list_budgets" => {
            let now = store.now().await?;
            all("budgets", store.budgets().await?, |budget| text::budget(budget, now))
        }
        "list_schedules" => all("schedules", store.schedules().await?, text::schedule),
        "list_jobs" => all("jobs", find(store, &filter(given)?.into(), LISTED_MAX).await?, text::listed),
        "get_job" => {
            let job = store.get(id(store, given).await?).await?.context("there is no such job")?;
            Ok(serde_json::to_value(text::job(job))?)
        }
        "explain_job" => {
            let id = id(store, given).await?;
            let found = store.explain(id).await?.context("there is no such job")?;
            Ok(serde_json::to_value(text::explanation(id, found))?)
        }
        "get_log" => Ok(json!({ "logs": store.logs(id(store, given).await?).await? })),
        "cancel_job" => cancel(store, id(store, given).await?).await.map(|word| json!({ "outcome": word })),
        "retry_job" => retry(store, id(store, given).await?).await.map(|word| json!({ "outcome": word })),
        "cancel_jobs" => {
            let open = [StateName::Queued, StateName::Running];
            many(store, given, &open, "would_cancel", "canceled").await
        }
        "retry_jobs" => many(store, given, &[StateName::Failed], "would_retry", "retried").await,
        _ => enqueue(store, given).await,
    }
}

fn all<T, V: Serialize>(name: &str, things: Vec<T>, view: impl Fn(T) -> V) -> anyhow::Result<Value> {
    let views = things.into_iter().map(|thing| serde_json::to_value(view(thing)));
    Ok(json!({ name: views.collect::<Result<Vec<Value>, _>>()? }))
}

async fn id(store: &dyn Store, given: &Value) -> anyhow::Result<JobId> {
    let id: ShortId = given["id"].as_str().context("id must be text")?.parse()?;
    id.resolve(store).await
}

fn filter(given: &Value) -> anyhow::Result<JobFilter> {
    let text = |name: &str| given[name].as_str();
    let filter = JobFilter {
        states: text("state").map(str::parse).transpose()?.into_iter().collect(),
        queue: text("queue").map(str::parse).transpose()?,
        kind: text("kind").map(str::parse).transpose()?,
        key: text("key").map(str::parse).transpose()?,
        text: text("text").map(str::to_owned),
        ..JobFilter::default()
    };
    Ok(filter.checked()?)
}

async fn many(
    store: &dyn Store,
    given: &Value,
    states: &[StateName],
    would: &str,
    did: &str,
) -> anyhow::Result<Value> {
    let mut filter = filter(given)?;
    anyhow::ensure!(filter != JobFilter::default(), "say which jobs: by state, queue, kind, key or text");
    if filter.states.is_empty() {
        filter.states = states.to_vec();
    }
    let jobs = find(store, &filter.into(), CHANGED_MAX).await?;
    if given["dry_run"].as_bool().unwrap_or(true) {
        return Ok(json!({ would: jobs.len() }));
    }
    let (mut done, mut refused) = (0, 0);
    for job in jobs.iter().rev() {
        let outcome = match did {
            "canceled" => cancel(store, job.id).await?,
            _ => retry(store, job.id).await?,
        };
        match outcome {
            "canceled" | "cancel_requested" | "retried" => done += 1,
            _ => refused += 1,
        }
    }
    Ok(json!({ did: done, "refused": refused }))
}

async fn cancel(store: &dyn Store, id: JobId) -> anyhow::Result<&'static str> {
    Ok(match store.cancel(id).await? {
        CancelAnswer::Canceled => "canceled",
        CancelAnswer::Requested => "cancel_requested",
        CancelAnswer::Final => "final",
        CancelAnswer::NotFound => "not_found",
    })
}

async fn retry(store: &dyn Store, id: JobId) -> anyhow::Result<&'static str> {
    Ok(match store.retry(id).await? {
        RetryAnswer::Retried => "retried",
        RetryAnswer::NotFinal => "not_final",
        RetryAnswer::Taken(_) => "dedupe_key_taken",
        RetryAnswer::NotFound => "not_found",
    })
}

async fn enqueue(store: &dyn Store, given: &Value) -> anyhow::Result<Value> {
    let kind = given["kind"].as_str().context("kind must be text")?;
    let mut request = JobRequest::new(kind, &given["payload"]).id(new_id(&RealWorld::new()));
    if let Some(queue) = given["queue"].as_str() {
        request = request.queue(queue);
    }
    let job = request.build()?;
    let id = job.id;
    store.enqueue(vec![job]).await?;
    Ok(json!({ "id": id }))
}
