//! The dashboard: pages that the server writes, and small modules that keep
//! them alive in the browser.
//!
//! A page is a call like any other (same door, same roles), and its address
//! holds the whole view. When the stream of events says that something
//! happened, the browser asks for the same address again with the header
//! [`PART_HEADER`], gets the inner part, and changes what differs.
//!
//! Deliberately absent: a framework, a build step, anything from another host,
//! inline script or style, and state in the browser that the address does not hold.

pub(crate) mod assets;

mod actions;
mod bits;
mod budgets;
mod chart;
mod counts;
mod docs;
mod empty;
mod filter;
mod form;
mod frame;
mod job;
mod jobs;
mod json_text;
mod life;
mod new_job;
mod overview;
mod part;
mod queue;
mod queues;
mod refused;
mod scale;
mod schedule;
mod schedules;
mod sign_in;
mod trend;
mod views;
mod waiting;
mod why;
mod workers;

use http::header::ACCEPT;
use http::{HeaderMap, Method};

use crate::access::Need;
use crate::calls::{Call, Param};

pub(crate) use bits::encoded;
pub(crate) use counts::Counts;
pub(crate) use docs::docs;
pub(crate) use new_job::{SUGGESTIONS_MS, Suggestion};
pub(crate) use refused::refused;
pub(crate) use sign_in::{place_of, to_sign_in};

/// The header that asks for the inner part of a page alone.
pub(crate) const PART_HEADER: &str = "x-windlass-part";

/// All pages.
pub(crate) fn table() -> Vec<Call> {
    vec![
        Call::page("/", "page_overview", |ask| Box::pin(overview::page(ask))).asks(Param::SPAN),
        Call::page("/jobs", "page_jobs", |ask| Box::pin(jobs::page(ask))).asks(Param::LIST),
        Call::page("/jobs/{id}", "page_job", |ask| Box::pin(job::page(ask))),
        Call::page("/waiting", "page_waiting", |ask| Box::pin(waiting::page(ask))),
        Call::page("/queues", "page_queues", |ask| Box::pin(queues::page(ask))).asks(Param::PART),
        Call::page("/queues/{name}", "page_queue", |ask| Box::pin(queue::page(ask))).asks(Param::SPAN),
        Call::page("/budgets", "page_budgets", |ask| Box::pin(budgets::page(ask))).asks(Param::PART),
        Call::page("/schedules", "page_schedules", |ask| Box::pin(schedules::page(ask))).asks(Param::PART),
        Call::page("/schedules/{name}", "page_schedule", |ask| Box::pin(schedule::page(ask))),
        Call::page("/actions", "page_actions", |ask| Box::pin(actions::page(ask))),
        Call::page("/workers", "page_workers", |ask| Box::pin(workers::page(ask))).asks(Param::PART),
        // In the document, since its other method is.
        Call::new(Method::GET, "/sign-in", Need::Nothing, "sign_in_form", |ask| Box::pin(sign_in::page(ask)))
            .does("The form to sign in to the dashboard.")
            .asks(Param::SIGN_IN)
            .gives_text(200, "text/html", "A page."),
        Call::page("/assets/{set}/{name}", "asset", |ask| Box::pin(assets::get(ask))).open(),
    ]
}

/// Whether a browser asks for something to show, rather than a program.
pub(crate) fn is_browser(headers: &HeaderMap) -> bool {
    let accepts = |value: &http::HeaderValue| value.to_str().is_ok_and(|text| text.contains("text/html"));
    headers.get_all(ACCEPT).iter().any(accepts) && !headers.contains_key(PART_HEADER)
}
