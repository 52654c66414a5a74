//! Who did what.

use http::StatusCode;
use maud::{Markup, html};
use windlass_engine::core::id::JobId;
use windlass_engine::core::time::Time;
use windlass_report::words::short_id;

use super::bits::{moment, name};
use super::empty;
use super::frame::{Sheet, Watch, answer};
use crate::answer::Answered;
use crate::api::actions::{Action, newest};
use crate::ask::Ask;

const TICK_SECONDS: u32 = 5;

/// `GET /actions`
pub(super) async fn page(ask: Ask) -> Answered {
    let since = ask.api.store.events_end().await?;
    let now = ask.api.now().await?;
    let actions = newest(&ask.api).await?;
    let body = html! {
        h1 { "Who did what" }
        @if actions.is_empty() {
            (empty::none("Nobody has changed anything", "What is done through this server with an admin's token is listed here for 30 days:", "windlass --url http://127.0.0.1:7717 queues pause mail"))
        } @else {
            p.quiet { "The newest " (actions.len()) " things that were changed through a server. What is done with the store itself is not in this list." }
            (table(&actions, now))
        }
    };
    let watch = Watch::All { since, ticks: TICK_SECONDS };
    let sheet = Sheet { title: "Who did what".to_owned(), place: "/actions", watch, now, body };
    Ok(answer(&ask, StatusCode::OK, sheet))
}

fn table(actions: &[Action], now: Time) -> Markup {
    html! {
        table.rows {
            thead { tr { th { "when" } th { "who" } th { "what" } th { "to" } } }
            tbody {
                @for Action { at, by, call, on } in actions {
                    tr data-row {
                        td.nowrap { (moment(*at, now)) }
                        td.text { (by) }
                        td.text { (call.replace('_', " ")) }
                        td.text { (target(on)) }
                    }
                }
            }
        }
    }
}

/// What it was done to: a job by its link, all else by its path.
fn target(path: &str) -> Markup {
    let job = path.strip_prefix("/v1/jobs/").map(|rest| rest.split('/').next().unwrap_or_default());
    match job.and_then(|id| id.parse::<JobId>().ok()) {
        Some(id) => html! { a.open.id href={ "/jobs/" (id) } title=(id) { (short_id(id)) } },
        None => html! { code { (name(path.strip_prefix("/v1/").unwrap_or(path))) } },
    }
}
