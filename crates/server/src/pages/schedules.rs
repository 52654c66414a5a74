//! Schedules: when which job is enqueued; run now, rest, delete.

use http::StatusCode;
use maud::{Markup, html};
use serde::Serialize;
use windlass_engine::core::id::{BudgetName, Key, Kind, QueueName};
use windlass_engine::core::job::JobSpec;
use windlass_engine::core::json::Json;
use windlass_engine::core::policy::schedule::{Missed, Overlap, Schedule, SchedulePolicy};
use windlass_engine::core::time::{Span, Time};
use windlass_report::view::RetryView;
use windlass_report::words::short_id;

use super::bits::{self, encoded, moment, moment_or_dash};
use super::empty;
use super::form::{self, Field};
use super::frame::{Sheet, Watch, answer};
use super::part::Part;
use crate::answer::Answered;
use crate::ask::Ask;
use crate::settings::Role;

const TICK_SECONDS: u32 = 5;

/// `GET /schedules`
pub(super) async fn page(ask: Ask) -> Answered {
    let since = ask.api.store.events_end().await?;
    let now = ask.api.now().await?;
    let schedules = ask.api.store.schedules().await?;
    let part = Part::asked(&ask, &schedules, |schedule| schedule.name.as_str())?;
    let admin = ask.caller.role == Role::Admin;
    let body = html! {
        h1 { "Schedules" }
        @if schedules.is_empty() {
            (empty::none("No schedule yet", "A schedule enqueues a job by a cron line in a time zone, once over the whole fleet:", "windlass schedules set nightly --cron '0 3 * * *' --zone Europe/Berlin --kind report"))
        } @else {
            (table(part.shown, now, admin))
            (part.pages("/schedules", "schedules"))
        }
        @if admin { (form::new("Set a schedule", "/v1/schedules", form::fields(&fields(None)))) }
    };
    let watch = Watch::All { since, ticks: TICK_SECONDS };
    Ok(answer(
        &ask,
        StatusCode::OK,
        Sheet { title: "Schedules".to_owned(), place: "/schedules", watch, now, body },
    ))
}

fn table(schedules: &[Schedule], now: Time, admin: bool) -> Markup {
    html! {
        table.rows.stack.roomy {
            thead { tr {
                th { "schedule" } th { "cron" } th.w { "zone" } th { "job" } th { "next" } th { "last" } th.w { "overlap" }
                @if admin { th { span.hidden { "what can be done" } } }
            } }
            tbody {
                @for schedule in schedules { (row(schedule, now, admin)) }
            }
        }
    }
}

fn row(schedule: &Schedule, now: Time, admin: bool) -> Markup {
    let name = encoded(schedule.name.as_str());
    let policy = &schedule.policy;
    html! {
        tr id={ "s-" (name) } data-row {
            td.text { a href={ "/schedules/" (name) } { (bits::name(schedule.name.as_str())) } @if policy.paused { " " span.tag { "paused" } } }
            td { code { (policy.cron) } }
            td.w { (policy.zone) }
            td.text { a.open href={ "/jobs?kind=" (encoded(policy.job.kind.as_str())) } { (bits::name(policy.job.kind.as_str())) } }
            td data-l="next" title=(later(schedule)) {
                (moment_or_dash(schedule.next_due(), now))
                span.quiet.w { @for at in next(schedule).skip(1) { ", " (moment(at, now)) } }
            }
            td.nowrap data-l="last" {
                (moment_or_dash(schedule.last_run, now)) " "
                @if let Some(job) = schedule.last_job { a.id.w href={ "/jobs/" (job) } title=(job) { (short_id(job)) } }
            }
            td.w { (format!("{:?}", policy.overlap).to_lowercase()) }
            @if admin {
                td.acts { (acts(schedule, None)) }
            }
        }
    }
}

/// What can be done with a schedule. `then`: where to go when it is deleted.
pub(super) fn acts(schedule: &Schedule, then: Option<&str>) -> Markup {
    let (name, policy) = (encoded(schedule.name.as_str()), &schedule.policy);
    html! {
        button type="button" data-post={ "/v1/schedules/" (name) "/run" } data-said="Enqueued"
            data-ask={ "Run " (schedule.name) " now?" } data-more="Its job is enqueued at once, beside the runs that its cron line gives." { "Run now" }
        details.edit {
            summary { "Edit" }
            form.fields data-put={ "/v1/schedules/" (name) } data-said="Set" {
                (form::fields(&fields(Some(schedule))))
                button.main { "Set" }
            }
        }
        button type="button" data-put={ "/v1/schedules/" (name) } data-body=(turned(schedule)) title=[(!policy.paused).then_some("Runs are left out until it is resumed")]
            data-said=(if policy.paused { "It goes on" } else { "At rest" }) { (if policy.paused { "Resume" } else { "Pause" }) }
        button.danger type="button" data-delete={ "/v1/schedules/" (name) } data-said="Deleted" data-then=[then]
            data-ask={ "Delete the schedule " (schedule.name) "?" } data-more="It enqueues nothing any more. Jobs that it enqueued stay." { "Delete" }
    }
}

/// A schedule as the API takes it.
#[derive(Serialize)]
struct Again<'a> {
    cron: &'a str,
    zone: &'a str,
    overlap: Overlap,
    missed: Missed,
    paused: bool,
    job: JobAgain<'a>,
}

/// Its job. What was never said is left out; JSON stays the text that it was.
#[derive(Serialize)]
struct JobAgain<'a> {
    kind: &'a Kind,
    queue: &'a QueueName,
    payload: &'a Json,
    priority: i16,
    budgets: &'a [BudgetName],
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a Key>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry: Option<RetryView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout: Option<Span>,
    #[serde(skip_serializing_if = "Option::is_none")]
    meta: Option<&'a Json>,
}

/// Its next three runs.
fn later(schedule: &Schedule) -> String {
    next(schedule).map(|at| at.to_string()).collect::<Vec<_>>().join("\n")
}

fn next(schedule: &Schedule) -> impl Iterator<Item = Time> {
    std::iter::successors(schedule.next_due(), |at| schedule.policy.next_after(*at)).take(3)
}

/// Its job, as the API takes it.
fn job_again(job: &JobSpec) -> JobAgain<'_> {
    let JobSpec { kind, queue, payload, priority, key, dedupe_key: _, budgets, retry, timeout_ms, meta } =
        job;
    JobAgain {
        kind,
        queue,
        payload,
        priority: *priority,
        budgets,
        key: key.as_ref(),
        retry: retry.clone().map(RetryView::from),
        timeout: timeout_ms.map(Span::from_ms),
        meta: meta.as_ref(),
    }
}

/// The schedule with its rest turned round.
fn turned(schedule: &Schedule) -> String {
    let SchedulePolicy { cron, zone, overlap, missed, paused, job } = &schedule.policy;
    let job = job_again(job);
    let again = Again { cron, zone, overlap: *overlap, missed: *missed, paused: !paused, job };
    serde_json::to_string(&again).unwrap_or_default()
}

fn fields(of: Option<&Schedule>) -> Vec<Field<'static>> {
    let field = |name, label, sort, value, hint| Field { name, label, sort, value, hint };
    let policy = of.map(|schedule| &schedule.policy);
    let text = |value: fn(&SchedulePolicy) -> String| policy.map(value);
    let job = policy.map(|policy| serde_json::to_string_pretty(&job_again(&policy.job)).unwrap_or_default());
    vec![
        field("cron", "cron", "text", text(|policy| policy.cron.clone()), "0 3 * * *"),
        field("zone", "time zone", "text", text(|policy| policy.zone.clone()), "UTC"),
        field(
            "overlap",
            "when the run before is not over",
            "choice:skip,queue",
            text(|policy| word(&policy.overlap)),
            "",
        ),
        field(
            "missed",
            "missed runs, as JSON",
            "json",
            text(|policy| word_json(&policy.missed)),
            r#""last", "skip", {"all": 10}"#,
        ),
        field("paused", "paused", "choice:false,true", text(|policy| policy.paused.to_string()), ""),
        field("job", "job, as JSON", "json", job, r#"{"kind": "report", "queue": "default", "payload": {}}"#),
    ]
}

pub(super) fn word(overlap: &Overlap) -> String {
    format!("{overlap:?}").to_lowercase()
}

pub(super) fn word_json(missed: &Missed) -> String {
    serde_json::to_string(missed).unwrap_or_default()
}
