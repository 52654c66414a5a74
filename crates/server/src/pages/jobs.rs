//! The list of jobs: filter, search, select, act.

use http::StatusCode;
use maud::{Markup, html};
use windlass_engine::core::job::Job;
use windlass_engine::core::query::{Cursor, JobFilter, Page};
use windlass_engine::core::state::StateName;
use windlass_engine::core::time::Time;

use super::bits::{dash, encoded, length, moment, number, outcome, short_id, since, state};
use super::frame::{Sheet, Watch, answer};
use super::{empty, filter, life, new_job};
use crate::answer::Answered;
use crate::api::list::{PARAMETERS, may_match, request_of};
use crate::api::many::RunView;
use crate::ask::Ask;
use crate::settings::Role;
use crate::view::{Detail, JobView};

/// Delays and progress move without events.
const TICK_SECONDS: u32 = 5;

/// `GET /jobs`
pub(super) async fn page(ask: Ask) -> Answered {
    let request = request_of(&given(&ask)?)?;
    let (wanted, after) = (request.filter.clone(), request.after);
    let since = ask.api.store.events_end().await?;
    let now = ask.api.now().await?;
    let Page { jobs, next } = ask.api.store.list(request).await?;
    let text = wanted.text.as_deref();
    let shown = jobs.into_iter().filter(|job| may_match(&ask.api, &ask.caller, job, text));
    let view = |job: Job| {
        let hidden = ask.api.settings.is_sensitive(&job.spec.kind);
        JobView::new(job, Detail::Listed, hidden)
    };
    let jobs: Vec<JobView> = shown.map(view).collect();
    let admin = ask.caller.role == Role::Admin;
    let known = if admin { Some(new_job::known(&ask).await?) } else { None };
    let body = html! {
        h1.hidden { "Jobs" }
        (filters(&wanted))
        @if let Some(known) = &known { (new_job::form(known)) }
        @if admin { (runs(&ask.api.runs.views())) }
        @if jobs.is_empty() && next.is_none() { (nothing(&wanted, after)) }
        @else {
            @if admin { (actions(jobs.len())) }
            (table(&jobs, now, admin))
            (pages(&wanted, after, next, jobs.len()))
        }
    };
    let watch = Watch::All { since, ticks: TICK_SECONDS };
    let sheet = Sheet { title: title(&wanted), place: "/jobs", watch, now, body };
    Ok(answer(&ask, StatusCode::OK, sheet))
}

/// What was asked for. A form sends its empty fields, too: these say nothing.
fn given(ask: &Ask) -> Result<Vec<(String, String)>, crate::answer::Refusal> {
    let mut given = ask.query(&PARAMETERS, &["state"])?;
    given.retain(|(_, value)| !value.is_empty());
    Ok(given)
}

fn title(wanted: &JobFilter) -> String {
    let states: Vec<&str> = wanted.states.iter().map(|state| state.as_str()).collect();
    format!("Jobs {}", states.join(", ")).trim_end().to_owned()
}

fn filters(wanted: &JobFilter) -> Markup {
    let JobFilter { states, queue, kind, key, since, until, text } = wanted;
    let joined: Vec<&str> = states.iter().map(|state| state.as_str()).collect();
    html! {
        form.filters #filters action="/jobs" method="get" role="search" {
            input #search type="search" name="text" value=[text.as_deref()] maxlength="200" placeholder="Search id, kind, key, payload   /"
                aria-label="Search" autocomplete="off" spellcheck="false";
            @if !joined.is_empty() { input type="hidden" name="state" value=(joined.join(",")); }
            input name="queue" value=[queue.as_ref()] maxlength="128" placeholder="queue" aria-label="Queue" autocomplete="off" spellcheck="false";
            input name="kind" value=[kind.as_ref()] maxlength="128" placeholder="kind" aria-label="Kind" autocomplete="off" spellcheck="false";
            input name="key" value=[key.as_ref()] maxlength="512" placeholder="key" aria-label="Key" autocomplete="off" spellcheck="false";
            @if let Some(since) = since { input type="hidden" name="since" value=(since); }
            @if let Some(until) = until { input type="hidden" name="until" value=(until); }
            button { "Find" }
        }
        nav.chips aria-label="States" {
            @for each in StateName::ALL {
                a class={ "chip " (each) } href=(filter::toggled(wanted, each)) aria-current=[states.contains(&each).then_some("true")] { (state(each)) }
            }
            @if let Some(since) = since { span.tag { "since " (since) } }
            @if let Some(until) = until { span.tag { "until " (until) } }
            @if !filter::is_empty(wanted) { a href="/jobs" { "clear" } }
            a.right href="/waiting" { "waiting, by reason" }
        }
    }
}

/// Acts on the rows that are selected, or on all that match; `many.js` says on which.
fn actions(shown: usize) -> Markup {
    html! {
        div.actions #actions {
            label { input #select-all type="checkbox" aria-label="Select the rows shown"; span #selected { "select the " (shown) " shown" } }
            button.plain #match-all type="button" { "or all that match" }
            button type="button" data-many="cancel" { "Cancel …" }
            button type="button" data-many="retry" { "Retry …" }
        }
    }
}

/// The runs that are going on.
fn runs(runs: &[RunView]) -> Markup {
    html! {
        @for run in runs.iter().filter(|run| run.state == "running") {
            p.run id={ "run-" (run.id) } {
                (if run.does == "cancel" { "Canceling" } else { "Retrying" }) " many: "
                span.num { (number(run.done)) } " done, " span.num { (number(run.refused)) } " refused, at " (run.pace) " per second. "
                button type="button" data-post={ "/v1/retries/" (run.id) "/stop" } data-said="Stopped" { "Stop" }
            }
        }
    }
}

fn table(jobs: &[JobView], now: Time, admin: bool) -> Markup {
    html! {
        table.rows.jobs {
            thead { tr {
                @if admin { th.pick { span.hidden { "select" } } }
                th { "state" } th { "kind" } th.w { "queue" } th.w { "key" } th.num.w { "attempt" } th { span.hidden { "more" } }
                th { "accepted" } th.num.w { "took" } th.w { "id" }
            } }
            tbody {
                @for job in jobs { (row(job, now, admin)) }
            }
        }
    }
}

fn row(job: &JobView, now: Time, admin: bool) -> Markup {
    let id = job.id.to_string();
    html! {
        tr id={ "j-" (id) } data-row data-id=(id) data-state=(job.state) {
            @if admin { td.pick { input type="checkbox" aria-label={ "Select " (id) }; } }
            td { (state(job.state)) }
            td.kind title=(job.kind) { a.open href={ "/jobs/" (id) } { (job.kind) } }
            td.w title=(job.queue) { a href={ "/jobs?queue=" (encoded(job.queue.as_str())) } { (job.queue) } }
            td.w title=[job.key.as_ref()] { @if let Some(key) = &job.key { a href={ "/jobs?key=" (encoded(key.as_str())) } { (key) } } @else { (dash()) } }
            td.num.w { (job.attempt) }
            td.text.detail { (detail(job, now)) }
            td.nowrap { (moment(job.created_at, now)) }
            td.num.w { (took(job, now)) }
            td.w { a.id href={ "/jobs/" (id) } title=(id) { (short_id(&id)) } }
        }
    }
}

/// The one thing to know of a job in this state.
fn detail(job: &JobView, now: Time) -> Markup {
    let error = job.error.as_deref().and_then(|error| error.lines().next());
    match job.state {
        StateName::Running => html! {
            @if let Some(progress) = &job.progress { (life::progress(progress.as_str())) }
            @if job.lease.as_ref().is_some_and(|lease| lease.cancel_requested) { " " (outcome("cancel_requested")) }
        },
        StateName::Queued => html! {
            @if job.run_at > now { "due " (moment(job.run_at, now)) " " }
            @if let Some(error) = error { span.quiet { (error) } }
        },
        StateName::Failed => html! { @if let Some(error) = error { (error) } },
        StateName::Completed | StateName::Canceled => html! {},
    }
}

fn took(job: &JobView, now: Time) -> Markup {
    match (job.started_at, job.ended_at) {
        (Some(started), Some(ended)) => html! { (length(ended.ms_since(started))) },
        (Some(started), None) if job.state == StateName::Running => since(started, now),
        _ => dash(),
    }
}

fn nothing(wanted: &JobFilter, after: Option<Cursor>) -> Markup {
    if filter::is_empty(wanted) && after.is_none() {
        return empty::none(
            "No job yet",
            "A job is enqueued by a program, by the API or by hand:",
            "windlass enqueue hello '{\"name\": \"Ada\"}'",
        );
    }
    html! {
        section.empty { h2 { "No job matches" } p { a href="/jobs" { "Show all jobs" } } }
    }
}

fn pages(wanted: &JobFilter, after: Option<Cursor>, next: Option<Cursor>, shown: usize) -> Markup {
    html! {
        p.pages {
            span.quiet { (shown) @if shown == 1 { " job" } @else { " jobs" } ", newest first" }
            @if after.is_some() { a href=(filter::address(wanted, None)) { "← newest" } }
            @if next.is_some() { a rel="next" href=(filter::address(wanted, next)) { "older →" } }
        }
    }
}
