//! The tools: what each is called, what it takes, and what it does.

use anyhow::Context as _;
use serde::Serialize;
use serde_json::{Value, json};
use windlass_engine::JobRequest;
use windlass_engine::core::id::JobId;
use windlass_engine::core::store::{Enqueued, STEER_MAX, Store};
use windlass_engine::world::{RealWorld, new_id};
use windlass_report::search::{Wanted, find};
use windlass_report::{doctor, text};

use crate::command::cancel::Cancel;
use crate::command::delete::Delete;
use crate::command::filter::FilterArgs;
use crate::command::retry::Retry;
use crate::command::run::RunNow;
use crate::command::steer::Steer;
use crate::command::which::ShortId;
use crate::exit::Code;

/// How many jobs are listed, and how many may be changed by one call.
const LISTED_MAX: usize = 50;
const CHANGED_MAX: usize = 10_000;
/// How many of those that would be changed are named.
const SAMPLE_MAX: usize = 10;
/// How many jobs the doctor looks at.
const LOOKS_MAX: usize = 500;

struct Tool {
    name: &'static str,
    about: &'static str,
    /// The fields that it takes, with their types and what they are.
    takes: &'static [&'static [Field]],
    needs: &'static [&'static str],
    does: Does,
}

/// A field: its name, its type, and what it is.
type Field = (&'static str, &'static str, &'static str);

/// Whether a tool changes anything.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Does {
    /// It only looks.
    Look,
    /// It counts what it would change for anybody, and changes it for whoever may act.
    Count,
    /// It is for those who may act.
    Act,
}

const NONE: &[&[Field]] = &[];
const FILTER: &[Field] = &[
    ("state", "string", "queued, running, completed, failed or canceled"),
    ("queue", "string", "in this queue"),
    ("kind", "string", "of this kind"),
    ("key", "string", "with this key"),
    ("since", "string", "accepted at or after this moment, or within this time: 2026-01-31T12:00:00Z or 2h"),
    ("until", "string", "accepted before this moment, or longer ago than this time"),
    ("text", "string", "with this text in id, kind, key or payload"),
    ("error", "string", "whose newest error says this"),
];
const DRY_RUN: &[Field] =
    &[("dry_run", "boolean", "only count them; true unless you say false, which is for whoever may act")];
const MANY: &[&[Field]] = &[FILTER, DRY_RUN];
const ONE: &[&[Field]] = &[&[("id", "string", "the job's id, or its last digits")]];
const NEW: &[&[Field]] = &[&[
    ("kind", "string", "the kind"),
    ("queue", "string", "the queue; default when left out"),
    ("payload", "object", "the payload"),
]];
const NAMED: &[&[Field]] = &[&[("name", "string", "the schedule")]];

#[rustfmt::skip]
const TOOLS: &[Tool] = &[
    Tool { name: "doctor", about: "What is wrong, and what to do about it. Begin here.", takes: NONE, needs: &[], does: Does::Look },
    Tool { name: "list_queues", about: "The queues with their depth and policy.", takes: NONE, needs: &[], does: Does::Look },
    Tool { name: "list_workers", about: "Who works, on what, and when they were last heard of.", takes: NONE, needs: &[], does: Does::Look },
    Tool { name: "list_budgets", about: "What each budget allows, and what is used of it.", takes: NONE, needs: &[], does: Does::Look },
    Tool { name: "list_schedules", about: "The schedules with their last and next runs.", takes: NONE, needs: &[], does: Does::Look },
    Tool { name: "list_jobs", about: "The newest 50 jobs that fit.", takes: &[FILTER], needs: &[], does: Does::Look },
    Tool { name: "get_job", about: "One job with payload, steps, attempts and errors.", takes: ONE, needs: &["id"], does: Does::Look },
    Tool { name: "explain_job", about: "Why a job is not running, by the same rules that the claim uses.", takes: ONE, needs: &["id"], does: Does::Look },
    Tool { name: "get_log", about: "What the newest attempts of a job said.", takes: ONE, needs: &["id"], does: Does::Look },
    Tool { name: "cancel_jobs", about: "Cancel all queued and running jobs that fit a filter, or count them.", takes: MANY, needs: &[], does: Does::Count },
    Tool { name: "retry_jobs", about: "Retry all failed jobs that fit a filter, or count them.", takes: MANY, needs: &[], does: Does::Count },
    Tool { name: "run_jobs", about: "Make all queued jobs due that fit a filter and wait for their time, or count them.", takes: MANY, needs: &[], does: Does::Count },
    Tool { name: "delete_jobs", about: "Delete all jobs that fit a filter, of a state that must be said, or count them. They cannot be had back.", takes: MANY, needs: &["state"], does: Does::Count },
    Tool { name: "cancel_job", about: "Cancel one job: at once when it is queued, through its worker when it is running.", takes: ONE, needs: &["id"], does: Does::Act },
    Tool { name: "retry_job", about: "Start a new life of a job that is over. Its stored steps stay.", takes: ONE, needs: &["id"], does: Does::Act },
    Tool { name: "run_job", about: "Make a queued job due that waits for its time. Keys, limits, pauses and budgets still hold it.", takes: ONE, needs: &["id"], does: Does::Act },
    Tool { name: "delete_job", about: "Delete a job that is not running, with its steps, its history and what it said.", takes: ONE, needs: &["id"], does: Does::Act },
    Tool { name: "enqueue_job", about: "Enqueue a job.", takes: NEW, needs: &["kind"], does: Does::Act },
    Tool { name: "run_schedule", about: "Enqueue the job of a schedule now, beside its runs.", takes: NAMED, needs: &["name"], does: Does::Act },
];

/// The tools, as the protocol lists them.
pub(super) fn listed(act: bool) -> Vec<Value> {
    let schema = |tool: &Tool| {
        let field =
            |(name, sort, about): &Field| ((*name).to_owned(), json!({ "type": sort, "description": about }));
        let fields: serde_json::Map<String, Value> = tool.takes.concat().iter().map(field).collect();
        json!({ "type": "object", "properties": fields, "required": tool.needs, "additionalProperties": false })
    };
    let tools = TOOLS.iter().filter(|tool| act || tool.does != Does::Act);
    let changes = |tool: &Tool| act && tool.does != Does::Look;
    tools
        .map(|tool| {
            json!({
                "name": tool.name, "description": tool.about, "inputSchema": schema(tool),
                "annotations": { "readOnlyHint": !changes(tool), "destructiveHint": changes(tool) },
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
    let tool = TOOLS.iter().find(|tool| tool.name == name && (act || tool.does != Does::Act))?;
    Some(match check(tool, act, given) {
        Ok(()) => run(store, tool.name, given).await,
        Err(error) => Err(error),
    })
}

fn check(tool: &Tool, act: bool, given: &Value) -> anyhow::Result<()> {
    let names: Vec<&String> = given.as_object().into_iter().flatten().map(|(name, _)| name).collect();
    let known = |name: &str| tool.takes.concat().iter().any(|(takes, _, _)| *takes == name);
    if let Some(name) = names.iter().find(|name| !known(name)) {
        anyhow::bail!("{} takes no {name}", tool.name);
    }
    if let Some(name) = tool.needs.iter().find(|name| given.get(**name).is_none()) {
        anyhow::bail!("{name} is needed");
    }
    if tool.does == Does::Count && !act && !is_dry(given) {
        anyhow::bail!(
            "you may look, and change nothing: `windlass mcp --act` allows more; without dry_run=false they are counted"
        );
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
            all("workers", text::workers(store).await?, |worker| worker.text(now))
        }
        "list_budgets" => {
            let now = store.now().await?;
            all("budgets", store.budgets().await?, |budget| text::budget(budget, now))
        }
        "list_schedules" => all("schedules", store.schedules().await?, text::schedule),
        "list_jobs" => {
            all("jobs", find(store, &wanted(store, given).await?, LISTED_MAX).await?, text::listed)
        }
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
        "cancel_job" => one(store, given, Cancel).await,
        "retry_job" => one(store, given, Retry::default()).await,
        "run_job" => one(store, given, RunNow).await,
        "delete_job" => one(store, given, Delete).await,
        "cancel_jobs" => many(store, given, Cancel, "canceled").await,
        "retry_jobs" => many(store, given, Retry::default(), "retried").await,
        "run_jobs" => many(store, given, RunNow, "made_due").await,
        "delete_jobs" => many(store, given, Delete, "deleted").await,
        "run_schedule" => run_schedule(store, given).await,
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

/// Which jobs are meant, said as on the command line.
async fn wanted(store: &dyn Store, given: &Value) -> anyhow::Result<Wanted> {
    let text = |name: &str| given[name].as_str();
    let filter = FilterArgs {
        state: text("state").map(str::parse).transpose()?.into_iter().collect(),
        queue: text("queue").map(str::parse).transpose()?,
        kind: text("kind").map(str::parse).transpose()?,
        key: text("key").map(str::parse).transpose()?,
        since: text("since").map(str::parse).transpose()?,
        until: text("until").map(str::parse).transpose()?,
        text: text("text").map(str::to_owned),
        error: text("error").map(str::to_owned),
    };
    filter.resolve(store).await
}

/// Whether it is only asked how many it would be.
fn is_dry(given: &Value) -> bool {
    given["dry_run"].as_bool().unwrap_or(true)
}

async fn one<V: Steer>(store: &dyn Store, given: &Value, verb: V) -> anyhow::Result<Value> {
    let became = verb.steer(store, vec![id(store, given).await?]).await?;
    let became = became.first().context("the store did not say what became of it")?;
    Ok(json!({ "outcome": became.word, "said": became.said }))
}

async fn many<V: Steer>(store: &dyn Store, given: &Value, verb: V, did: &str) -> anyhow::Result<Value> {
    let mut wanted = wanted(store, given).await?;
    anyhow::ensure!(
        wanted != Wanted::default(),
        "say which jobs: by state, queue, kind, key, since, until, text or error"
    );
    if wanted.filter.states.is_empty() {
        wanted.filter.states = V::STATES.to_vec();
    }
    let mut jobs = find(store, &wanted, CHANGED_MAX).await?;
    jobs.retain(|job| V::is_for(job.state.name()));
    if is_dry(given) {
        let newest: Vec<JobId> = jobs.iter().take(SAMPLE_MAX).map(|job| job.id).collect();
        return Ok(json!({ format!("would_{}", V::VERB): jobs.len(), "newest": newest }));
    }
    let (mut done, mut refused) = (0, 0);
    // The oldest first, as they were accepted.
    let ids: Vec<JobId> = jobs.iter().rev().map(|job| job.id).collect();
    for some in ids.chunks(STEER_MAX) {
        for became in verb.steer(store, some.to_vec()).await? {
            match became.code {
                Code::Done => done += 1,
                _ => refused += 1,
            }
        }
    }
    Ok(json!({ did: done, "refused": refused }))
}

async fn run_schedule(store: &dyn Store, given: &Value) -> anyhow::Result<Value> {
    let name = given["name"].as_str().context("name must be text")?;
    let schedules = store.schedules().await?;
    let found = schedules.into_iter().find(|schedule| schedule.name.as_str() == name);
    let schedule =
        found.with_context(|| format!("there is no schedule {name:?}; list_schedules names them"))?;
    let enqueued = store.enqueue(vec![schedule.job_for(store.now().await?)]).await?;
    let Enqueued { id, deduplicated } =
        enqueued.into_iter().next().context("the store did not say which job it is")?;
    Ok(json!({ "id": id, "an_earlier_run_is_not_over": deduplicated }))
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
