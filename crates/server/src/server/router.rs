//! From a request to its answer: through the door, to its call, within its limits.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{FromRequestParts, RawPathParams};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, on};
use futures::FutureExt;
use http::header::{AUTHORIZATION, CONTENT_TYPE, TRANSFER_ENCODING};
use http::{HeaderMap, Method, Request, StatusCode};
use hyper::body::Body as _;
use tower_service::Service;
use windlass_listen::{BodyError, BodyLimits, read_body};

use crate::access::{Caller, Need, secure, unknown_caller};
use crate::answer::{Answered, Refusal};
use crate::api::Api;
use crate::api::actions::Action;
use crate::ask::Ask;
use crate::calls::{CALLS, Call, Size, is_open};
use crate::pages::{is_browser, refused, to_sign_in};

/// A body of a call that takes none.
const NO_BODY_BYTES: usize = 1_024;
/// A form of a few fields.
const FORM_BYTES: usize = 8 * 1_024;

/// The router of all calls.
pub(super) fn build(api: &Arc<Api>) -> Router {
    let mut router = Router::new();
    for call in CALLS.iter() {
        let api = api.clone();
        let handler = move |request: Request<Body>| {
            let api = api.clone();
            async move { answer(&api, call, request).await }
        };
        let filter = MethodFilter::try_from(call.method.clone()).unwrap_or(MethodFilter::GET);
        router = router.route(call.path, on(filter, handler));
    }
    let wall = api.world.clone();
    let not_found = move |request: Request<Body>| {
        let refusal = Refusal::not_found("path; GET /docs lists all");
        let role = request.extensions().get::<Caller>().map(|caller| caller.role.clone());
        let page = is_browser(request.headers()).then(|| refused(&refusal, role.as_ref(), wall.wall()));
        async move { page.unwrap_or_else(|| refusal.into_response()) }
    };
    let not_allowed = || async {
        let message = "this path does not take this method; GET /docs lists all calls";
        Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message).into_response()
    };
    router.fallback(not_found).method_not_allowed_fallback(not_allowed)
}

/// The way of every request, whatever it asks for.
pub(super) async fn enter(
    api: &Arc<Api>,
    mut router: Router,
    port: u16,
    mut request: Request<Body>,
) -> Response {
    let passed = pass(api, port, request.method(), request.headers(), request.uri().path()).await;
    let mut response = match passed {
        Ok(caller) => {
            request.extensions_mut().insert(caller);
            // A bug in one call must not end the connection without a word.
            let called = AssertUnwindSafe(router.call(request)).catch_unwind().await;
            match called {
                Ok(Ok(response)) => response,
                Ok(Err(never)) => match never {},
                Err(_) => {
                    tracing::error!("a call panicked; the panic's own message says where");
                    let message = "the server made a mistake; whether anything changed is unknown";
                    Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message).into_response()
                }
            }
        }
        Err(refusal) => {
            api.metrics.count("ANY", "(refused)", refusal.status);
            turned_away(&refusal, &request).unwrap_or_else(|| refusal.into_response())
        }
    };
    secure(&mut response);
    response
}

/// Somebody who came with a browser and showed nothing is led to the form.
fn turned_away(refusal: &Refusal, request: &Request<Body>) -> Option<Response> {
    let unknown = refusal.status == StatusCode::UNAUTHORIZED && request.method() == Method::GET;
    let place = request.uri().path_and_query().map_or("/", |place| place.as_str());
    (unknown && is_browser(request.headers())).then(|| to_sign_in(place))
}

/// Who may come in.
async fn pass(
    api: &Api,
    port: u16,
    method: &Method,
    headers: &HeaderMap,
    path: &str,
) -> Result<Caller, Refusal> {
    api.door.check_origin(method, headers, port)?;
    match api.door.who(method, headers, api.world.wall())? {
        Some(caller) => Ok(caller),
        None if is_open(path) => Ok(Caller::nobody()),
        // Nobody has guessed: a form is led to, or a token is asked for, however many guess at the same time. (What stands for a
        // session is too long to be guessed.)
        None if !headers.contains_key(AUTHORIZATION) => Err(unknown_caller()),
        None => {
            api.refused().await?;
            Err(unknown_caller())
        }
    }
}

async fn answer(api: &Arc<Api>, call: &'static Call, request: Request<Body>) -> Response {
    let browser = call.hidden && is_browser(request.headers());
    let caller = request.extensions().get::<Caller>().cloned();
    let role = caller.as_ref().map(|caller| caller.role.clone());
    let path = request.uri().path().to_owned();
    let answered = perform(api, call, request).await;
    if let (Some(caller), Ok(response)) = (&caller, &answered) {
        note(api, call, caller, response, path);
    }
    let response = match answered {
        Ok(response) => response,
        Err(refusal) if browser => refused(&refusal, role.as_ref(), api.world.wall()),
        Err(refusal) => refusal.into_response(),
    };
    api.metrics.count(call.verb(), call.path, response.status());
    response
}

/// Notes who did what. What was only looked at, and what a worker or a submitter does, is not noted.
fn note(api: &Api, call: &Call, caller: &Caller, response: &Response, path: String) {
    let changes = call.need == Need::Admin && call.method != Method::GET && response.status().is_success();
    if changes {
        let (by, call) = (caller.name.clone(), call.id.to_owned());
        api.actions.note(Action { at: api.world.wall(), by, call, on: path });
    }
}

async fn perform(api: &Arc<Api>, call: &'static Call, request: Request<Body>) -> Answered {
    let caller = request.extensions().get::<Caller>().cloned().ok_or_else(unknown_caller)?;
    call.need.admits(&caller.role)?;
    if call.patient {
        let ask = read(api, call, caller, request).await?;
        return (call.run)(ask).await;
    }
    let work = async {
        let ask = read(api, call, caller, request).await?;
        let _turn = api.rooms.of(call).turn(call).await?;
        (call.run)(ask).await
    };
    tokio::select! {
        answered = work => answered,
        () = api.world.sleep_ms(api.settings.limits.total_ms) => {
            let message = "the call took too long; whether anything changed is unknown. Ask again with the same ids";
            Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "timeout", message).retry_after(1))
        }
    }
}

/// Reads a request strictly.
async fn read(api: &Arc<Api>, call: &Call, caller: Caller, request: Request<Body>) -> Result<Ask, Refusal> {
    let (mut parts, body) = request.into_parts();
    let limits = &api.settings.limits;
    let bytes_max = match &call.body {
        None => NO_BODY_BYTES,
        Some((Size::Form, _)) => FORM_BYTES,
        Some((Size::Small, _)) => limits.body_bytes_max,
        Some((Size::Batch, _)) => limits.batch_bytes_max,
    };
    let has_body = !body.is_end_stream() || parts.headers.contains_key(TRANSFER_ENCODING);
    if has_body {
        check_type(call, &parts.headers)?;
    }
    let pool = Some(&api.rooms.of(call).bodies);
    let within = BodyLimits { bytes_max, idle_ms: limits.body_idle_ms, pool };
    let (body, hold) = read_body(&parts.headers, body, within, &api.world).await.map_err(unread)?;
    if call.body.is_none() && !matches!(body.trim_ascii(), b"" | b"{}") {
        return Err(Refusal::field("body", "is not empty, but this call takes none"));
    }
    let path = RawPathParams::from_request_parts(&mut parts, &()).await;
    let path = path.map_err(|_| Refusal::field("path", "is not percent-encoded UTF-8"))?;
    let path = path.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let query = parts.uri.query().map(str::to_owned);
    let ask = Ask { api: api.clone(), caller, path, query, headers: parts.headers, body, _hold: hold };
    let names: Vec<&'static str> = call.params.iter().map(|param| param.name).collect();
    let repeats: Vec<&str> =
        call.params.iter().filter(|param| param.repeats).map(|param| param.name).collect();
    ask.query(&names, &repeats)?;
    Ok(ask)
}

fn unread(error: BodyError) -> Refusal {
    match error {
        BodyError::TooLarge(bytes_max) => Refusal::too_large("body", bytes_max),
        BodyError::Cut => Refusal::field("body", "ended before its end"),
        BodyError::NoRoom => Refusal::busy("too many large bodies at once; ask again in a second"),
        BodyError::TooSlow => {
            let message = "the body came too slowly; nothing was changed. Send it again";
            Refusal::new(StatusCode::REQUEST_TIMEOUT, "too_slow", message)
        }
    }
}

/// JSON must be called JSON: a page of another site cannot send it unasked.
fn check_type(call: &Call, headers: &HeaderMap) -> Result<(), Refusal> {
    let said = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    let said = said.split(';').next().unwrap_or("").trim();
    let form = matches!(&call.body, None | Some((Size::Form, _)));
    let fits = said.eq_ignore_ascii_case("application/json")
        || (form && said.eq_ignore_ascii_case("application/x-www-form-urlencoded"));
    if fits {
        return Ok(());
    }
    let message = "send the header `content-type: application/json`";
    Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", message))
}
