//! Signing in: a form of one field.

use axum::response::{IntoResponse, Response};
use http::header::LOCATION;
use http::{HeaderValue, StatusCode};
use maud::html;

use super::bits::encoded;
use super::frame::{Sheet, Watch, whole};
use crate::answer::{Answered, with_type};
use crate::ask::Ask;
use crate::settings::Role;

/// `GET /sign-in`
pub(super) async fn page(ask: Ask) -> Answered {
    let query = ask.query(&["refused", "next"], &[])?;
    let asked = |name: &str| query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
    let next = place_of(asked("next").unwrap_or("/"));
    let body = html! {
        section.empty {
            h1 { "Sign in" }
            p { "Paste a token of this server: the text of " code { "WINDLASS_TOKEN" } ", or one with a role of its own. "
                "It is sent once; a cookie that only this server gets stands for it, for twelve hours." }
            @if asked("refused").is_some() { p.bad role="alert" { "That token is not one of this server's. Try again." } }
            form.sign-in method="post" action="/sign-in" {
                input type="hidden" name="next" value=(next);
                label for="token" { "Token" }
                input #token type="password" name="token" required autofocus autocomplete="current-password" spellcheck="false";
                button.main { "Sign in" }
            }
        }
    };
    let now = ask.api.world.wall();
    let sheet = Sheet { title: "Sign in".to_owned(), place: "", watch: Watch::Nothing, now, body };
    let signed_in = !matches!(&ask.caller.role, Role::Work(queues) if queues.is_empty());
    let page = whole(&sheet, Some(&ask.caller.role).filter(|_| signed_in), signed_in);
    Ok(with_type(StatusCode::OK, "text/html; charset=utf-8", page.into_string().into()))
}

/// The way to the form, and back to `place` afterwards.
pub(crate) fn to_sign_in(place: &str) -> Response {
    let mut response = StatusCode::SEE_OTHER.into_response();
    let target = format!("/sign-in?next={}", encoded(place_of(place)));
    let target = HeaderValue::from_str(&target).unwrap_or(HeaderValue::from_static("/sign-in"));
    response.headers_mut().insert(LOCATION, target);
    response
}

/// A place of this server, or its front page: a link must not lead elsewhere.
pub(crate) fn place_of(wanted: &str) -> &str {
    let own = wanted.starts_with('/') && !wanted.starts_with("//") && !wanted.starts_with("/sign-in");
    let plain = wanted.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    if own && plain { wanted } else { "/" }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fault 68: nobody is sent to another site after signing in.
    #[test]
    fn fault_68_the_way_back_stays_here() {
        for (wanted, place) in [
            ("/jobs?state=failed", "/jobs?state=failed"),
            ("//evil.example", "/"),
            ("/\\evil.example", "/"),
            ("https://evil.example", "/"),
            ("javascript:alert(1)", "/"),
            ("/a\r\nset-cookie: x", "/"),
            ("/sign-in", "/"),
            ("", "/"),
        ] {
            assert_eq!(place_of(wanted), place, "{wanted:?}");
        }
    }
}
