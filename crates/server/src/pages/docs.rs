//! The calls of the API, for people.

use http::StatusCode;
use maud::html;

use super::frame::{Sheet, Watch, answer};
use crate::answer::Answered;
use crate::ask::Ask;
use crate::calls::CALLS;

/// `GET /docs`
pub(crate) async fn docs(ask: Ask) -> Answered {
    let body = html! {
        h1 { "The API" }
        p { "All of it, for programs: " a href="/openapi.json" { "openapi.json" } " (OpenAPI 3.1)." }
        table.rows.stack {
            thead { tr { th { "call" } th { "does" } } }
            tbody {
                @for call in CALLS.iter().filter(|call| !call.hidden) {
                    tr { td.nowrap { code { (call.verb()) " " (call.path) } } td { (call.does) } }
                }
            }
        }
    };
    let now = ask.api.world.wall();
    let sheet = Sheet { title: "The API".to_owned(), place: "/docs", watch: Watch::Nothing, now, body };
    Ok(answer(&ask, StatusCode::OK, sheet))
}
