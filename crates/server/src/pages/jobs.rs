//! The list of jobs: filter, search, select, act.

use http::StatusCode;
use maud::{Markup, html};
use windlass_engine::core::job::Job;
use windlass_engine::core::query::{Cursor, JobFilter, Page};
use windlass_engine::core::state::StateName;
use windlass_engine::core::time::Time;
use windlass_report::view::{Detail, JobView};
use windlass_report::waiting::Split;
use windlass_report::words::{counted, number, short_id};

use super::bits::{dash, encoded, length, moment, outcome, since, state};
use super::counts::Numbers;
use super::filter::View;
use super::frame::{Sheet, Watch, answer};
use super::{empty, life, new_job, views};
use crate::answer::Answered;
use crate::api::list::{PARAMETERS, asked_of};
use crate::api::many::RunView;
use crate::ask::Ask;
use crate::settings::Role;

/// Delays and progress move without events.
const TICK_SECONDS: u32 = 5;

/// `GET /jobs`
pub(super) async fn page(ask: Ask) -> Answered {
    let given = given(&ask)?;
    let asked = asked_of(&ask.api, &given).await?;
    let view = View::new(asked.wanted.clone(), &given);
    let since = ask.api.store.events_end().await?;
    let now = ask.api.now().await?;
    let Page { jobs, next } = asked.page(&ask).await?;
    let shown = |job: Job| {
        let hidden = ask.api.settings.is_sensitive(&job.spec.kind);
        JobView::new(job, Detail::Listed, hidden)
    };
    let jobs: Vec<JobView> = jobs.into_iter().map(shown).collect();
    let admin = ask.caller.role == Role::Admin;
    let known = new_job::known(&ask).await?;
    // What an error says is looked for job by job: that is too dear for a count. And a count tells whether a text is in a
    // payload, which is for those alone who may see into all of them.
    let countable = view.wanted.error.is_none() && (admin || view.wanted.filter.text.is_none());
    let numbers = if countable { Some(ask.api.counts.of(&ask.api, &view).await?) } else { None };
    let saved = views::all(&ask.api).await?;
    let body = html! {
        h1.hidden { "Jobs" }
        (filters(&view))
        (new_job::names(&known))
        (chips(&view, numbers.as_deref()))
        (views::saved(&saved, &view, admin))
        @if admin { (new_job::form(&known)) }
        @if admin { (runs(&ask.api.runs.views())) }
        @if jobs.is_empty() && next.is_none() { (nothing(&view, asked.after)) }
        @else {
            @if admin { (actions(jobs.len(), &view)) }
            (table(&jobs, now, admin))
            (pages(&view, asked.after, next, jobs.len()))
        }
    };
    let watch = Watch::All { since, ticks: TICK_SECONDS };
    let sheet = Sheet { title: title(&view), place: "/jobs", watch, now, body };
    Ok(answer(&ask, StatusCode::OK, sheet))
}

/// What was asked for. A form sends its empty fields, too: these say nothing.
fn given(ask: &Ask) -> Result<Vec<(String, String)>, crate::answer::Refusal> {
    let mut given = ask.query(&PARAMETERS, &["state"])?;
    given.retain(|(_, value)| !value.is_empty());
    Ok(given)
}

fn title(view: &View) -> String {
    let states: Vec<&str> = view.wanted.filter.states.iter().map(|state| state.as_str()).collect();
    format!("Jobs {}", states.join(", ")).trim_end().to_owned()
}

fn filters(view: &View) -> Markup {
    let JobFilter { states, queue, kind, key, since: _, until: _, text } = &view.wanted.filter;
    let joined: Vec<&str> = states.iter().map(|state| state.as_str()).collect();
    html! {
        form.filters #filters action="/jobs" method="get" role="search" {
            input #search type="search" name="text" value=[text.as_deref()] maxlength="200" placeholder="Search id, kind, key, payload   /"
                aria-label="Search" autocomplete="off" spellcheck="false";
            @if !joined.is_empty() { input type="hidden" name="state" value=(joined.join(",")); }
            input name="queue" value=[queue.as_ref()] maxlength="128" placeholder="queue" aria-label="Queue" list="known-queues" autocomplete="off" spellcheck="false";
            input name="kind" value=[kind.as_ref()] maxlength="128" placeholder="kind" aria-label="Kind" list="known-kinds" autocomplete="off" spellcheck="false";
            input name="key" value=[key.as_ref()] maxlength="512" placeholder="key" aria-label="Key" autocomplete="off" spellcheck="false";
            input name="error" value=[view.wanted.error.as_deref()] maxlength="200" placeholder="error" aria-label="Error" autocomplete="off" spellcheck="false";
            (range(view))
            @if let Some(until) = &view.until { input type="hidden" name="until" value=(until); }
            button { "Find" }
        }
    }
}

/// How far back to look; a moment that somebody wrote into the address stays a choice.
fn range(view: &View) -> Markup {
    const RANGES: [(&str, &str); 6] = [
        ("", "any time"),
        ("15m", "last 15 minutes"),
        ("1h", "last hour"),
        ("6h", "last 6 hours"),
        ("1d", "last day"),
        ("7d", "last 7 days"),
    ];
    let said = view.since.as_deref().unwrap_or_default();
    html! {
        select name="since" aria-label="Accepted" {
            @for (span, words) in RANGES { option value=(span) selected[span == said] { (words) } }
            @if RANGES.iter().all(|(span, _)| *span != said) { option value=(said) selected { "since " (said) } }
        }
    }
}

fn chips(view: &View, numbers: Option<&Numbers>) -> Markup {
    let states = &view.wanted.filter.states;
    html! {
        nav.chips aria-label="States" {
            @for each in StateName::ALL {
                a class={ "chip " (each) } href=(view.toggled(each)) aria-current=[states.contains(&each).then_some("true")] {
                    (state(each))
                    @if let Some(numbers) = numbers {
                        @let (count, more) = numbers.of(each);
                        " " span.num { (number(count)) @if more { "+" } }
                    }
                }
            }
            @if let Some(until) = &view.until { span.tag { "until " (until) } }
            @if !view.is_empty() { a href="/jobs" { "clear" } }
            span.right {
                @if let Some(split) = numbers.and_then(|numbers| numbers.split.as_ref()) { (parts(split)) }
                a href="/waiting" { "waiting, by reason" }
            }
        }
    }
}

/// What is queued, in four words.
fn parts(split: &Split) -> Markup {
    let Split { due, later, retrying, blocked, of_newest } = split;
    let parts = [("due", due), ("later", later), ("retrying", retrying), ("blocked", blocked)];
    html! {
        span.quiet #split {
            @if let Some(looked) = of_newest { "of the newest " (number(*looked)) ": " }
            @for (at, (word, count)) in parts.into_iter().filter(|(_, count)| **count > 0).enumerate() {
                @if at > 0 { " · " }
                span.num { (number(*count)) } " " (word)
            }
        }
    }
}

/// Acts on the rows that are selected, or on all that match; `many.js` says on which.
fn actions(shown: usize, view: &View) -> Markup {
    html! {
        div.actions #actions data-filter=(view.as_json()) {
            label { input #select-all type="checkbox" aria-label="Select the rows shown"; span #selected { "select the " (shown) " shown" } }
            button.plain #match-all type="button" { "or all that match" }
            button type="button" data-many="cancel" { "Cancel …" }
            button type="button" data-many="retry" { "Retry …" }
            button type="button" data-many="run" { "Run now …" }
            button.danger type="button" data-many="delete" { "Delete …" }
        }
    }
}

/// The runs that are going on.
fn runs(runs: &[RunView]) -> Markup {
    html! {
        @for run in runs.iter().filter(|run| run.state == "running") {
            p.run id={ "run-" (run.id) } {
                (doing(run.does)) " many: "
                span.num { (number(run.done)) } " done, " span.num { (number(run.refused)) } " refused, at " (run.pace) " per second. "
                button type="button" data-post={ "/v1/retries/" (run.id) "/stop" } data-said="Stopped" { "Stop" }
            }
        }
    }
}

/// What a run is about.
fn doing(does: &str) -> &'static str {
    match does {
        "cancel" => "Canceling",
        "run" => "Making due",
        "delete" => "Deleting",
        _ => "Retrying",
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
            td { (state(job.state)) @if let Some(word) = waits(job, now) { " " span.quiet.w { (word) } } }
            td.kind title=(job.kind) { a.open href={ "/jobs/" (id) } { (job.kind) } }
            td.w title=(job.queue) { a href={ "/jobs?queue=" (encoded(job.queue.as_str())) } { (job.queue) } }
            td.w title=[job.key.as_ref()] { @if let Some(key) = &job.key { a href={ "/jobs?key=" (encoded(key.as_str())) } { (key) } } @else { (dash()) } }
            td.num.w { (job.attempt) }
            td.text.detail { (detail(job, now)) }
            td.nowrap { (moment(job.created_at, now)) }
            td.num.w { (took(job, now)) }
            td.w { a.id href={ "/jobs/" (id) } title=(id) { (short_id(job.id)) } }
        }
    }
}

/// Which sort of queued a job is, as far as its time says.
fn waits(job: &JobView, now: Time) -> Option<&'static str> {
    let waits = job.state == StateName::Queued && job.run_at > now;
    waits.then_some(if job.attempt > 0 { "retrying" } else { "later" })
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

fn nothing(view: &View, after: Option<Cursor>) -> Markup {
    if view.is_empty() && after.is_none() {
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

fn pages(view: &View, after: Option<Cursor>, next: Option<Cursor>, shown: usize) -> Markup {
    html! {
        p.pages {
            span.quiet { (counted(shown as u64, "job")) ", newest first" }
            @if after.is_some() { a href=(view.address(None)) { "← newest" } }
            @if next.is_some() { a rel="next" href=(view.address(next)) { "older →" } }
        }
    }
}
