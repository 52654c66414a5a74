//! One schedule: its next runs, and what became of the last ones.
//!
//! The id of a run's job follows from the schedule and the moment, so that its history is found again and never kept: what
//! has no job was left out, and why is told by its pauses, by the run before it and by the rules of the schedule. Jobs that
//! somebody had made of it by hand are known by their ids as well, among the newest of its kind.

use http::StatusCode;
use maud::{Markup, html};
use windlass_engine::core::id::JobId;
use windlass_engine::core::job::{Job, JobSpec};
use windlass_engine::core::policy::schedule::{Missed, Overlap, Schedule};
use windlass_engine::core::query::{JobFilter, ListRequest, PAGE_MAX};
use windlass_engine::core::time::Time;
use windlass_report::words::short_id;

use super::bits::{self, dash, encoded, length, moment, state};
use super::frame::{Sheet, Watch, answer};
use super::schedules;
use crate::answer::{Answered, Refusal};
use crate::ask::Ask;
use crate::settings::Role;

const TICK_SECONDS: u32 = 5;
/// How many runs are looked back at: each is a question to the store.
const RUNS_MAX: usize = 30;
/// How many runs are looked ahead.
const NEXT_MAX: usize = 3;

/// A run that was, with its job where it has one.
struct Past {
    run: Time,
    job: Option<Job>,
    /// Somebody asked for it, and not the cron line.
    by_hand: bool,
}

/// `GET /schedules/{name}`
pub(super) async fn page(ask: Ask) -> Answered {
    let since = ask.api.store.events_end().await?;
    let now = ask.api.now().await?;
    let name = ask.segment("name").to_owned();
    let all = ask.api.store.schedules().await?;
    let schedule = all.into_iter().find(|schedule| schedule.name.as_str() == name);
    let schedule = schedule.ok_or_else(|| Refusal::not_found("schedule"))?;
    let past = look_back(&ask, &schedule, now).await?;
    let body = html! {
        p { a href="/schedules" { "← schedules" } }
        div.head {
            h1 { (schedule.name) } @if schedule.policy.paused { span.tag { "paused" } }
            @if ask.caller.role == Role::Admin { span.acts.right { (schedules::acts(&schedule, Some("/schedules"))) } }
        }
        dl.facts {
            div { dt { "cron" } dd { code { (schedule.policy.cron) } } }
            div { dt { "zone" } dd { (schedule.policy.zone) } }
            div { dt { "job" } dd { a href={ "/jobs?kind=" (encoded(schedule.policy.job.kind.as_str())) } { (bits::name(schedule.policy.job.kind.as_str())) } } }
            div { dt { "overlap" } dd { (schedules::word(&schedule.policy.overlap)) } }
            div { dt { "missed runs" } dd { (schedules::word_json(&schedule.policy.missed).replace('"', "")) } }
        }
        section { h2 { "Next runs" } (ahead(&schedule, now)) }
        section { h2 { "Last runs" } (behind(&schedule, &past, now)) }
    };
    let watch = Watch::All { since, ticks: TICK_SECONDS };
    let sheet = Sheet { title: schedule.name.to_string(), place: "/schedules", watch, now, body };
    Ok(answer(&ask, StatusCode::OK, sheet))
}

/// The last runs, newest first, up to the oldest of which anything is known.
async fn look_back(ask: &Ask, schedule: &Schedule, now: Time) -> Result<Vec<Past>, Refusal> {
    let mut past = Vec::new();
    // Nobody deals with the runs of a pause until it is over.
    let until = if schedule.policy.paused { now } else { schedule.settled_to };
    for run in schedule.runs_before(until, RUNS_MAX) {
        past.push(Past { run, job: ask.api.store.get(schedule.id_for(run)).await?, by_hand: false });
    }
    let is_known = |past: &Past| past.job.is_some() || schedule.rested_at(past.run);
    let known = past.iter().rposition(is_known).map_or(0, |at| at + 1);
    past.truncate(known);
    past.extend(by_hand(ask, schedule, &past).await?);
    past.sort_by_key(|past| std::cmp::Reverse(past.run));
    past.truncate(RUNS_MAX);
    Ok(past)
}

/// Jobs that were asked for by hand.
async fn by_hand(ask: &Ask, schedule: &Schedule, runs: &[Past]) -> Result<Vec<Past>, Refusal> {
    let JobSpec { kind, queue, .. } = &schedule.policy.job;
    let filter = JobFilter { kind: Some(kind.clone()), queue: Some(queue.clone()), ..JobFilter::default() };
    let newest = ListRequest { filter, limit: PAGE_MAX, after: None };
    let jobs = ask.api.store.list(newest).await?.jobs;
    let is_run = |id: JobId| runs.iter().any(|past| past.job.as_ref().is_some_and(|job| job.id == id));
    let asked = |job: Job| {
        let run = schedule.asked_for(job.id, job.created_at).filter(|_| !is_run(job.id))?;
        Some(Past { run, job: Some(job), by_hand: true })
    };
    Ok(jobs.into_iter().filter_map(asked).collect())
}

fn ahead(schedule: &Schedule, now: Time) -> Markup {
    let runs: Vec<Time> = std::iter::successors(schedule.next_due(), |at| schedule.policy.next_after(*at))
        .take(NEXT_MAX)
        .collect();
    html! {
        @if runs.is_empty() { p.quiet { (if schedule.policy.paused { "None while it is paused." } else { "None: its cron line names no moment to come." }) } }
        @else { ul.plain { @for run in runs { li { (moment(run, now)) " " span.quiet { (run) } } } } }
    }
}

fn behind(schedule: &Schedule, past: &[Past], now: Time) -> Markup {
    html! {
        @if past.is_empty() { p.quiet { (if schedule.last_run.is_none() { "It has not run yet." } else { "No job of a run is kept: they go with the retention of their queue." }) } }
        @else {
            table.rows {
                thead { tr { th { "run" } th { "job" } th.num { "began late by" } th.num { "took" } th { "id" } } }
                tbody { @for (at, one) in past.iter().enumerate() { (row(schedule, one, past.get(at + 1..).unwrap_or_default(), now)) } }
            }
        }
    }
}

fn row(schedule: &Schedule, one: &Past, before: &[Past], now: Time) -> Markup {
    html! {
        tr data-row {
            td.nowrap title=(one.run) { (moment(one.run, now)) }
            @match &one.job {
                Some(job) => {
                    td { (state(job.state.name())) @if one.by_hand { " " span.tag { "by hand" } } }
                    td.num { @if let Some(at) = job.started_at { (length(at.ms_since(one.run))) } @else { (dash()) } }
                    td.num { @if let (Some(from), Some(to)) = (job.started_at, job.state.ended_at()) { (length(to.ms_since(from))) } @else { (dash()) } }
                    td { a.open.id href={ "/jobs/" (job.id) } title=(job.id) { (short_id(job.id)) } }
                }
                None => { td.text colspan="4" { span.quiet { "left out: " (why(schedule, one.run, before)) } } }
            }
        }
    }
}

/// Why a run has no job.
fn why(schedule: &Schedule, run: Time, before: &[Past]) -> String {
    if schedule.rested_at(run) {
        return "the schedule was paused".to_owned();
    }
    let open_then = before
        .iter()
        .filter_map(|past| past.job.as_ref())
        .find(|job| job.created_at <= run && job.state.ended_at().is_none_or(|ended| ended > run));
    match (schedule.policy.overlap, open_then, schedule.policy.missed) {
        (Overlap::Skip, Some(job), _) => {
            format!("the job of an earlier run, {}, was not over", short_id(job.id))
        }
        (_, _, Missed::Skip) => "nobody was there to fire it in time, and missed runs are skipped".to_owned(),
        (_, _, Missed::Last) => "nobody was there to fire it in time, and of missed runs only the last is made up for; or its job was deleted".to_owned(),
        (_, _, Missed::All(cap)) => {
            format!("nobody was there to fire it in time, and at most {cap} missed runs are made up for; or its job was deleted")
        }
    }
}
