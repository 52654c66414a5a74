//! Signing in to the dashboard: a token is shown once, a cookie stands for it.

use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_TYPE, COOKIE, LOCATION, SET_COOKIE};
use http::{HeaderValue, StatusCode};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::access::{cookie_cleared, cookie_set, unknown_caller};
use crate::answer::{Answered, Refusal, nothing};
use crate::ask::{Ask, decoded};
use crate::pages::place_of;

/// A token.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "SignIn")]
pub(crate) struct SignInBody {
    token: String,
}

/// `POST /sign-in`: JSON is answered with 204, a form with the way to the dashboard.
pub(crate) async fn sign_in(ask: Ask) -> Answered {
    let form = is_form(&ask);
    let (token, next) = if form {
        let field = |name| field_of_form(&ask, name);
        let token = field("token")?.ok_or_else(|| Refusal::field("token", "is needed"))?;
        (token, field("next")?.unwrap_or_default())
    } else {
        (ask.body::<SignInBody>()?.token, String::new())
    };
    let next = place_of(&next);
    let now = ask.api.world.wall();
    let Some(caller) = ask.api.door.by_token(token.as_bytes(), now) else {
        // A wrong one waits among the wrong ones, and crowds out nobody else.
        ask.api.refused().await?;
        return if form { Ok(to("/sign-in?refused=1", None)) } else { Err(unknown_caller()) };
    };
    tracing::info!(by = ?caller.name, "signed in");
    let id = ask.api.door.sessions.begin(caller, now).map_err(|error| {
        tracing::error!(%error, "the system gave no random bytes");
        Refusal::busy("no session could be begun; try again")
    })?;
    let cookie = cookie_set(&id, ask.api.settings.https);
    answer(form.then_some(next), &cookie)
}

/// `POST /sign-out`
pub(crate) async fn sign_out(ask: Ask) -> Answered {
    let cookies = ask.headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    ask.api.door.sessions.end(cookies);
    answer(is_form(&ask).then_some("/"), &cookie_cleared(ask.api.settings.https))
}

/// `place`: where a form leads to.
fn answer(place: Option<&str>, cookie: &str) -> Answered {
    if let Some(place) = place {
        return Ok(to(place, Some(cookie)));
    }
    let mut response = nothing()?;
    if let Ok(value) = HeaderValue::from_str(cookie) {
        response.headers_mut().insert(SET_COOKIE, value);
    }
    Ok(response)
}

fn to(place: &str, cookie: Option<&str>) -> Response {
    let mut response = StatusCode::SEE_OTHER.into_response();
    let place = HeaderValue::from_str(place).unwrap_or(HeaderValue::from_static("/"));
    response.headers_mut().insert(LOCATION, place);
    if let Some(value) = cookie.and_then(|cookie| HeaderValue::from_str(cookie).ok()) {
        response.headers_mut().insert(SET_COOKIE, value);
    }
    response
}

fn is_form(ask: &Ask) -> bool {
    let content_type = ask.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    content_type.starts_with("application/x-www-form-urlencoded")
}

fn field_of_form(ask: &Ask, name: &str) -> Result<Option<String>, Refusal> {
    let text = std::str::from_utf8(&ask.body).map_err(|_| Refusal::field("body", "is not UTF-8"))?;
    let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    let found = pairs.into_iter().find(|(key, _)| *key == name);
    found.map(|(_, value)| decoded(value)).transpose()
}
