//! The way of a request: through the door, to its route, into the log.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use futures::FutureExt;
use http::header::{CONNECTION, HOST, RETRY_AFTER, VARY};
use http::{HeaderMap, HeaderValue, Method, Request, Uri};
use hyper::body::Incoming;
use tower_service::Service;
use windlass_listen::origin::{is_from_elsewhere, is_own_host};
use windlass_listen::{BodyError, BodyLimits, Refusals, TooMany, read_body};

use super::Door;
use super::refusal::{Refusal, TOO_MANY_REFUSALS};

/// How long a refused token waits for its answer: guessing is slow.
const REFUSAL_MS: u64 = 250;

/// Answers a request and writes its line.
pub(super) async fn answer(door: &Door, port: u16, request: Request<Incoming>) -> Response {
    let began_ms = door.world.boot_ms();
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let id = request.headers().get("x-request-id").and_then(|id| id.to_str().ok()).map(str::to_owned);
    let mut response = match enter(door, port, request).await {
        Ok(mut response) => {
            match response.extensions_mut().remove::<Arc<Refusal>>().and_then(Arc::into_inner) {
                Some(refusal) => {
                    let mut written = refused(door, refusal, &method, &path);
                    keep_for_browsers(response.headers(), written.headers_mut());
                    written
                }
                None => response,
            }
        }
        Err(refusal) => refused(door, refusal, &method, &path),
    };
    if !door.keeps_connections {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    tracing::info!(
        %method,
        path,
        statusCode = response.status().as_u16(),
        durationMs = door.world.boot_ms().saturating_sub(began_ms),
        requestId = id.as_deref().unwrap_or("null"),
        "Request handled"
    );
    response
}

fn refused(door: &Door, refusal: Refusal, method: &Method, path: &str) -> Response {
    let is_crowded = refusal.code == TOO_MANY_REFUSALS;
    let refusal = door.form.in_our_words(refusal);
    let (code, status) = (refusal.code, refusal.status.as_u16());
    match &refusal.cause {
        Some(error) => tracing::error!(code, status, %method, path, error, "Request failed"),
        None => tracing::warn!(code, status, %method, path, "Request refused"),
    }
    let mut response = door.form.answer(refusal);
    if is_crowded {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(Refusals::AGAIN_S));
    }
    response
}

/// A refusal is written afresh; what layers around a route said of who may read its answers holds for it, too.
/// Without that the page of another site is told of a broken network, and not what was wrong.
fn keep_for_browsers(said: &HeaderMap, written: &mut HeaderMap) {
    for (name, value) in said {
        if *name == VARY || name.as_str().starts_with("access-control-") {
            written.append(name, value.clone());
        }
    }
}

async fn enter(door: &Door, port: u16, request: Request<Incoming>) -> Result<Response, Refusal> {
    pass(door, port, request.method(), request.uri().path(), request.headers()).await?;
    let (mut parts, body) = request.into_parts();
    if door.ignores_last_slash {
        parts.uri = without_last_slash(&parts.uri);
    }
    let body = whole_body(door, &parts.headers, body).await?;
    let request = Request::from_parts(parts, Body::from(body));
    // A bug in one route must not end the connection without a word.
    let called = AssertUnwindSafe(door.router.clone().call(request)).catch_unwind().await;
    match called {
        Ok(Ok(response)) => Ok(response),
        Ok(Err(never)) => match never {},
        Err(_) => Err(Refusal::internal("a route panicked; the panic's own message says where")),
    }
}

async fn whole_body(door: &Door, headers: &HeaderMap, body: Incoming) -> Result<axum::body::Bytes, Refusal> {
    let limits = door.body;
    let within = BodyLimits { bytes_max: limits.bytes_max, idle_ms: limits.idle_ms, pool: None };
    let read = tokio::select! {
        read = read_body(headers, body, within, &door.world) => read.map(|(body, _)| body),
        () = door.world.sleep_ms(limits.total_ms) => Err(BodyError::TooSlow),
    };
    read.map_err(|error| match error {
        BodyError::TooLarge(bytes_max) => Refusal::too_large(bytes_max),
        BodyError::TooSlow => Refusal::too_slow(),
        BodyError::Cut | BodyError::NoRoom => Refusal::cut_off(),
    })
}

fn without_last_slash(uri: &Uri) -> Uri {
    let path = uri.path().trim_end_matches('/');
    let path = if path.is_empty() { "/" } else { path };
    let query = uri.query().map_or(String::new(), |query| format!("?{query}"));
    // What was part of an address is one without its end as well.
    Uri::try_from(format!("{path}{query}")).unwrap_or_else(|_| uri.clone())
}

/// Who may come in.
async fn pass(
    door: &Door,
    port: u16,
    method: &Method,
    path: &str,
    headers: &HeaderMap,
) -> Result<(), Refusal> {
    let is_open =
        (door.open_where)(method, path) || (door.open_to_all.contains(&path) && *method == Method::GET);
    if door.proves_itself || is_open {
        return Ok(());
    }
    if is_from_elsewhere(method, headers) {
        return Err(Refusal::forbidden("The request comes from a page of another site"));
    }
    if let Some(token) = &door.token {
        if token.admits(headers) {
            return Ok(());
        }
        door.refusals.wait(&*door.world, REFUSAL_MS).await.map_err(|TooMany| Refusal::too_many_refusals())?;
        return Err(Refusal::unauthorized());
    }
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or("").to_ascii_lowercase();
    if door.any_host || is_own_host(&host, port) {
        return Ok(());
    }
    Err(Refusal::forbidden(
        "This host name is not the server's; ask it by localhost or 127.0.0.1 and its port",
    ))
}
