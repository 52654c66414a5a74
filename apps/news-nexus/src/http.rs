//! The way of every request: through the door, to its route, into the log.

use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use futures::FutureExt;
use http::header::HOST;
use http::{HeaderMap, Method, Request, StatusCode, Uri};
use hyper::body::Incoming;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tower_service::Service;
use windlass_engine::Client;
use windlass_engine::world::World;
use windlass_listen::origin::{is_from_elsewhere, is_own_host};
use windlass_listen::{BodyError, House, Limits, Seats, read_body};

use crate::answer::Refusal;
use crate::job_files::JobFiles;
use crate::routes;
use crate::settings::{Mode, Settings};
use crate::token::TokenHash;

/// The largest body.
const BODY_BYTES_MAX: usize = 100 * 1024;
/// The longest pause within a body.
const BODY_IDLE_MS: u64 = 10_000;
/// How long a refused token waits for its answer: guessing is slow.
const REFUSAL_MS: u64 = 250;
const CROWDED: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\n\
    content-type: application/json\r\ncontent-length: 109\r\n\r\n\
    {\"error\":{\"code\":\"SERVICE_UNAVAILABLE\",\"message\":\"Too many connections; try again in a second\",\"status\":503}}";

/// What the routes work with.
pub(crate) struct Api {
    pub client: Client,
    pub settings: Settings,
    pub files: JobFiles,
    pub world: Arc<dyn World>,
    pub token: Option<TokenHash>,
    pub port: u16,
}

/// Serves until `shutdown`.
pub(crate) async fn serve(listener: TcpListener, shutdown: impl Future<Output = ()> + Send, api: Arc<Api>) {
    let house = House {
        world: api.world.clone(),
        limits: Limits::default(),
        seats: Seats::default(),
        stop: watch::Sender::new(false),
        crowded: CROWDED,
    };
    let router = routes::all(&api);
    let answer = move |request: Request<Incoming>| {
        let (api, router) = (api.clone(), router.clone());
        async move { logged(&api, router, request).await }
    };
    windlass_listen::serve(listener, shutdown, house, answer).await;
}

/// Whether anybody but this machine could connect.
pub(crate) fn is_exposed(addr: SocketAddr) -> bool {
    !addr.ip().to_canonical().is_loopback()
}

/// Answers a request and writes its line.
async fn logged(api: &Api, router: Router, request: Request<Incoming>) -> Response {
    let began_ms = api.world.boot_ms();
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let id = request.headers().get("x-request-id").and_then(|id| id.to_str().ok()).map(str::to_owned);
    let response = match enter(api, router, request).await {
        Ok(response) => response,
        Err(refusal) => refused(api, refusal, &method, &path),
    };
    let duration_ms = api.world.boot_ms().saturating_sub(began_ms);
    tracing::info!(
        %method,
        path,
        statusCode = response.status().as_u16(),
        durationMs = duration_ms,
        requestId = id.as_deref().unwrap_or("null"),
        "Request handled"
    );
    response
}

fn refused(api: &Api, refusal: Refusal, method: &Method, path: &str) -> Response {
    let (code, status) = (refusal.code, refusal.status.as_u16());
    match &refusal.cause {
        Some(error) => tracing::error!(code, status, %method, path, error, "Request failed"),
        None => tracing::warn!(code, status, %method, path, "Request refused"),
    }
    refusal.into_answer(api.settings.mode == Mode::Development)
}

async fn enter(api: &Api, mut router: Router, request: Request<Incoming>) -> Result<Response, Refusal> {
    pass(api, request.method(), request.headers()).await?;
    let (mut parts, body) = request.into_parts();
    parts.uri = without_last_slash(&parts.uri);
    let body = read_body(&parts.headers, body, BODY_BYTES_MAX, BODY_IDLE_MS, &api.world).await;
    let request = Request::from_parts(parts, Body::from(body.map_err(unread)?));
    // A bug in one route must not end the connection without a word.
    let called = AssertUnwindSafe(router.call(request)).catch_unwind().await;
    let mut response = match called {
        Ok(Ok(response)) => response,
        Ok(Err(never)) => match never {},
        Err(_) => return Err(Refusal::internal("a route panicked; the panic's own message says where")),
    };
    match response.extensions_mut().remove::<Arc<Refusal>>().and_then(Arc::into_inner) {
        Some(refusal) => Err(refusal),
        None => Ok(response),
    }
}

/// `/a/b/` is `/a/b`, as it was for the program before this one.
fn without_last_slash(uri: &Uri) -> Uri {
    let path = uri.path().trim_end_matches('/');
    let path = if path.is_empty() { "/" } else { path };
    let query = uri.query().map_or(String::new(), |query| format!("?{query}"));
    // What was part of an address is one without its end as well.
    Uri::try_from(format!("{path}{query}")).unwrap_or_else(|_| uri.clone())
}

/// Who may come in: callers who know the token, or, where there is none,
/// programs of this machine, but not the pages of other sites in its browsers.
async fn pass(api: &Api, method: &Method, headers: &HeaderMap) -> Result<(), Refusal> {
    let forbidden = |message: &str| Err(Refusal::new(StatusCode::FORBIDDEN, "FORBIDDEN", message));
    if is_from_elsewhere(method, headers) {
        return forbidden("The request comes from a page of another site");
    }
    if let Some(token) = &api.token {
        if token.admits(headers) {
            return Ok(());
        }
        api.world.sleep_ms(REFUSAL_MS).await;
        let message = "A token is needed: send the header `Authorization: Bearer …`";
        return Err(Refusal::new(StatusCode::UNAUTHORIZED, "AUTH_FAILED", message));
    }
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or("").to_ascii_lowercase();
    if is_own_host(&host, api.port) {
        return Ok(());
    }
    forbidden("This host name is not the server's; ask it by localhost or 127.0.0.1 and its port")
}

fn unread(error: BodyError) -> Refusal {
    match error {
        BodyError::TooLarge(bytes_max) => {
            let message = format!("The body is larger than {bytes_max} bytes");
            Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "PAYLOAD_TOO_LARGE", message)
        }
        BodyError::TooSlow => {
            Refusal::new(StatusCode::REQUEST_TIMEOUT, "REQUEST_TIMEOUT", "The body came too slowly")
        }
        BodyError::Cut => Refusal::field("body", "ended before its end"),
    }
}
