//! The program, a stand-in of Etsy behind it, and somebody who asks.

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use url::Url;
use windlass_outside::safe_http::{Body, Credentials, Guard, Http, Limits, Request, Response};
use windlass_outside::secret::Secret;
use windlass_standins::{Etsy, EtsyTokens};
use windlass_testkit::eventually::{answered_within, eventually};
use windlass_testkit::program::{Program, last_words};

pub struct Scene {
    pub etsy: Etsy,
    pub folder: tempfile::TempDir,
    pub env: HashMap<String, String>,
    pub port: u16,
    pub token: Option<String>,
    http: Http,
}

/// A port that is free now, outside of those that the machine gives to whoever asks for any: in the moment before the
/// program listens there, nobody else is given it.
pub fn free_port() -> u16 {
    loop {
        let port = fastrand::u16(10_000..30_000);
        if std::net::TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

impl Scene {
    /// A store in a file, and Etsy without limits.
    pub async fn new() -> Self {
        Self::with(Etsy::start().await)
    }

    pub fn with(etsy: Etsy) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let port = free_port();
        let pairs = [
            ("VELA_STORE", format!("sqlite:{}", folder.path().join("vela.db").display())),
            ("VELA_LISTEN", format!("127.0.0.1:{port}")),
            ("ETSY_KEYSTRING", etsy.keystring()),
            ("ETSY_SHARED_SECRET", etsy.shared_secret()),
            ("ETSY_BASE_URL", etsy.url()),
            ("ETSY_TOKEN_URL", etsy.token_url()),
            ("ETSY_REDIRECT_URL", "https://shop.example/back".to_owned()),
            ("ETSY_PER_SECOND", "0".to_owned()),
            ("ETSY_PER_DAY", "0".to_owned()),
            ("VELA_LADDER_UPLOAD", "200ms 300ms 400ms 500ms".to_owned()),
            ("VELA_LADDER_REGULAR", "200ms 300ms".to_owned()),
            // A schedule that fires in the middle of a test would be one task more than it knows of.
            ("VELA_INTERVAL", "1d".to_owned()),
            ("DEBUG", "1".to_owned()),
        ];
        let env = pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let guard = Guard::new().allow(&Url::parse(&format!("http://127.0.0.1:{port}")).unwrap()).unwrap();
        Self { etsy, folder, env, port, token: None, http: Http::new(guard) }
    }

    /// Asks another manager from now on.
    pub fn allow(&mut self, base: &str) {
        self.http = Http::new(Guard::new().allow(&Url::parse(base).unwrap()).unwrap());
    }

    pub fn set(&mut self, name: &str, value: &str) {
        self.env.insert(name.to_owned(), value.to_owned());
    }

    /// Workers that are killed come back soon.
    pub fn short_lease(&mut self) {
        self.set("VELA_LEASE_SECONDS", "2");
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(windlass_testkit::binary::windlass());
        command.args(args).env_clear().envs(&self.env);
        command
    }

    /// Runs a verb to its end, off the runtime that the stand-in runs on.
    pub async fn run(&self, args: &[&str]) -> Output {
        let mut command = self.command(args);
        command.stdin(Stdio::null());
        tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
    }

    pub fn log(&self, name: &str) -> PathBuf {
        self.folder.path().join(format!("{name}.log"))
    }

    pub fn start(&self, name: &str, args: &[&str]) -> Program {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(self.log(name)).unwrap();
        let errors = log.try_clone().unwrap();
        let mut command = self.command(args);
        Program::start(command.env("WORKER_ID", name).stdout(Stdio::from(log)).stderr(Stdio::from(errors)))
    }

    /// Everything in one process, ready to be asked.
    pub async fn all(&self) -> Program {
        let program = self.start("all", &["vela", "all"]);
        self.ready(self.port, "all").await;
        program
    }

    pub async fn manager(&self) -> Program {
        let program = self.start("manager", &["vela", "manager"]);
        self.ready(self.port, "manager").await;
        program
    }

    pub fn worker(&self, name: &str) -> Program {
        let manager = format!("http://127.0.0.1:{}", self.port);
        self.start(name, &["vela", "worker", "--manager", &manager])
    }

    pub async fn ready(&self, port: u16, name: &str) {
        let ask = async || tokio::net::TcpStream::connect(("127.0.0.1", port)).await.ok().map(drop);
        if answered_within(600, ask).await.is_none() {
            let log = std::fs::read_to_string(self.log(name)).unwrap_or_default();
            panic!("{name} does not answer; it said:\n{log}");
        }
    }

    pub async fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
        self.ask_at(self.port, method, path, body).await
    }

    pub async fn ask_at(&self, port: u16, method: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
        let answer = self.answer(port, method, path, body).await;
        let status = answer.status();
        let body = answer.bytes().await.unwrap();
        (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
    }

    /// An answer with its head.
    pub async fn answer(&self, port: u16, method: &str, path: &str, body: Option<&Value>) -> Response {
        let base = Url::parse(&format!("http://127.0.0.1:{port}")).unwrap();
        let url = base.join(path).unwrap();
        let text = body.map(Value::to_string).unwrap_or_default();
        let method = method.parse().unwrap();
        let mut request = Request::new(method, url, Body::bytes(text))
            .header(http::header::CONTENT_TYPE, "application/json")
            .unwrap()
            .limits(Limits { total: Duration::from_secs(45), bytes_max: 100_000_000, hops_max: 0 });
        if let Some(token) = &self.token {
            request = request.credentials(Credentials::bearer(&base, &Secret::new(token.clone())).unwrap());
        }
        let answer = self.http.send(request).await;
        answer.unwrap_or_else(|error| panic!("{path}: {error}\n{}", self.last_words()))
    }

    pub async fn get(&self, path: &str) -> Value {
        let (status, body) = self.ask("GET", path, None).await;
        assert_eq!(status, 200, "{path}: {body}");
        body
    }

    pub async fn post(&self, path: &str, body: Value) -> (u16, Value) {
        self.ask("POST", path, Some(&body)).await
    }

    /// A shop at Etsy that is connected here.
    pub async fn connect(&self, shop: u64) -> EtsyTokens {
        let tokens = self.etsy.add_shop(shop, shop + 5_000);
        self.connect_with(shop, &tokens).await;
        tokens
    }

    pub async fn connect_with(&self, shop: u64, tokens: &EtsyTokens) -> u16 {
        let body = json!({
            "shop_id": shop, "user_id": shop + 5_000, "access_token": tokens.access,
            "refresh_token": tokens.refresh, "expires_at": "2999-01-01T00:00:00Z",
        });
        let (status, answer) = self.post("/shops", body).await;
        assert!([200, 201].contains(&status), "{answer}");
        status
    }

    pub async fn status(&self, shop: u64) -> Value {
        self.get(&format!("/shops/{shop}/status")).await
    }

    pub async fn until(&self, shop: u64, status: &str) -> Value {
        let found = answered_within(900, async || {
            let found = self.status(shop).await;
            (found["status"] == status).then_some(found)
        });
        match found.await {
            Some(found) => found,
            None => panic!("shop {shop} is not {status}: {}\n{}", self.status(shop).await, self.last_words()),
        }
    }

    pub fn last_words(&self) -> String {
        last_words(self.folder.path(), 25)
    }

    /// Up to date, and nothing is to be sent.
    pub async fn settled(&self, shop: u64) {
        eventually("the shop is settled", async || {
            let status = self.status(shop).await;
            (status["status"] == "up_to_date" && status["to_upload"] == 0).then_some(())
        })
        .await;
    }

    pub async fn edit(&self, shop: u64, listing: u64, fields: Value) -> (u16, Value) {
        self.ask("PATCH", &format!("/shops/{shop}/listings/{listing}"), Some(&fields)).await
    }

    pub async fn listing(&self, shop: u64, listing: u64) -> Value {
        self.get(&format!("/shops/{shop}/listings/{listing}")).await
    }

    /// All listings, page by page.
    pub async fn listings(&self, shop: u64) -> Vec<Value> {
        self.listings_by(shop, "limit=200").await
    }

    /// The listings that a question gives, page by page.
    pub async fn listings_by(&self, shop: u64, query: &str) -> Vec<Value> {
        let (mut all, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = self.get(&format!("/shops/{shop}/listings?{query}{cursor}")).await;
            all.extend(page["listings"].as_array().unwrap().clone());
            match page["next_cursor"].as_str() {
                Some(next) => {
                    let next: String = url::form_urlencoded::byte_serialize(next.as_bytes()).collect();
                    cursor = format!("&cursor={next}");
                }
                None => return all,
            }
        }
    }

    /// How often Etsy was asked for something whose path ends so.
    pub fn asked(&self, what: &str) -> usize {
        self.etsy.calls().iter().filter(|call| call.what.contains(what)).count()
    }

    /// Nothing that was asked contradicts Etsy's document, and nothing has cost the seller money.
    pub fn clean(&self) {
        assert_eq!(self.etsy.violations(), Vec::<String>::new());
        assert_eq!(self.etsy.fees(), 0);
    }
}
