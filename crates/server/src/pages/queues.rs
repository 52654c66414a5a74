//! Queues with their policies: pause, resume, set.

use http::StatusCode;
use maud::{Markup, html};
use windlass_engine::core::policy::queue::{OnCrash, QueuePolicy};
use windlass_engine::core::query::QueueStatus;
use windlass_engine::core::time::Time;
use windlass_report::words::number;

use super::bits::{self, bar, dash, encoded, since};
use super::empty;
use super::form::{self, Field};
use super::frame::{Sheet, Watch, answer};
use super::part::Part;
use crate::answer::Answered;
use crate::ask::Ask;
use crate::settings::Role;

const TICK_SECONDS: u32 = 5;

/// `GET /queues`
pub(super) async fn page(ask: Ask) -> Answered {
    let since = ask.api.store.events_end().await?;
    let now = ask.api.now().await?;
    let all = ask.api.store.queues().await?;
    let part = Part::asked(&ask, &all, |queue| queue.name.as_str())?;
    let admin = ask.caller.role == Role::Admin;
    let body = html! {
        h1 { "Queues" }
        @if all.is_empty() {
            (empty::none("No queue yet", "A queue is there as soon as it has a job or a policy:", "windlass queues set mail --limit 5 --ladder '1m 5m 1h'"))
        } @else {
            (table(part.shown, now, admin))
            (part.pages("/queues", "queues"))
        }
        @if admin { (form::new("Set the policy of a queue", "/v1/queues", form::fields(&fields(&QueuePolicy::default())))) }
    };
    let watch = Watch::All { since, ticks: TICK_SECONDS };
    Ok(answer(&ask, StatusCode::OK, Sheet { title: "Queues".to_owned(), place: "/queues", watch, now, body }))
}

fn table(queues: &[QueueStatus], now: Time, admin: bool) -> Markup {
    html! {
        table.rows.stack.roomy {
            thead { tr {
                th { "queue" } th.num { "queued" } th.num { "oldest due" } th.num { "running" } th.num { "limit" } th.wide { span.hidden { "share" } }
                th.w { "ladder" } th.num.w { "lease" } th.w { "crash" } th.num.w { "kept" } @if admin { th { span.hidden { "what can be done" } } }
            } }
            tbody { @for queue in queues { (row(queue, now, admin)) } }
        }
    }
}

fn row(queue: &QueueStatus, now: Time, admin: bool) -> Markup {
    let name = encoded(queue.name.as_str());
    let QueuePolicy { limit, ladder, lease_ms, on_crash, retention_days, delete_finished, .. } =
        &queue.policy;
    html! {
        tr id={ "q-" (name) } data-row {
            td.text { a.open href={ "/queues/" (name) } { (bits::name(queue.name.as_str())) } @if queue.paused { " " span.tag { "paused" } } }
            td.num data-l="queued" { (number(queue.queued)) }
            td.num data-l="oldest due" { @if let Some(at) = queue.oldest_due { (since(at, now)) } @else { (dash()) } }
            td.num data-l="running" { (number(queue.running)) }
            td.num data-l="limit" { @if let Some(limit) = limit { (limit) } @else { (dash()) } }
            td.wide { @if let Some(limit) = limit { (bar(queue.running, u64::from(*limit))) } }
            td.w { (ladder) }
            td.num.w { (lease_ms / 1_000) " s" }
            td.w { (crash_word(*on_crash)) }
            td.num.w { @if *delete_finished { "not" } @else { (retention_days) " d" } }
            @if admin { td.acts { (acts(queue, &name)) } }
        }
    }
}

/// The policy of a queue, in words.
pub(super) fn facts(queue: &QueueStatus) -> Markup {
    html! {
        dl.facts {
            @for field in fields(&queue.policy) {
                div { dt { (field.label) } dd { @if let Some(value) = &field.value { (value) } @else { span.quiet { (field.hint) } } } }
            }
        }
    }
}

fn crash_word(on_crash: OnCrash) -> &'static str {
    match on_crash {
        OnCrash::Resume => "resume",
        OnCrash::Fail => "fail",
    }
}

/// What can be done with a queue.
pub(super) fn acts(queue: &QueueStatus, name: &str) -> Markup {
    html! {
        @if queue.paused {
            button type="button" data-post={ "/v1/queues/" (name) "/resume" } data-said="Resumed" { "Resume" }
        } @else {
            button type="button" data-post={ "/v1/queues/" (name) "/pause" } data-said="Paused"
                data-ask={ "Pause the queue " (queue.name) "?" } data-more="No job of it starts until it is resumed. Jobs that are running go on." { "Pause" }
        }
        details.edit {
            summary { "Edit" }
            form.fields data-put={ "/v1/queues/" (name) } data-said="Policy set" {
                (form::fields(&fields(&queue.policy)))
                button.main { "Set" }
            }
        }
        @if queue.queued + queue.running == 0 {
            button.danger type="button" data-delete={ "/v1/queues/" (name) } data-said="Deleted"
                data-ask={ "Delete the queue " (queue.name) "?" } data-more="Its policy and its pause go. What has ended in it stays for as long as in any queue." { "Delete" }
        }
    }
}

fn fields(policy: &QueuePolicy) -> Vec<Field<'static>> {
    let QueuePolicy {
        limit,
        ladder,
        max_attempts,
        lease_ms,
        on_crash,
        crashes_max,
        retention_days,
        finished_max,
        delete_finished,
        ageing_ms,
    } = policy;
    let field = |name, label, sort, value, hint| Field { name, label, sort, value, hint };
    let text = |number: &Option<u32>| number.map(|number| number.to_string());
    vec![
        field("limit", "at once, over the fleet", "int", text(limit), "no limit"),
        field("ladder", "retry after", "text", Some(ladder.to_string()), "1m 5m 1h, or none"),
        field("max_attempts", "attempts at most", "int", text(max_attempts), "by the ladder"),
        field("lease_ms", "lease, ms", "int", Some(lease_ms.to_string()), ""),
        field("on_crash", "after a crash", "choice:resume,fail", Some(crash_word(*on_crash).to_owned()), ""),
        field("crashes_max", "crashes until quarantine", "int", Some(crashes_max.to_string()), ""),
        field("retention_days", "finished jobs kept, days", "int", Some(retention_days.to_string()), ""),
        field("finished_max", "finished jobs kept, at most", "int", Some(finished_max.to_string()), ""),
        field(
            "delete_finished",
            "delete when finished",
            "choice:false,true",
            Some(delete_finished.to_string()),
            "",
        ),
        field(
            "ageing_ms",
            "a step of priority weighs, ms",
            "int",
            ageing_ms.map(|ms| ms.to_string()),
            "strict",
        ),
    ]
}
