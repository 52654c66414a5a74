//! The program as its users get it, with stand-ins for everybody whom it asks.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use windlass_standins::{Newsdata, Sites, Story, WorkersAi};
use windlass_testkit::binary::windlass;
use windlass_testkit::eventually::eventually;
use windlass_testkit::program::Program;

pub struct House {
    pub newsdata: Newsdata,
    pub sites: Sites,
    pub ai: WorkersAi,
    pub folder: tempfile::TempDir,
    pub env: BTreeMap<String, String>,
}

/// A program that runs on.
pub struct Running {
    program: Option<Program>,
    log: PathBuf,
}

/// An answer of the feed.
pub struct Got {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Got {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(':'));
        lines.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    }
}

impl House {
    pub async fn new() -> Self {
        let (newsdata, sites, ai) = (Newsdata::start().await, Sites::start().await, WorkersAi::start().await);
        let folder = tempfile::tempdir().unwrap();
        let pairs = [
            ("NEWSDATA_API_KEY", newsdata.key()),
            ("NEWSDATA_BASE_URL", newsdata.url()),
            ("CLOUDFLARE_ACCOUNT_ID", ai.account()),
            ("CLOUDFLARE_API_TOKEN", ai.token()),
            ("CLOUDFLARE_BASE_URL", ai.url()),
            ("FETCH_ALLOW_HOSTS", sites.host()),
            ("WINDLASS_STORE", format!("sqlite:{}", folder.path().join("news.db").display())),
            ("BITCOIN_NEWS_LISTEN", "127.0.0.1:0".to_owned()),
            ("RETRY_LADDER", "1s".to_owned()),
            ("LEASE", "2s".to_owned()),
        ];
        let env = pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        Self { newsdata, sites, ai, folder, env }
    }

    pub fn set(&mut self, name: &str, value: &str) -> &mut Self {
        self.env.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Stories whose pages are on our site.
    pub fn publish(&self, numbers: impl IntoIterator<Item = usize>) {
        for number in numbers {
            self.newsdata.publish(self.story(number));
        }
    }

    pub fn story(&self, number: usize) -> Story {
        Story { link: self.sites.page(&format!("/articles/{number}")), ..Story::made_up(number) }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(windlass());
        command.arg("bitcoin-news").args(args).current_dir(self.folder.path()).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).envs(&self.env);
        command
    }

    /// Runs a verb to its end.
    pub async fn run(&self, args: &[&str]) -> Output {
        self.run_with(args, "").await
    }

    pub async fn run_with(&self, args: &[&str], input: &str) -> Output {
        let mut command = self.command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let (input, mut child) = (input.to_owned(), command.spawn().unwrap());
        tokio::task::spawn_blocking(move || {
            use std::io::Write;
            // One that asks for nothing has closed it.
            let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
            child.wait_with_output().unwrap()
        })
        .await
        .unwrap()
    }

    /// Runs a verb that must succeed, and gives what it said.
    pub async fn said(&self, args: &[&str]) -> String {
        let output = self.run(args).await;
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{args:?}: {out}{err}");
        out.into_owned()
    }

    pub async fn json(&self, args: &[&str]) -> Value {
        let said = self.said(&[args, &["--json"]].concat()).await;
        serde_json::from_str(said.trim()).unwrap_or_else(|error| panic!("{error}: {said}"))
    }

    pub async fn kv(&self, key: &str) -> Value {
        self.json(&["kv", "get", key]).await
    }

    pub fn start(&self, args: &[&str]) -> Running {
        // A name of its own for each process.
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let log = self.folder.path().join(format!("log-{count}"));
        let file = std::fs::File::create_new(&log).unwrap();
        let mut command = self.command(args);
        command.stdout(file.try_clone().unwrap()).stderr(file);
        Running { program: Some(Program::start(&mut command)), log }
    }

    /// Waits until the program has brought it to so many articles in a state.
    pub async fn until(&self, state: &str, count: u64) {
        eventually(&format!("{count} articles are {state}"), async || {
            (self.json(&["status"]).await[state] == count).then_some(())
        })
        .await;
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

impl Running {
    /// Where the feed is.
    pub async fn address(&self) -> String {
        eventually("the program says where the feed is", async || {
            let log = self.log();
            let (_, rest) = log.split_once("http://")?;
            Some(rest.split_once('/')?.0.to_owned())
        })
        .await
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    pub fn kill(mut self) {
        self.program.take().unwrap().kill();
    }

    /// SIGTERM, and its end.
    pub async fn stop(mut self) -> std::process::ExitStatus {
        let program = self.program.take().unwrap();
        program.signal(libc::SIGTERM);
        tokio::task::spawn_blocking(move || program.wait()).await.unwrap()
    }
}

/// Asks a server, by one request on one connection.
pub async fn ask(address: &str, method: &str, path: &str, headers: &[(&str, &str)]) -> Got {
    let mut tcp = tokio::net::TcpStream::connect(address).await.unwrap();
    let mut text = format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n");
    if method == "POST" {
        text.push_str("content-length: 0\r\n");
    }
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str("\r\n");
    tcp.write_all(text.as_bytes()).await.unwrap();
    let mut all = Vec::new();
    tcp.read_to_end(&mut all).await.unwrap();
    let at = all.windows(4).position(|four| four == b"\r\n\r\n").expect("an answer has a head");
    let (head, body) = (String::from_utf8_lossy(&all[..at]).into_owned(), all[at + 4..].to_vec());
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
    assert!(!chunked, "answers say how long they are");
    Got { status, head, body }
}

pub async fn get(address: &str, path: &str) -> Got {
    ask(address, "GET", path, &[]).await
}
