//! Who may come in, and what everybody gets.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post};
use http::StatusCode;
use tokio::task::JoinSet;
use windlass_app::Stop;
use windlass_app::door::{BodyLimits, Door, DoorError, Guarded, Refusal, bind, text};
use windlass_engine::core::secret::Secret;
use windlass_engine::world::{RealWorld, SimWorld};
use windlass_listen::Refusals;
use windlass_testkit::eventually::eventually;

use crate::ask::ask;

const LOCAL: Guarded = Guarded { by_token: false, listen: "LISTEN", token: "TOKEN" };

fn routes() -> Router {
    let panics = || async {
        if !cfg!(miri) {
            panic!("canary");
        }
    };
    let refuses = || async { Refusal::internal("canary").with_details(serde_json::json!({"field": "x"})) };
    Router::new()
        .route("/echo", post(|body: String| async { body }))
        .route("/panics", get(panics))
        .route("/refuses", get(refuses))
}

fn door() -> Door {
    Door::new(routes(), Arc::new(RealWorld::new()))
        .body(BodyLimits { bytes_max: 1_000, ..BodyLimits::default() })
        .health(|| async { Ok(text(StatusCode::OK, "text/plain", "ok")) })
        .ready(|| async { Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", "not now")) })
        .metrics(|| async { Ok("things_total 1\n".to_owned()) })
}

struct Open {
    addr: SocketAddr,
    stop: Stop,
    task: tokio::task::JoinHandle<std::io::Result<()>>,
}

async fn open(door: Door) -> Open {
    let listener = bind("127.0.0.1:0", LOCAL).await.unwrap();
    let (addr, stop) = (listener.local_addr().unwrap(), Stop::default());
    let task = tokio::spawn(door.serve(listener, stop.wait()));
    Open { addr, stop, task }
}

fn has(answer: &str, status: u16, words: &[&str]) {
    assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
    for word in words {
        assert!(answer.contains(word), "{word} is not in {answer}");
    }
    assert!(!answer.contains("canary"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_programs_of_this_machine_get() {
    let Open { addr, stop, task } = open(door()).await;
    has(&ask(addr, "GET /health", "", "").await, 200, &["ok"]);
    has(&ask(addr, "GET /readyz", "", "").await, 503, &["\"unavailable\"", "not now"]);
    has(&ask(addr, "GET /metrics", "", "").await, 200, &["version=0.0.4", "things_total 1"]);
    has(&ask(addr, "POST /echo", "", "said").await, 200, &["said"]);
    has(&ask(addr, "POST /echo", "", &"x".repeat(1_001)).await, 413, &["\"too_large\"", "1000 bytes"]);
    has(&ask(addr, "GET /refuses", "", "").await, 500, &["\"internal\"", "\"details\":{\"field\":\"x\"}"]);
    has(&ask(addr, "GET /panics", "", "").await, 500, &["{\"error\":{\"code\":\"internal\""]);
    has(&ask(addr, "GET /health", "", "").await, 200, &["ok"]);
    has(&ask(addr, "GET /health/", "", "").await, 404, &[]);
    stop.ask();
    task.await.unwrap().unwrap();
}

/// Fault 68: pages of other sites and names that only point here are refused.
#[tokio::test(flavor = "multi_thread")]
async fn fault_68_strangers_stay_outside() {
    let Open { addr, .. } = open(door()).await;
    for headers in
        ["origin: https://evil.example\r\n", "sec-fetch-site: cross-site\r\n", "host: evil.example\r\n"]
    {
        has(&ask(addr, "POST /echo", headers, "x").await, 403, &["\"forbidden\""]);
    }
    let Open { addr, .. } = open(door().any_host()).await;
    has(&ask(addr, "GET /metrics", "host: elsewhere\r\n", "").await, 200, &[]);
    has(&ask(addr, "GET /metrics", "origin: https://evil.example\r\n", "").await, 403, &[]);
}

/// Fault 69: with a token nobody comes in without it, and without one nothing beyond this machine is listened to.
#[tokio::test(flavor = "multi_thread")]
async fn fault_69_a_token_is_asked_for() {
    let token = Secret::new("a-long-random-text".to_owned());
    let Open { addr, .. } =
        open(door().token(Some(&token)).open_to_all("/health").ignores_last_slash()).await;
    has(&ask(addr, "GET /health", "host: anything\r\n", "").await, 200, &[]);
    for headers in ["", "authorization: Bearer wrong\r\n", "authorization: Basic a-long-random-text\r\n"] {
        has(&ask(addr, "GET /metrics", headers, "").await, 401, &["\"unauthorized\"", "Bearer"]);
    }
    has(&ask(addr, "GET /metrics/", "authorization: Bearer a-long-random-text\r\n", "").await, 200, &[]);
    let refused = bind("0.0.0.0:0", LOCAL).await.unwrap_err();
    assert!(matches!(refused, DoorError::Exposed { .. }));
    assert!(
        refused.to_string().contains("Set TOKEN to a long random text, or LISTEN to 127.0.0.1"),
        "{refused}"
    );
    bind("0.0.0.0:0", Guarded { by_token: true, ..LOCAL }).await.unwrap();
    let taken = bind(&addr.to_string(), LOCAL).await.unwrap_err().to_string();
    assert!(taken.contains("choose an address that is free with LISTEN"), "{taken}");
}

/// Fault 69: of many who guess at once so many wait for their answer, the others are told to come again, and whoever
/// knows the token is served meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn fault_69_who_guesses_crowds_out_nobody() {
    const GUESSES: usize = 4 * Refusals::WAITING_MAX;
    let (world, token) = (SimWorld::new(7), Secret::new("a-long-random-text".to_owned()));
    let door = Door::new(routes(), Arc::new(world.clone())).token(Some(&token));
    let Open { addr, .. } = open(door).await;
    let mut guessing = JoinSet::new();
    for at in 0..GUESSES {
        let wrong = format!("authorization: Bearer guess-{at}\r\n");
        guessing.spawn(async move { ask(addr, "POST /echo", &wrong, "x").await });
    }
    // Time stands still, so that whoever waits waits until it is moved.
    for _ in Refusals::WAITING_MAX..GUESSES {
        let answer = guessing.join_next().await.unwrap().unwrap();
        has(&answer, 429, &["\"too_many_refusals\"", "retry-after: 5", "come again later"]);
        let right = "authorization: Bearer a-long-random-text\r\n";
        has(&ask(addr, "POST /echo", right, "said").await, 200, &["said"]);
    }
    for _ in 0..Refusals::WAITING_MAX {
        let answer = eventually("those who waited are answered", || {
            world.advance(250);
            std::future::ready(guessing.try_join_next())
        });
        has(&answer.await.unwrap(), 401, &["\"unauthorized\""]);
    }
}

/// What is public is public to pages of all sites; the rest asks for the token as before.
#[tokio::test(flavor = "multi_thread")]
async fn public_places_are_open_and_no_others() {
    let token = Secret::new("a-long-random-text".to_owned());
    let public = |method: &http::Method, path: &str| *method == http::Method::GET && path == "/metrics";
    let Open { addr, .. } = open(door().token(Some(&token)).open_where(public)).await;
    has(&ask(addr, "GET /metrics", "origin: https://reader.example\r\n", "").await, 200, &[]);
    has(&ask(addr, "GET /health", "", "").await, 401, &[]);
    has(&ask(addr, "POST /metrics", "", "x").await, 401, &[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_proves_itself_is_asked_for_nothing() {
    let Open { addr, .. } = open(door().proves_itself().one_request_each()).await;
    let answer =
        ask(addr, "POST /echo", "host: hooks.example\r\norigin: https://hooks.example\r\n", "said").await;
    has(&answer, 200, &["connection: close", "said"]);
}
