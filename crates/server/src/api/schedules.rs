//! Schedules: a cron line with a time zone that enqueues jobs.

use http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_engine::core::id::{JobId, ScheduleName};
use windlass_engine::core::policy::schedule::{Missed, Overlap, Schedule, SchedulePolicy};
use windlass_engine::core::store::Enqueued;
use windlass_report::schema::Id;
use windlass_report::view::ScheduleView;

use super::Api;
use super::new_job::ScheduledJobBody;
use crate::access::Caller;
use crate::answer::{Answered, Refusal, json_answer, nothing, ok};
use crate::ask::Ask;
use crate::object::Object;

/// The schedules.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Schedules")]
pub(crate) struct SchedulesView {
    schedules: Vec<ScheduleView>,
}

/// When to enqueue what.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NewSchedule")]
pub(crate) struct ScheduleBody {
    /// Five fields, or six with seconds in front.
    cron: String,
    /// An IANA time zone; `UTC` when left out.
    #[serde(default)]
    zone: Option<String>,
    /// What happens when the job of an earlier run is not over: `skip` when left out.
    #[serde(default)]
    overlap: Option<OverlapWord>,
    /// What happens to runs that nobody was there to start: `last` when left out.
    #[serde(default)]
    missed: Option<MissedWord>,
    /// Whether it is at rest.
    #[serde(default)]
    paused: Option<bool>,
    job: Object<ScheduledJobBody>,
}

/// What happens when the job of an earlier run is not over.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
enum OverlapWord {
    Skip,
    Queue,
}

/// What happens to missed runs.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
enum MissedWord {
    /// They are left out.
    Skip,
    /// The newest is made up for.
    Last,
    /// The newest so many are made up for, oldest first.
    All(#[schemars(range(min = 1, max = 100))] u32),
}

impl ScheduleBody {
    fn policy(self) -> Result<SchedulePolicy, Refusal> {
        let Self { cron, zone, overlap, missed, paused, job } = self;
        let policy = SchedulePolicy {
            cron,
            zone: zone.unwrap_or_else(|| "UTC".to_owned()),
            overlap: match overlap {
                Some(OverlapWord::Queue) => Overlap::Queue,
                Some(OverlapWord::Skip) | None => Overlap::Skip,
            },
            missed: match missed {
                Some(MissedWord::Skip) => Missed::Skip,
                Some(MissedWord::Last) | None => Missed::Last,
                Some(MissedWord::All(cap)) => Missed::All(cap),
            },
            paused: paused.unwrap_or(false),
            job: job.0.spec()?,
        };
        // Well written, and yet no schedule: a cron line or a zone that is none.
        policy.checked().map_err(|invalid| {
            let mut refusal = Refusal::from(invalid);
            refusal.status = StatusCode::UNPROCESSABLE_ENTITY;
            refusal
        })
    }
}

/// `GET /v1/schedules`
pub(crate) async fn list(ask: Ask) -> Answered {
    let schedules = ask.api.store.schedules().await?;
    let schedules = schedules.into_iter().map(|schedule| view(&ask.api, &ask.caller, schedule)).collect();
    ok(&SchedulesView { schedules })
}

/// `GET /v1/schedules/{name}`
pub(crate) async fn get(ask: Ask) -> Answered {
    let schedule = find(&ask.api, &ask.name()?).await?;
    ok(&view(&ask.api, &ask.caller, schedule))
}

/// `PUT /v1/schedules/{name}`
pub(crate) async fn put(ask: Ask) -> Answered {
    let name: ScheduleName = ask.name()?;
    let policy = ask.body::<ScheduleBody>()?.policy()?;
    ask.api.store.put_schedule(name.clone(), policy).await?;
    tracing::info!(schedule = ?name.as_str(), by = ?ask.caller.name, "schedule set");
    let schedule = find(&ask.api, &name).await?;
    ok(&view(&ask.api, &ask.caller, schedule))
}

/// `DELETE /v1/schedules/{name}`
pub(crate) async fn delete(ask: Ask) -> Answered {
    let name: ScheduleName = ask.name()?;
    if !ask.api.store.delete_schedule(name.clone()).await? {
        return Err(Refusal::not_found("schedule"));
    }
    tracing::info!(schedule = ?name.as_str(), by = ?ask.caller.name, "schedule deleted");
    nothing()
}

/// The job of a run that somebody asked for.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ScheduleRun")]
pub(crate) struct RunView {
    #[schemars(with = "Id")]
    job_id: JobId,
    /// The job of an earlier run is not over: this is that one.
    deduplicated: bool,
}

/// `POST /v1/schedules/{name}/run`
pub(crate) async fn run(ask: Ask) -> Answered {
    let name: ScheduleName = ask.name()?;
    let run = ask.api.client.run_schedule(&name).await?;
    let Enqueued { id, deduplicated } = run.ok_or_else(|| Refusal::not_found("schedule"))?;
    tracing::info!(schedule = ?name.as_str(), job_id = %id, by = ?ask.caller.name, "schedule run by hand");
    let status = if deduplicated { StatusCode::OK } else { StatusCode::CREATED };
    json_answer(status, &RunView { job_id: id, deduplicated })
}

async fn find(api: &Api, name: &ScheduleName) -> Result<Schedule, Refusal> {
    let found = api.store.schedules().await?.into_iter().find(|schedule| schedule.name == *name);
    found.ok_or_else(|| Refusal::not_found("schedule"))
}

fn view(api: &Api, caller: &Caller, schedule: Schedule) -> ScheduleView {
    let hidden = api.hides(&schedule.policy.job.kind, caller);
    ScheduleView::new(schedule, hidden)
}
