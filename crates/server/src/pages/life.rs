//! The life of a job: its attempts and steps along one line of time.

use maud::{Markup, html};
use windlass_engine::core::id::JobId;
use windlass_engine::core::job::HISTORY_MAX;
use windlass_engine::core::time::Time;

use super::bits::{dash, length, moment, outcome, since};
use super::json_text;
use crate::view::{AttemptView, JobView, StepView};

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
    let line = Scale { from: job.created_at, to: job.ended_at.unwrap_or(now) };
    let first = attempts.iter().find_map(|attempt| attempt.started_at);
    let cut = job.cut == Some(true);
    let again = (admin && job.state.is_final()).then_some(job.id);
    html! {
        table.rows.life {
            thead { tr { th { "what" } th { "when" } th.num { "took" } th.line { (length(line.to.ms_since(line.from))) " in all" } th { span.hidden { "more" } } } }
            tbody {
                tr {
                    td { (outcome("enqueued")) }
                    td.nowrap { (moment(job.created_at, now)) }
                    td.num {
                        @if cut { (dash()) }
                        @else if let Some(at) = first { (length(at.ms_since(job.created_at))) }
                        @else { (since(job.created_at, now)) }
                    }
                    td.line { @if cut { (line.bar(job.created_at, job.created_at, "queued")) } @else { (line.bar(job.created_at, first.unwrap_or(line.to), "queued")) } }
                    td {}
                }
                @if cut {
                    tr {
                        td { span.quiet { "earlier attempts" } }
                        td {}
                        td.num { (dash()) }
                        td.line { (line.bar(job.created_at, first.unwrap_or(line.to), "cut")) }
                        td.text { span.quiet { "no longer known: the newest " (HISTORY_MAX) " things that happened to a job are kept" } }
                    }
                }
                @for attempt in attempts { (attempt_rows(attempt, steps, &line, again, now)) }
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
    let begun = attempt.started_at.unwrap_or(line.from);
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

/// From the acceptance of a job to its end.
struct Scale {
    from: Time,
    to: Time,
}

impl Scale {
    fn bar(&self, from: Time, to: Time, class: &str) -> Markup {
        let whole = self.to.ms_since(self.from).max(1) as f64;
        let at = |time: Time| (time.ms_since(self.from) as f64 / whole * 100.0).min(100.0);
        // What is short stays visible.
        let width = (at(to) - at(from)).max(0.8);
        let left = at(from).min(100.0 - width);
        html! {
            svg.span viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true" {
                rect.track y="4.5" width="100" height="1" {}
                rect class=(class) x=(format!("{left:.2}")) y="1" width=(format!("{width:.2}")) height="8" {}
            }
        }
    }
}
