//! One queue: how it stands, how it went, and what can be done with it.

use http::StatusCode;
use maud::{Markup, html};
use windlass_engine::core::id::QueueName;
use windlass_engine::core::query::QueueStatus;
use windlass_engine::core::time::Time;
use windlass_report::words::number;

use super::bits::{bar, dash, encoded, shape, since};
use super::frame::{Sheet, Watch, answer};
use super::queues::{acts, facts};
use super::trend;
use crate::answer::{Answered, Refusal};
use crate::ask::Ask;
use crate::feed::Span;
use crate::settings::Role;

const TICK_SECONDS: u32 = 5;

/// `GET /queues/{name}`
pub(super) async fn page(ask: Ask) -> Answered {
    let since = ask.api.store.events_end().await?;
    let now = ask.api.now().await?;
    let name: QueueName = ask.name()?;
    let span = trend::asked(&ask)?.unwrap_or(Span::Hour);
    let queue = ask.api.store.queues().await?.into_iter().find(|queue| queue.name == name);
    let history = ask.api.feed.rings(|rings| rings.history.points(Some(&name), span, now));
    let known = history.enqueued.iter().chain(&history.completed).any(|jobs| *jobs > 0);
    if queue.is_none() && !known {
        return Err(Refusal::not_found("queue: nobody set its policy, it has no jobs, and had none of late"));
    }
    let path = encoded(name.as_str());
    let spans = Span::ALL.map(Span::as_str);
    let body = html! {
        p { a href="/queues" { "← queues" } }
        div.head {
            h1 { (name) }
            @if queue.as_ref().is_some_and(|queue| queue.paused) { span.tag { "paused" } }
            a href={ "/jobs?queue=" (path) } { "its jobs →" }
        }
        (figures(queue.as_ref(), &path, now))
        (trend::choice(&format!("/queues/{path}"), &spans, span.as_str()))
        (trend::charts(&history, span))
        @if let Some(queue) = &queue {
            section { h2 { "Policy" } (facts(queue)) }
            @if ask.caller.role == Role::Admin { div.acts { (acts(queue, &path)) } }
        }
    };
    let watch = Watch::All { since, ticks: TICK_SECONDS };
    Ok(answer(&ask, StatusCode::OK, Sheet { title: name.to_string(), place: "/queues", watch, now, body }))
}

fn figures(queue: Option<&QueueStatus>, path: &str, now: Time) -> Markup {
    let (queued, running) = queue.map_or((0, 0), |queue| (queue.queued, queue.running));
    let limit = queue.and_then(|queue| queue.policy.limit);
    let oldest = queue.and_then(|queue| queue.oldest_due);
    html! {
        dl.figures {
            div { dt { (shape("queued")) "queued" } dd { a href={ "/jobs?state=queued&queue=" (path) } { (number(queued)) } } }
            div { dt { (shape("running")) "running" } dd { a href={ "/jobs?state=running&queue=" (path) } { (number(running)) } } }
            div { dt { "limit" } dd { @if let Some(limit) = limit { (limit) " " (bar(running, u64::from(limit))) } @else { (dash()) } } }
            div { dt { "oldest due" } dd { @if let Some(at) = oldest { (since(at, now)) } @else { (dash()) } } }
        }
    }
}
