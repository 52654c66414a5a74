//! The life of a job: its attempts and steps along one line of time.

use maud::{Markup, html};
use windlass_engine::core::id::JobId;
use windlass_engine::core::job::HISTORY_MAX;
use windlass_engine::core::state::StateName;
use windlass_engine::core::time::Time;
use windlass_report::view::{AttemptView, JobView, StepView};

use super::bits::{dash, length, moment, outcome, since};
use super::json_text;
use super::scale::Scale;

/// The longest progress that is shown as text.
const PROGRESS_CHARS_MAX: usize = 80;

/// How far a handler is: as a bar when it says `done` and `of`, else as it said it.
pub(super) fn progress(json: &str) -> Markup {
    let value: serde_json::Value = serde_json::from_str(json).unwrap_or_default();
    let number =
        |name: &str| value.get(name).and_then(serde_json::Value::as_f64).filter(|number| *number >= 0.0);
    if let (Some(done), Some(of)) = (number("done"), number("of").or_else(|| number("total")))
        && of > 0.0
    {
        return html! {
            progress max=(of) value=(done.min(of)) {} " " span.num { (done) " of " (of) }
        };
    }
    let mut text: String = json.chars().take(PROGRESS_CHARS_MAX).collect();
    if text.len() < json.len() {
        text.push('…');
    }
    html! { code { (text) } }
}

/// The attempts, each with its steps.
pub(super) fn timeline(job: &JobView, now: Time, admin: bool) -> Markup {
    let attempts = job.attempts.as_deref().unwrap_or_default();
    let steps = job.steps.as_deref().unwrap_or_default();
    let to = job.ended_at.unwrap_or(now);
    let ran =
        attempts.iter().filter_map(|attempt| Some((attempt.started_at?, attempt.ended_at.unwrap_or(to))));
    let line = Scale::new(job.created_at, to, ran);
    let first = attempts.iter().find_map(|attempt| attempt.started_at);
    let cut = job.cut == Some(true);
    let again = (admin && job.state.is_final()).then_some(job.id);
    html! {
        table.rows.life {
            thead { tr { th { "what" } th { "when" } th.num { "took" } th.line { (length(line.whole_ms())) " in all" @if line.is_folded() { ", long waits are folded" } } th { span.hidden { "more" } } } }
            tbody {
                tr {
                    td { (outcome("enqueued")) }
                    td.nowrap { (moment(job.created_at, now)) }
                    td.num {
                        @if cut { (dash()) }
                        @else if let Some(at) = first { (length(at.ms_since(job.created_at))) }
                        @else { (since(job.created_at, now)) }
                    }
                    td.line { @if cut { (line.bar(job.created_at, job.created_at, "queued")) } @else { (line.bar(job.created_at, first.unwrap_or(line.to()), "queued")) } }
                    td {}
                }
                @if cut {
                    tr {
                        td { span.quiet { "earlier attempts" } }
                        td {}
                        td.num { (dash()) }
                        td.line { (line.bar(job.created_at, first.unwrap_or(line.to()), "cut")) }
                        td.text { span.quiet { "no longer known: the newest " (HISTORY_MAX) " things that happened to a job are kept" } }
                    }
                }
                @for (at, attempt) in attempts.iter().enumerate() {
                    (attempt_rows(attempt, steps, &line, again, now))
                    (wait_row(job, attempt, attempts.get(at + 1), &line, now))
                }
                @if let Some(timeline) = &job.timeline {
                    // What somebody did to it, and an end that no attempt tells of.
                    @for entry in timeline.iter().filter(|entry| !told(entry.what, attempts)) {
                        tr { td { (outcome(entry.what)) } td.nowrap { (moment(entry.at, now)) } td.num {} td.line { (line.bar(entry.at, entry.at, "queued")) } td {} }
                    }
                }
            }
        }
    }
}

/// How long a job waited behind an attempt for the next, or waits.
fn wait_row(
    job: &JobView,
    attempt: &AttemptView,
    next: Option<&AttemptView>,
    line: &Scale,
    now: Time,
) -> Markup {
    let waits = next.is_none() && job.state == StateName::Queued;
    let until = next.and_then(|next| next.started_at).or_else(|| waits.then_some(line.to()));
    let Some((from, until)) = attempt.ended_at.zip(until).filter(|(from, until)| until > from) else {
        return html! {};
    };
    html! {
        tr.wait {
            td { span.indent { (outcome(if waits { "waits" } else { "waited" })) } }
            td.nowrap { (moment(from, now)) }
            td.num { @if waits { (since(from, now)) } @else { (length(until.ms_since(from))) } }
            td.line { (line.bar(from, until, "queued")) }
            td { @if waits && job.run_at > now { span.quiet { "due " (moment(job.run_at, now)) } } }
        }
    }
}

fn told(what: &str, attempts: &[AttemptView]) -> bool {
    matches!(what, "enqueued" | "claimed" | "step") || attempts.iter().any(|attempt| attempt.outcome == what)
}

/// `again`: the job, when it can be run again from its steps.
fn attempt_rows(
    attempt: &AttemptView,
    steps: &[StepView],
    line: &Scale,
    again: Option<JobId>,
    now: Time,
) -> Markup {
    let begun = attempt.started_at.unwrap_or(line.from());
    let ended = attempt.ended_at.unwrap_or(now);
    let own = steps
        .iter()
        .filter(|step| step.attempt == attempt.attempt && step.stored_at >= begun && step.stored_at <= ended);
    let mut from = begun;
    html! {
        tr {
            td { (outcome(attempt.outcome)) " " span.quiet { "attempt " (attempt.attempt) } }
            td.nowrap { (moment(begun, now)) }
            td.num { @if attempt.ended_at.is_some() { (length(ended.ms_since(begun))) } @else { (since(begun, now)) } }
            td.line { (line.bar(begun, ended, attempt.outcome)) }
            td.text {
                @if let Some(error) = &attempt.error { (json_text::folded(error)) }
                @else if let Some(worker) = &attempt.worker { span.quiet { (worker) } }
            }
        }
        @for step in own {
            tr.step {
                td { span.indent { (outcome("step")) " " b { (step.name) } } }
                td.nowrap { (moment(step.stored_at, now)) }
                td.num { (length(step.stored_at.ms_since(from))) }
                td.line { (line.bar(std::mem::replace(&mut from, step.stored_at), step.stored_at, "step")) }
                td { @if let Some(id) = again { (rerun(id, step)) } (output(step)) }
            }
        }
    }
}

/// Runs the job again from a step.
fn rerun(id: JobId, step: &StepView) -> Markup {
    let body = serde_json::json!({ "from": step.name }).to_string();
    html! {
        button.plain type="button" data-post={ "/v1/jobs/" (id) "/rerun" } data-body=(body) data-said="It has a new life from this step on"
            data-ask={ "Run this job again from " (step.name) "?" }
            data-more="It starts a new life. This step and all that were stored after it are run again; those before it are kept." { "run again from here" }
    }
}

fn output(step: &StepView) -> Markup {
    html! { details.text { summary { "output" } (json_text::block("output", step.output.as_str())) } }
}
