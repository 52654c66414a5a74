//! Measures Vela: listings a second of a first import, and tasks a second that one manager hands out.
//!
//! Manager and worker are the real program, in a process of their own; the stand-in of Etsy (which answers at once
//! and has no limits) and those who ask share the machine with it. `WINDLASS_BIN` names the program.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use url::Url;
use windlass_engine::Time;
use windlass_engine::core::time::Clock;
use windlass_engine::world::{RealWorld, monotonic_ns};
use windlass_outside::safe_http::{Body, Guard, Http, Limits, Request};
use windlass_standins::Etsy;
use windlass_testkit::eventually::answered_within;
use windlass_testkit::program::Program;

/// What `/proc` counts in, on every Linux.
const TICKS_A_SECOND: f64 = 100.0;

const USAGE: &str = "usage: vela_bench import [listings] | tasks [shops] [workers]";

#[tokio::main]
async fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: u64| args.get(at).and_then(|text| text.parse().ok()).unwrap_or(default);
    match args.first().map(String::as_str) {
        Some("import") => import(number(1, 5_000)).await,
        Some("tasks") => tasks(number(1, 10_000), number(2, 64)).await,
        _ => eprintln!("{USAGE}"),
    }
}

struct Place {
    etsy: Etsy,
    base: Url,
    http: Http,
    _folder: tempfile::TempDir,
    _program: Program,
}

impl Place {
    async fn new(verb: &str) -> Self {
        let (etsy, folder) = (Etsy::start().await, tempfile::tempdir().expect("a folder"));
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        drop(listener);
        let store = std::env::var("VELA_STORE");
        let store = store.unwrap_or_else(|_| format!("sqlite:{}", folder.path().join("vela.db").display()));
        let mut command = Command::new(windlass_testkit::binary::windlass());
        command
            .args(["vela", verb, "--store", &store, "--listen", &format!("127.0.0.1:{port}")])
            .env("ETSY_KEYSTRING", etsy.keystring())
            .env("ETSY_SHARED_SECRET", etsy.shared_secret())
            .env("ETSY_BASE_URL", etsy.url())
            .env("ETSY_TOKEN_URL", etsy.token_url())
            .env("ETSY_PER_SECOND", "0")
            .env("ETSY_PER_DAY", "0")
            .env("VELA_LEASE_SECONDS", "600")
            .stdout(Stdio::null());
        let program = Program::start(&mut command);
        let base = Url::parse(&format!("http://127.0.0.1:{port}")).expect("a URL");
        let http = Http::new(Guard::new().allow(&base).expect("an origin"));
        let connect = async || tokio::net::TcpStream::connect(("127.0.0.1", port)).await.ok();
        answered_within(600, connect).await.expect("the program listens");
        Self { etsy, base, http, _folder: folder, _program: program }
    }

    async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        self.send(Request::post(self.base.join(path).expect("a path"), Body::bytes(body.to_string()))).await
    }

    async fn send(&self, request: Request) -> (u16, Value) {
        let request = request.limits(Limits { total: Duration::from_secs(60), ..Limits::default() });
        let answer = self.http.send(request).await.expect("an answer");
        let status = answer.status();
        (status, serde_json::from_slice(&answer.bytes().await.expect("a body")).unwrap_or_default())
    }

    async fn connect(&self, shop: u64) {
        let tokens = self.etsy.add_shop(shop, shop);
        let body = json!({
            "shop_id": shop, "user_id": shop, "access_token": tokens.access,
            "refresh_token": tokens.refresh, "expires_at": "2999-01-01T00:00:00Z",
        });
        let (status, answer) = self.post("/shops", &body).await;
        assert_eq!(status, 201, "{answer}");
    }
}

/// Seconds of processor time that the program has used so far, its own and the kernel's for it: what it costs does not
/// depend on who else uses the machine, as how long it takes does.
fn cpu_seconds() -> f64 {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let children: String =
        tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok()).collect();
    let ticks = |pid: &str| -> Option<f64> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name of a program may hold anything but a last parenthesis.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        Some(fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?)
    };
    children.split_whitespace().filter_map(ticks).sum::<f64>() / TICKS_A_SECOND
}

fn seconds_since(began_ns: u64) -> f64 {
    (monotonic_ns() - began_ns) as f64 / 1e9
}

async fn import(listings: u64) {
    let place = Place::new("all").await;
    let tokens = place.etsy.add_shop(1, 1);
    place.etsy.fill(1, usize::try_from(listings).expect("a number"), "active");
    let body = json!({
        "shop_id": 1, "user_id": 1, "access_token": tokens.access,
        "refresh_token": tokens.refresh, "expires_at": "2999-01-01T00:00:00Z",
    });
    let (began, began_cpu) = (RealWorld::new().wall(), cpu_seconds());
    place.post("/shops", &body).await;
    let status = place.base.join("/shops/1/status").expect("a path");
    let done = async || {
        let (_, shop) = place.send(Request::get(status.clone())).await;
        let is_done = shop["status"] == "up_to_date" && shop["downloaded"] == listings;
        is_done.then(|| shop["last_success_at"]["regular_download"].clone())
    };
    // When it ended is said by the program: how often somebody asks does not count.
    let ended = answered_within(3_000, done).await.expect("the import ends");
    let ended: Time = ended.as_str().and_then(|text| text.parse().ok()).expect("a moment");
    let seconds = ended.ms_since(began) as f64 / 1e3;
    let (calls, cpu) = (place.etsy.calls().len(), cpu_seconds() - began_cpu);
    println!(
        "{listings} listings in {seconds:.2} s: {:.0} a second, {calls} calls, {:.0} us of CPU a listing",
        listings as f64 / seconds,
        cpu * 1e6 / listings as f64
    );
    // A page has a hundred listings; the rest are the shop, its sections and a look at each state.
    assert!(calls as u64 <= listings.div_ceil(100) + 10, "more calls than an import may take");
}

async fn tasks(shops: u64, workers: u64) {
    let place = Arc::new(Place::new("manager").await);
    let next = Arc::new(AtomicU64::new(1));
    let connects = (0..workers).map(|_| {
        let (place, next) = (place.clone(), next.clone());
        tokio::spawn(async move {
            loop {
                let shop = next.fetch_add(1, Ordering::Relaxed);
                if shop > shops {
                    return;
                }
                place.connect(shop).await;
            }
        })
    });
    for connect in connects.collect::<Vec<_>>() {
        connect.await.expect("shops are connected");
    }
    let (began, began_cpu) = (monotonic_ns(), cpu_seconds());
    let askers = (0..workers).map(|n| {
        let place = place.clone();
        tokio::spawn(async move {
            let (body, mut handed) = (json!({"worker_id": format!("w{n}")}), 0);
            while place.post("/get-task", &body).await.0 == 200 {
                handed += 1;
            }
            handed
        })
    });
    let mut handed = 0;
    for asker in askers.collect::<Vec<_>>() {
        handed += asker.await.expect("tasks are handed out");
    }
    let (seconds, cpu) = (seconds_since(began), cpu_seconds() - began_cpu);
    println!(
        "{handed} tasks to {workers} workers in {seconds:.2} s: {:.0} a second, {:.0} us of CPU a task",
        f64::from(handed) / seconds,
        cpu * 1e6 / f64::from(handed)
    );
}
