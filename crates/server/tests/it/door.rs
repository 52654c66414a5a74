//! Who is let in.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::task::JoinSet;
use windlass_engine::core::id::QueueName;
use windlass_engine::core::memory::MemoryStore;
use windlass_engine::core::time::Time;
use windlass_engine::world::SimWorld;
use windlass_listen::Refusals;
use windlass_server::{Limits, Role, Secret, Server, Settings, Token, serve};
use windlass_testkit::eventually::eventually;

use crate::house::{House, Reply, TOKEN, send};

const JSON: (&str, &str) = ("content-type", "application/json");

/// A path with its parameters filled in.
fn filled(path: &str) -> String {
    path.replace("{id}", "0198c0de-0000-7000-8000-000000000001").replace("{name}", "x")
}

/// Fault 69 and CVE-2026-42868: every route there is, without a token and with
/// a wrong one. A route that nobody thought of is refused, too.
#[tokio::test]
async fn fault_69_every_route_needs_a_token() {
    let house = House::closed().await;
    let document = house.get("/openapi.json").await.json();
    let mut walked = 0;
    for (path, verbs) in document["paths"].as_object().unwrap() {
        for (verb, operation) in verbs.as_object().unwrap() {
            if operation["security"] == json!([]) {
                assert!(["/healthz", "/readyz", "/sign-in"].contains(&path.as_str()), "{path} is open");
                continue;
            }
            walked += 1;
            for wrong in [None, Some("Bearer wrong"), Some("Basic Og=="), Some("Bearer "), Some(TOKEN)] {
                let mut headers = vec![JSON];
                headers.extend(wrong.map(|wrong| ("authorization", wrong)));
                let reply = send(house.addr, &verb.to_uppercase(), &filled(path), &headers, b"").await;
                assert_eq!(
                    (reply.status, reply.code().as_str()),
                    (401, "unauthorized"),
                    "{verb} {path} {wrong:?}"
                );
                assert_eq!(reply.headers["www-authenticate"], "Bearer");
            }
        }
    }
    assert!(walked > 30, "{walked}");
    for path in ["/", "/nothing", "/v1", "/v1/jobs/", "//v1/jobs", "/healthz/../v1/jobs", "/HEALTHZ"] {
        assert_eq!(send(house.addr, "GET", path, &[], b"").await.status, 401, "{path}");
    }
    assert_eq!(send(house.addr, "GET", "/healthz", &[], b"").await.status, 200);
}

/// Fault 69: the server itself refuses to be open to the network.
#[tokio::test]
async fn fault_69_does_not_start() {
    let house = House::open().await;
    let listener = tokio::net::TcpListener::bind("0.0.0.0:0").await.unwrap();
    let server = Server::new(house.store.clone(), Settings::default());
    let refused = serve(listener, std::future::pending(), server).await.unwrap_err();
    assert!(refused.to_string().contains("Set WINDLASS_TOKEN"), "{refused}");
}

/// Fault 68: pages of other sites cannot reach an open server.
#[tokio::test]
async fn fault_68_other_sites() {
    let house = House::open().await;
    let own = format!("localhost:{}", house.addr.port());
    let origin = format!("http://{own}");
    let body = br#"{"kind":"k"}"#;
    for (headers, status) in [
        (vec![JSON, ("host", own.as_str())], 201),
        (vec![JSON, ("host", &own), ("origin", &origin)], 201),
        (vec![JSON, ("host", "evil.example")], 403),
        (vec![JSON, ("host", &own), ("origin", "http://evil.example")], 403),
        (vec![JSON, ("host", &own), ("sec-fetch-site", "cross-site")], 403),
        (vec![("content-type", "text/plain"), ("host", &own)], 415),
        (vec![("content-type", "application/x-www-form-urlencoded"), ("host", &own)], 415),
        (vec![("host", &own)], 415),
    ] {
        let reply = send(house.addr, "POST", "/v1/jobs", &headers, body).await;
        assert_eq!(reply.status, status, "{headers:?} {}", reply.text);
    }
    let reply = send(house.addr, "GET", "/v1/jobs", &[("host", &own)], b"").await;
    assert!(reply.headers["content-security-policy"].contains("frame-ancestors 'none'"));
    assert!(!reply.headers.contains_key("access-control-allow-origin"));
    for (name, value) in [
        ("referrer-policy", "no-referrer"),
        ("cache-control", "no-store"),
        ("cross-origin-opener-policy", "same-origin"),
        ("x-frame-options", "DENY"),
    ] {
        assert_eq!(reply.headers[name], value);
    }
}

/// Fault 69: of many who guess at once, by header and by the form, so many wait for their answer, the others are told to
/// come again, and whoever knows the token is served and signs in meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn fault_69_who_guesses_crowds_out_nobody() {
    const GUESSES: usize = 4 * Refusals::WAITING_MAX;
    let world = SimWorld::new(7);
    let store = Arc::new(MemoryStore::new(Arc::new(world.clone())));
    let token = Some(Secret::new(TOKEN));
    let settings = Settings { token, no_housekeeping: true, ..Settings::default() };
    let server = Server::in_world(store, settings, Arc::new(world.clone()));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(serve(listener, std::future::pending(), server));

    let mut guessing = JoinSet::new();
    for at in 0..GUESSES {
        guessing.spawn(async move {
            let (bearer, form) = (format!("Bearer guess-{at}"), format!(r#"{{"token":"guess-{at}"}}"#));
            match at % 2 {
                0 => send(addr, "GET", "/v1/jobs", &[("authorization", &bearer)], b"").await,
                _ => send(addr, "POST", "/sign-in", &[JSON], form.as_bytes()).await,
            }
        });
    }
    // Time stands still, so that whoever waits waits until it is moved.
    for at in Refusals::WAITING_MAX..GUESSES {
        let reply = guessing.join_next().await.unwrap().unwrap();
        assert_eq!((reply.status, reply.code().as_str()), (429, "too_many_refusals"), "{}", reply.text);
        assert_eq!(reply.headers["retry-after"], "5");
        let (bearer, form) = (format!("Bearer {TOKEN}"), format!(r#"{{"token":"{TOKEN}"}}"#));
        let served = match at % 2 {
            0 => send(addr, "GET", "/v1/jobs", &[("authorization", &bearer)], b"").await,
            _ => send(addr, "POST", "/sign-in", &[JSON], form.as_bytes()).await,
        };
        assert!([200, 204].contains(&served.status), "{}", served.text);
    }
    for _ in 0..Refusals::WAITING_MAX {
        let reply = eventually("those who waited are answered", || {
            world.advance(Limits::default().refusal_ms);
            std::future::ready(guessing.try_join_next())
        });
        let reply = reply.await.unwrap();
        assert_eq!((reply.status, reply.code().as_str()), (401, "unauthorized"), "{}", reply.text);
    }
}

/// Fault 73: a token in the address is worth nothing.
#[tokio::test]
async fn fault_73_tokens_only_in_headers() {
    let house = House::closed().await;
    for path in [format!("/v1/jobs?token={TOKEN}"), format!("/v1/jobs?access_token={TOKEN}")] {
        let reply = send(house.addr, "GET", &path, &[], b"").await;
        assert_eq!(reply.status, 401);
        assert!(!reply.text.contains(TOKEN));
    }
    let reply =
        send(house.addr, "GET", "/v1/jobs", &[("authorization", &format!("bearer {TOKEN}"))], b"").await;
    assert_eq!(reply.status, 200, "the word before it may be written small");
}

/// Fault 68: the dashboard's cookie reads; to write it needs a header that no other site can send.
#[tokio::test]
async fn fault_68_sessions() {
    let house = House::closed().await;
    let wrong = send(house.addr, "POST", "/sign-in", &[JSON], br#"{"token":"wrong"}"#).await;
    assert_eq!(wrong.status, 401);
    assert!(!wrong.headers.contains_key("set-cookie"));
    let body = json!({ "token": TOKEN }).to_string();
    let signed = send(house.addr, "POST", "/sign-in", &[JSON], body.as_bytes()).await;
    assert_eq!(signed.status, 204, "{}", signed.text);
    let cookie = signed.headers["set-cookie"].clone();
    assert!(
        cookie.contains("; HttpOnly") && cookie.contains("; SameSite=Strict") && !cookie.contains(TOKEN),
        "{cookie}"
    );
    let pair = cookie.split(';').next().unwrap();
    let ask = async |method: &str, path: &str, headers: &[(&str, &str)], body: &str| -> Reply {
        let mut all = vec![("cookie", pair)];
        all.extend_from_slice(headers);
        send(house.addr, method, path, &all, body.as_bytes()).await
    };
    assert_eq!(ask("GET", "/v1/jobs", &[], "").await.status, 200);
    let refused = ask("POST", "/v1/jobs", &[JSON], r#"{"kind":"k"}"#).await;
    assert_eq!((refused.status, refused.code().as_str()), (403, "csrf"));
    assert_eq!(
        ask("POST", "/v1/jobs", &[JSON, ("x-windlass-csrf", "1")], r#"{"kind":"k"}"#).await.status,
        201
    );
    assert_eq!(ask("POST", "/sign-out", &[("x-windlass-csrf", "1")], "").await.status, 204);
    assert_eq!(ask("GET", "/v1/jobs", &[], "").await.status, 401, "the session is over");
    let form = format!("token={TOKEN}");
    let urlencoded = ("content-type", "application/x-www-form-urlencoded");
    let by_form = send(house.addr, "POST", "/sign-in", &[urlencoded], form.as_bytes()).await;
    assert_eq!((by_form.status, by_form.headers["location"].as_str()), (303, "/"));
    let wrong = send(house.addr, "POST", "/sign-in", &[urlencoded], b"token=x").await;
    assert_eq!((wrong.status, wrong.headers["location"].as_str()), (303, "/sign-in?refused=1"));
}

fn token(name: &str, role: Role, expires_at: Option<Time>) -> Token {
    Token { name: name.into(), hash: Secret::new(name).hash(), role, expires_at }
}

async fn house_of_roles() -> House {
    let queue = |name: &str| QueueName::new(name).unwrap();
    House::with(Settings {
        token: Some(Secret::new(TOKEN)),
        tokens: vec![
            token("reader", Role::Read, None),
            token("submitter", Role::Submit, None),
            token("w1", Role::Work(vec![queue("q1")]), None),
            token("w2", Role::Work(vec![queue("q1")]), None),
            token("w3", Role::Work(vec![queue("q2")]), None),
            token("old", Role::Admin, Some(Time::from_ms(1))),
        ],
        limits: Limits { refusal_ms: 1, ..Limits::default() },
        ..Settings::default()
    })
    .await
}

async fn ask_as(house: &House, token: &str, method: &str, path: &str, body: Value) -> Reply {
    let bearer = format!("Bearer {token}");
    let body = if body.is_null() { String::new() } else { body.to_string() };
    send(house.addr, method, path, &[JSON, ("authorization", &bearer)], body.as_bytes()).await
}

#[tokio::test]
async fn roles() {
    let house = house_of_roles().await;
    let new = json!({"kind": "k", "queue": "q1"});
    let claim = json!({"worker": "w1", "queues": ["q1"], "limit": 1});
    for (token, create, list, claimed, pause) in [
        (TOKEN, 201, 200, 200, 200),
        ("reader", 403, 200, 403, 403),
        ("submitter", 201, 403, 403, 403),
        ("w1", 403, 403, 200, 403),
        ("old", 401, 401, 401, 401),
    ] {
        let found = [
            ask_as(&house, token, "POST", "/v1/jobs", new.clone()).await.status,
            ask_as(&house, token, "GET", "/v1/jobs", Value::Null).await.status,
            ask_as(&house, token, "POST", "/v1/claim", claim.clone()).await.status,
            ask_as(&house, token, "POST", "/v1/queues/x/pause", Value::Null).await.status,
        ];
        assert_eq!(found, [create, list, claimed, pause], "{token}");
    }
}

/// Fault 76: a worker with a valid token cannot write to another's lease, nor
/// take its name, nor work in another queue.
#[tokio::test]
async fn fault_76_forged_leases() {
    let house = house_of_roles().await;
    let id = house.enqueue(json!({"kind": "k", "queue": "q1"})).await;
    let claim = |worker: &str, queue: &str| json!({"worker": worker, "queues": [queue], "limit": 1});
    for (token, worker, queue) in
        [("w2", "w1", "q1"), ("w2", "w2x", "q1"), ("w3", "w3", "q1"), ("w1", "w1", "q2")]
    {
        let reply = ask_as(&house, token, "POST", "/v1/claim", claim(worker, queue)).await;
        assert_eq!(reply.status, 403, "{token} as {worker} from {queue}");
    }
    let lease = ask_as(&house, "w1", "POST", "/v1/claim", claim("w1/host-7", "q1")).await.json();
    assert_eq!(lease["leases"][0]["job"]["id"], id.as_str());
    let lease_ref = json!({"job_id": id, "fence": 1});
    let settle = json!({"results": [{"job_id": id, "fence": 1, "outcome": "completed"}]});
    for token in ["w2", "w3"] {
        for (method, path, body) in [
            ("POST", "/v1/leases/renew".to_owned(), json!({"leases": [lease_ref]})),
            ("POST", "/v1/leases/cancels".to_owned(), json!({"leases": [lease_ref]})),
            ("POST", "/v1/leases/settle".to_owned(), settle.clone()),
            ("PUT", format!("/v1/jobs/{id}/steps/s"), json!({"fence": 1, "output": 1})),
            ("PUT", format!("/v1/jobs/{id}/progress"), json!({"fence": 1, "progress": 1})),
        ] {
            let reply = ask_as(&house, token, method, &path, body).await;
            assert_eq!((reply.status, reply.code().as_str()), (403, "forbidden"), "{token} {path}");
        }
    }
    let stale =
        ask_as(&house, "w1", "PUT", &format!("/v1/jobs/{id}/steps/s"), json!({"fence": 2, "output": 1}))
            .await;
    assert_eq!((stale.status, stale.code().as_str()), (409, "lease_lost"));
    assert_eq!(
        ask_as(&house, "w1", "POST", "/v1/leases/settle", settle.clone()).await.json()["results"][0]["status"],
        "ok"
    );
    let again = ask_as(&house, "w1", "POST", "/v1/leases/settle", settle).await;
    assert_eq!(again.json()["results"][0]["status"], "ok", "its own settlement, asked again");
}

/// Wrong tokens crowd out nobody, however many come at once: whoever guesses waits among those who guess, and neither whoever has
/// a token nor whoever has shown none is refused for it.
#[tokio::test]
async fn wrong_sign_ins_crowd_out_nobody() {
    const WAITING: usize = 64;
    const REFUSED: usize = 16;
    // As long as no test lasts: those who wait stay.
    let limits = Limits { refusal_ms: 600_000, in_flight_max: 2, ..Limits::default() };
    let settings = Settings { token: Some(Secret::new(TOKEN)), limits, ..Settings::default() };
    let house = House::with(settings).await;
    let urlencoded = ("content-type", "application/x-www-form-urlencoded");
    let mut guesses = tokio::task::JoinSet::new();
    for at in 0..WAITING + REFUSED {
        let addr = house.addr;
        guesses.spawn(async move {
            match at % 3 {
                0 => send(addr, "POST", "/sign-in", &[JSON], br#"{"token":"wrong"}"#).await,
                1 => send(addr, "POST", "/sign-in", &[urlencoded], b"token=wrong").await,
                _ => send(addr, "GET", "/v1/jobs", &[("authorization", "Bearer wrong")], b"").await,
            }
        });
    }
    for _ in 0..REFUSED {
        let refused = guesses.join_next().await.unwrap().unwrap();
        assert_eq!((refused.status, refused.code().as_str()), (429, "too_many_refusals"), "{}", refused.text);
    }
    let body = json!({ "token": TOKEN }).to_string();
    assert_eq!(send(house.addr, "POST", "/sign-in", &[JSON], body.as_bytes()).await.status, 204);
    let form = format!("token={TOKEN}");
    assert_eq!(send(house.addr, "POST", "/sign-in", &[urlencoded], form.as_bytes()).await.status, 303);
    let id = house.enqueue(json!({"kind": "k"})).await;
    let lease = house.claim("w").await;
    assert_eq!(lease["job"]["id"], id);
    let settle = json!({"results": [{"job_id": id, "fence": 1, "outcome": "completed"}]});
    assert_eq!(house.post("/v1/leases/settle", settle).await.status, 200);
    let html = ("accept", "text/html");
    let came = send(house.addr, "GET", "/", &[html], b"").await;
    assert_eq!((came.status, came.headers["location"].as_str()), (303, "/sign-in?next=%2F"), "{}", came.text);
    let stale = send(house.addr, "GET", "/", &[html, ("cookie", "windlass=0123456789abcdef")], b"").await;
    assert_eq!(stale.status, 303, "{}", stale.text);
    assert_eq!(send(house.addr, "GET", "/sign-in", &[html], b"").await.status, 200);
    assert_eq!(send(house.addr, "GET", "/v1/jobs", &[], b"").await.status, 401);
}
