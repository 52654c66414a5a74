//! One job with all that is known of it.

use http::StatusCode;
use maud::{Markup, html};
use windlass_engine::core::state::StateName;
use windlass_engine::core::time::Time;
use windlass_report::view::{Detail, JobView};
use windlass_report::words::{agreeing, counted, number};

use super::bits::{self, budget_at, encoded, length, moment, moment_or_dash, state};
use super::frame::{Sheet, Watch, answer};
use super::{json_text, life, new_job, why};
use crate::answer::{Answered, Refusal};
use crate::api::log::{LogView, logs};
use crate::ask::Ask;
use crate::settings::Role;

/// Progress is no event: a running job is looked at this often.
const TICK_SECONDS: u32 = 1;

/// `GET /jobs/{id}`
pub(super) async fn page(ask: Ask) -> Answered {
    let id = ask.id()?;
    let since = ask.api.store.events_end().await?;
    let now = ask.api.now().await?;
    let gone = || Refusal::not_found("job; it may have been deleted by its queue's retention");
    let job = ask.api.store.get(id).await?.ok_or_else(gone)?;
    let explanation = ask.api.store.explain(id).await?;
    let why = explanation.and_then(|explanation| why::line(&explanation, &job, now));
    let hidden = ask.api.hides(&job.spec.kind, &ask.caller);
    let logs = if hidden { Vec::new() } else { logs(&ask.api, id).await? };
    let job = JobView::new(job, Detail::Full, hidden);
    let admin = ask.caller.role == Role::Admin;
    let watch = Watch::Job { id, since, ticks: if job.state.is_final() { 0 } else { TICK_SECONDS } };
    let title = format!("{} {}", job.kind, job.state);
    let sheet = Sheet { title, place: "/jobs", watch, now, body: show(&job, why, &logs, now, admin) };
    Ok(answer(&ask, StatusCode::OK, sheet))
}

fn show(job: &JobView, why: Option<Markup>, logs: &[LogView], now: Time, admin: bool) -> Markup {
    let id = job.id.to_string();
    html! {
        div.head {
            h1 { (state(job.state)) " " span.kind { (job.kind) } }
            span.id { (id) } button.copy type="button" data-copy=(id) { "Copy" }
            @if admin { span.right { (new_job::again(job)) (buttons(job, &id, now)) } }
        }
        @if let Some(why) = why { p.why #why { (why) } }
        @if let Some(reason) = &job.failure_reason {
            p.why.bad { "Failed: " (reason.as_str().replace('_', " ")) "."
                @if let Some(error) = &job.error { " " (json_text::folded(error)) } }
        }
        @if let Some(progress) = job.progress.as_ref().filter(|_| job.state != StateName::Completed) { p.progress { "Progress " (life::progress(progress.as_str())) } }
        (facts(job, now))
        section { h2 { "Timeline" } (life::timeline(job, now, admin)) }
        (output(job, logs, now))
        div.two {
            (part("Payload", "payload", job.payload.as_ref().map(|json| json.as_str()), job))
            @if job.result.is_some() || job.folded.contains(&"result") {
                (part("Result", "result", job.result.as_ref().map(|json| json.as_str()), job))
            }
            @if job.meta.is_some() || job.folded.contains(&"meta") {
                (part("Meta", "meta", job.meta.as_ref().map(|json| json.as_str()), job))
            }
        }
    }
}

/// What its newest attempts said, the newest first.
fn output(job: &JobView, logs: &[LogView], now: Time) -> Markup {
    let attempts = job.attempts.as_deref().unwrap_or_default();
    let attempt_of =
        |fence: u64| attempts.iter().find(|attempt| attempt.fence == fence).map(|found| found.attempt);
    html! {
        @if !logs.is_empty() {
            section #output {
                h2 { "Output" }
                @for (at, log) in logs.iter().rev().enumerate() {
                    details.output id={ "log-" (log.fence) } open[at == 0] {
                        summary {
                            @if let Some(attempt) = attempt_of(log.fence) { "attempt " (attempt) } @else { "an earlier attempt" }
                            span.quiet { " written " (moment(log.written_at, now)) }
                        }
                        div.json {
                            button.copy type="button" data-copy=(log.text) { "Copy" }
                            @if log.dropped > 0 { p.quiet { (counted(log.dropped, "byte")) " before this " (agreeing(log.dropped, "is", "are")) " not kept" } }
                            pre tabindex="0" { (log.text) }
                        }
                    }
                }
            }
        }
    }
}

fn buttons(job: &JobView, id: &str, now: Time) -> Markup {
    html! {
        @if job.state == StateName::Queued && job.run_at > now {
            button type="button" data-post={ "/v1/jobs/" (id) "/run" } data-said="It is due now"
                data-ask="Run this job now?" data-more="It is due at once. A key, a limit, a pause or a budget may hold it still." { "Run now" }
        }
        @if job.state.is_final() {
            button type="button" data-post={ "/v1/jobs/" (id) "/retry" } data-said="Retried: it has a new life"
                data-ask={ "Retry this job?" } data-more="It starts a new life from attempt 1. Steps that are stored are not run again." { "Retry" }
        } @else {
            button.danger type="button" data-post={ "/v1/jobs/" (id) "/cancel" } data-said="Cancel asked for"
                data-ask="Cancel this job?" data-more="A queued job ends at once. A running one is told to stop, waited for, then stopped." { "Cancel" }
        }
        @if job.state != StateName::Running {
            button.danger type="button" data-delete={ "/v1/jobs/" (id) } data-said="Deleted" data-then="/jobs"
                data-ask="Delete this job?" data-more="It is gone with its steps, its history and what it said, and cannot be had back." { "Delete" }
        }
    }
}

fn part(title: &str, field: &str, json: Option<&str>, job: &JobView) -> Markup {
    html! {
        section {
            h2 { (title) }
            @if let Some(json) = json { (json_text::block(field, json)) }
            @else if job.folded.contains(&field) { p.quiet { "Hidden: the kind is sensitive, and only an admin sees into it." } }
            @else { p.quiet { "None." } }
        }
    }
}

fn facts(job: &JobView, now: Time) -> Markup {
    let fact = |name: &str, value: Markup| html! { div { dt { (name) } dd { (value) } } };
    html! {
        dl.facts {
            (fact("queue", html! { a href={ "/jobs?queue=" (encoded(job.queue.as_str())) } { (bits::name(job.queue.as_str())) } }))
            @if let Some(key) = &job.key {
                (fact("key", html! { a href={ "/jobs?key=" (encoded(key.as_str())) } { (key) } }))
            }
            @if let Some(key) = &job.dedupe_key { (fact("dedupe key", html! { (key) })) }
            (fact("priority", html! { (job.priority) }))
            (fact("attempt", html! { (job.attempt) @if job.retries > 0 { " (life " (job.retries + 1) ")" } }))
            @if job.crashes > 0 { (fact("crashes", html! { (job.crashes) })) }
            (fact("accepted", moment(job.created_at, now)))
            @if job.run_at != job.created_at { (fact("due", moment(job.run_at, now))) }
            (fact("started", moment_or_dash(job.started_at, now)))
            (fact("ended", moment_or_dash(job.ended_at, now)))
            @if let (Some(started), Some(ended)) = (job.started_at, job.ended_at) {
                (fact("took", html! { (length(ended.ms_since(started))) }))
            }
            @if let Some(worker) = &job.worker { (fact("worker", html! { (worker) })) }
            @if job.fence > 0 { (fact("fence", html! { (number(job.fence)) })) }
            @if let Some(lease) = &job.lease { (fact("lease", html! { "runs out " (moment(lease.expires_at, now)) })) }
            @if !job.budgets.is_empty() {
                (fact("budgets", html! {
                    @for budget in &job.budgets { a href=(budget_at(budget.as_str())) { (budget) } " " }
                }))
            }
            @if let Some(retry) = &job.retry { (fact("ladder", html! { (retry.ladder) })) }
            @if let Some(timeout) = &job.timeout { (fact("timeout", html! { (timeout) })) }
        }
    }
}
