//! Forms that enqueue: a new job, with what is known suggested, and one like another.

use std::sync::Arc;

use maud::{Markup, html};
use windlass_engine::core::id::{Kind, QueueName};
use windlass_engine::core::job::{Job, JobSpec};
use windlass_engine::core::query::{JobFilter, ListRequest, PAGE_MAX};
use windlass_report::view::JobView;

use super::form::{self, Field};
use crate::answer::Refusal;
use crate::api::Api;
use crate::ask::Ask;

/// How many kinds are suggested.
const KINDS_MAX: usize = 50;
/// A payload that is longer is not suggested.
const PAYLOAD_BYTES_MAX: usize = 4 * 1024;

/// Suggestions are given again for this long: a page with the form in it, folded as it mostly is, asks for them
/// whenever something happens to any job.
pub(crate) const SUGGESTIONS_MS: u64 = 5_000;

/// A kind that is known, with the last payload, unless that is long or not for everybody's eyes, and queue of it.
pub(crate) struct Suggestion {
    kind: Kind,
    queue: QueueName,
    payload: Option<String>,
}

/// The kinds of the newest jobs.
pub(super) async fn known(ask: &Ask) -> Result<Arc<Vec<Suggestion>>, Refusal> {
    ask.api.suggestions.get(&*ask.api.world, look(&ask.api)).await
}

async fn look(api: &Api) -> Result<Vec<Suggestion>, Refusal> {
    let request = ListRequest { filter: JobFilter::default(), limit: PAGE_MAX, after: None };
    let mut known: Vec<Suggestion> = Vec::new();
    for Job { spec: JobSpec { kind, queue, payload, .. }, .. } in api.store.list(request).await?.jobs {
        if known.len() < KINDS_MAX && !known.iter().any(|other| other.kind == kind) {
            let text = payload.as_str();
            let fits = text.len() <= PAYLOAD_BYTES_MAX && !api.settings.is_sensitive(&kind);
            known.push(Suggestion { payload: fits.then(|| text.to_owned()), kind, queue });
        }
    }
    known.sort_by(|a, b| a.kind.cmp(&b.kind));
    Ok(known)
}

/// Names for the filters above a list: those of the newest jobs, kinds and queues. They are in the list, too.
pub(super) fn names(known: &[Suggestion]) -> Markup {
    let queues: std::collections::BTreeSet<&QueueName> = known.iter().map(|one| &one.queue).collect();
    html! {
        datalist #known-kinds { @for Suggestion { kind, .. } in known { option value=(kind) {} } }
        datalist #known-queues { @for queue in queues { option value=(queue) {} } }
    }
}

/// The form of a new job. `act.js` fills in the last payload of the kind that is chosen.
pub(super) fn form(known: &[Suggestion]) -> Markup {
    html! {
        details.new {
            summary { "New job" }
            form.fields data-post="/v1/jobs" data-said="Enqueued" {
                label { span { "kind" } input name="kind" data-sort="text" list="kinds" required maxlength="128" autocomplete="off" spellcheck="false"; }
                datalist #kinds {
                    @for Suggestion { kind, queue, payload } in known { option value=(kind) data-payload=[payload] data-queue=(queue) {} }
                }
                (form::fields(&fields(None)))
                button.main { "Enqueue" }
            }
        }
    }
}

/// The form of a job like this one. Nothing of a payload that the caller may not see.
pub(super) fn again(job: &JobView) -> Markup {
    html! {
        @if job.payload.is_some() {
            details.new.edit {
                summary { "Enqueue again …" }
                form.fields data-post="/v1/jobs" data-said="Enqueued as a new job" {
                    label { span { "kind" } input name="kind" data-sort="text" value=(job.kind) required maxlength="128" autocomplete="off" spellcheck="false"; }
                    (form::fields(&fields(Some(job))))
                    (form::fields(&rest(job)))
                    button.main { "Enqueue" }
                }
            }
        }
    }
}

fn fields(like: Option<&JobView>) -> Vec<Field<'static>> {
    let field = |name, label, sort, value, hint| Field { name, label, sort, value, hint };
    let of = |value: fn(&JobView) -> Option<String>| like.and_then(value);
    vec![
        field("queue", "queue", "text", of(|job| Some(job.queue.to_string())), "default"),
        field(
            "payload",
            "payload, as JSON",
            "json",
            of(|job| job.payload.as_ref().map(|json| json.as_str().to_owned())),
            "{}",
        ),
        field(
            "priority",
            "priority",
            "int",
            of(|job| Some(job.priority).filter(|high| *high != 0).map(|high| high.to_string())),
            "0",
        ),
        field("key", "key", "text", of(|job| job.key.as_ref().map(ToString::to_string)), "none"),
        field("delay", "not before", "text", None, "at once; 5m, 1h"),
    ]
}

/// What else a job may have: one like it has it, too, unless somebody takes it out.
fn rest(job: &JobView) -> Vec<Field<'static>> {
    fn json(value: &impl serde::Serialize) -> Option<String> {
        serde_json::to_string(value).ok()
    }
    let field = |name, label, sort, value, hint| Field { name, label, sort, value, hint };
    let budgets = Some(&job.budgets).filter(|budgets| !budgets.is_empty());
    vec![
        field("dedupe_key", "dedupe key", "text", job.dedupe_key.as_ref().map(ToString::to_string), "none"),
        field("budgets", "budgets, as JSON", "json", budgets.and_then(json), r#"["etsy"]"#),
        field("retry", "retry rule, as JSON", "json", job.retry.as_ref().and_then(json), "the queue's"),
        field("timeout", "timeout", "text", job.timeout.map(|span| span.to_string()), "none; 30s, 5m"),
        field(
            "meta",
            "meta, as JSON",
            "json",
            job.meta.as_ref().map(|json| json.as_str().to_owned()),
            "none",
        ),
    ]
}
