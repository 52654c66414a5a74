//! A refusal as a page: what happened, and the way on.

use axum::response::Response;
use maud::html;

use super::frame::{Sheet, Watch, whole};
use crate::answer::{Refusal, with_type};
use crate::settings::Role;
use windlass_engine::core::time::Time;

/// The page of a refusal. `role`: of whoever is signed in.
pub(crate) fn refused(refusal: &Refusal, role: Option<&Role>, now: Time) -> Response {
    let body = html! {
        section.empty {
            h1 { (refusal.status.as_u16()) " " (refusal.status.canonical_reason().unwrap_or("Refused")) }
            p { (refusal.message) "." }
            p { a href="/" { "To the overview" } " · " a href="/sign-in" { "Sign in with another token" } }
        }
    };
    let sheet = Sheet { title: "Refused".to_owned(), place: "", watch: Watch::Nothing, now, body };
    let page = whole(&sheet, role, role.is_some()).into_string();
    with_type(refusal.status, "text/html; charset=utf-8", page.into())
}
