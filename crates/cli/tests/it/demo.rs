//! `windlass demo`: everything at work, cut off, killed, ended, and begun again.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::Value;
use windlass_testkit::binary::{windlass, windlass_full};
use windlass_testkit::eventually::answered_within;

struct Demo {
    child: Child,
    page: String,
    /// Held open: a program whose output nobody reads any more ends.
    _said: BufReader<ChildStdout>,
}

/// What somebody answers.
fn asked(host: &str, method: &str, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(host).ok()?;
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
    )
    .ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer.split("\r\n\r\n").nth(1)?.to_owned())
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Demo {
    fn start(folder: &Path) -> Self {
        Self::of(&mut Command::new(windlass()), folder)
    }

    fn of(command: &mut Command, folder: &Path) -> Self {
        command.args(["demo", "--speed", "10", "--port", "0", "--folder"]).arg(folder);
        command
            .env_remove("DATABASE_URL")
            .env_remove("MONGODB_URI")
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        let mut lines = said.by_ref().lines().map_while(Result::ok);
        let line = lines.find(|line| line.contains("all workers on one page"));
        let line = line.expect("it says where its page is");
        let page = line.trim().trim_start_matches("http://").split('/').next().unwrap().to_owned();
        Self { child, page, _said: said }
    }

    fn ask(&self, method: &str, path: &str) -> Option<Value> {
        serde_json::from_str(&asked(&self.page, method, path)?).ok()
    }

    fn worker(&self, name: &str) -> Option<Value> {
        let state = self.ask("GET", "/demo/state")?;
        state["workers"].as_array()?.iter().find(|worker| worker["name"] == name).cloned()
    }

    /// A figure of a worker.
    fn fact(&self, name: &str, what: &str) -> Option<String> {
        let facts = self.worker(name)?["facts"].as_array()?.clone();
        facts.iter().find(|fact| fact[0] == what).map(|fact| fact[1].as_str().unwrap_or_default().to_owned())
    }

    async fn until<T>(&self, what: &str, look: impl Fn(&Self) -> Option<T>) -> T {
        let found = answered_within(1_200, async || look(self)).await;
        found.unwrap_or_else(|| panic!("{what}: {:?}", self.ask("GET", "/demo/state")))
    }

    fn signal(&self, pid: i32, signal: i32) {
        // SAFETY: the number is that of a process which this test has started.
        assert_eq!(unsafe { libc::kill(pid, signal) }, 0, "cannot signal {pid}");
    }

    fn pids(&self) -> Vec<i32> {
        let state = self.ask("GET", "/demo/state").unwrap();
        let workers = state["workers"].as_array().unwrap().iter();
        workers.filter_map(|worker| worker["pid"].as_i64()).map(|pid| pid as i32).collect()
    }

    /// Ends it as Ctrl-C does.
    fn end(self) {
        let pids = self.pids();
        self.signal(self.child.id() as i32, libc::SIGINT);
        self.ended();
        for pid in pids {
            assert!(!Path::new(&format!("/proc/{pid}")).exists(), "{pid} is still there");
        }
    }

    /// It ends, and well.
    fn ended(mut self) {
        assert!(self.child.wait().unwrap().success());
    }
}

/// A program is told the same as a person: everybody who takes part with an address, and who does not, with why.
#[tokio::test(flavor = "multi_thread")]
async fn a_program_is_told_all_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(windlass());
    command.args(["demo", "--json", "--port", "0", "--folder"]).arg(folder.path());
    command.env_remove("DATABASE_URL").env_remove("MONGODB_URI");
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    let told: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
    let page = told["url"].as_str().unwrap().trim_start_matches("http://").trim_end_matches('/').to_owned();
    let demo = Demo { child, page, _said: said };

    let named = |list: &str| -> Vec<String> {
        let all = told[list].as_array().unwrap_or_else(|| panic!("no {list} in {told}"));
        all.iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
    };
    let (here, away) = (named("workers"), named("absent"));
    assert_eq!(here.len() + away.len(), 6, "the server and five workers: {told}");
    for name in ["serve", "bitcoin-news", "vela", "news-nexus"] {
        assert!(here.iter().any(|one| one == name), "{name} is not in {here:?}");
    }
    assert!(away.iter().any(|one| one == "Listener"), "the usual program has it not: {told}");
    for worker in told["workers"].as_array().unwrap() {
        let url = worker["url"].as_str().unwrap().trim_start_matches("http://").to_owned();
        let (host, path) = url.split_once('/').unwrap();
        demo.until(&url, |_| asked(host, "GET", &format!("/{path}"))).await;
    }
    for one in told["absent"].as_array().unwrap() {
        assert!(one["why"].as_str().is_some_and(|why| !why.is_empty()), "{one}");
    }
    assert_eq!(told["tries"].as_array().unwrap().len(), 5);
    demo.end();
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_is_at_work_and_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let demo = Demo::start(folder.path());
    let count = |demo: &Demo| demo.fact("bitcoin-news", "articles")?.parse::<u64>().ok();
    demo.until("articles are in the feed", |demo| count(demo).filter(|count| *count >= 3)).await;
    demo.until("a shop is in sync", |demo| {
        demo.fact("vela", "shop 101").filter(|status| status == "up to date")
    })
    .await;
    demo.until("searches are over, and states are assigned", |demo| {
        demo.fact("news-nexus", "completed")?.parse::<u64>().ok().filter(|count| *count >= 4)
    })
    .await;
    assert_eq!(demo.fact("news-nexus", "failed").as_deref(), Some("0"), "the models give states");
    if demo.worker("nurse-tour").is_some() {
        demo.until("messages are documented", |demo| {
            demo.fact("nurse-tour", "documented")?.parse::<u64>().ok().filter(|count| *count >= 1)
        })
        .await;
    }
    let old = demo.worker("vela").unwrap()["pid"].as_i64().unwrap();
    demo.signal(old as i32, libc::SIGKILL);
    demo.until("what was killed is started again", |demo| {
        let worker = demo.worker("vela")?;
        (worker["answers"] == true && worker["pid"] != old).then_some(())
    })
    .await;
    assert_eq!(demo.ask("POST", "/demo/providers/newsdata/off").unwrap()["open"], false);
    assert_eq!(demo.ask("POST", "/demo/providers/newsdata/on").unwrap()["open"], true);
    let (page, before) = (demo.page.clone(), count(&demo).unwrap());
    // Whoever starts it again at once is not refused: the first is ending, which takes a moment.
    demo.signal(demo.child.id() as i32, libc::SIGINT);
    let again = Demo::start(folder.path());
    demo.ended();
    assert_eq!(again.page, page, "links of before are still good");
    again.until("it goes on", |demo| count(demo).filter(|count| *count > before)).await;
    // Killed, it leaves a Postgres behind, if it had one: the next start is not held up by that.
    let had_postgres = again.worker("nurse-tour").is_some();
    drop(again);
    let after = Demo::start(folder.path());
    after.until("it goes on after a kill", |demo| count(demo)).await;
    assert_eq!(after.worker("nurse-tour").is_some(), had_postgres);
    after.end();
}

/// What the demo is there to show: work fails and recovers, a quota is reached and cools down, jobs are canceled; and the
/// five commands that it prints do what they say.
#[tokio::test(flavor = "multi_thread")]
async fn things_go_wrong_and_recover_and_what_is_printed_works() {
    let folder = tempfile::tempdir().unwrap();
    let demo = Demo::start(folder.path());
    demo.until("a shop has used up its quota, and waits for more", |demo| {
        demo.fact("vela", "shop 900").filter(|status| status == "waiting quota")
    })
    .await;
    demo.until("a search is canceled", |demo| {
        demo.fact("news-nexus", "canceled")?.parse::<u64>().ok().filter(|count| *count >= 1)
    })
    .await;
    let tries = demo.ask("GET", "/demo/state").unwrap()["tries"].clone();
    let tries: Vec<String> =
        tries.as_array().unwrap().iter().map(|one| one[1].as_str().unwrap().to_owned()).collect();
    let [kill, cut_off, cancel, explain, work] = tries.as_slice() else { panic!("{tries:?}") };
    let said = |line: &str| {
        let output = Command::new("sh").args(["-c", line]).current_dir(folder.path()).output().unwrap();
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{line}\n{out}\n{err}");
        out.into_owned()
    };

    let articles = |demo: &Demo, state: &str| {
        let link = demo.worker("bitcoin-news")?["link"].as_str()?.to_owned();
        let address = link.trim_start_matches("http://").split('/').next()?.to_owned();
        let metrics = asked(&address, "GET", "/metrics")?;
        let name = format!("bitcoin_news_articles{{state=\"{state}\"}} ");
        metrics.lines().find_map(|line| line.strip_prefix(&name)?.parse::<u64>().ok())
    };
    assert!(said(cut_off.split('#').next().unwrap()).contains("false"));
    let failed = demo.until("articles fail, and wait for their next try", |demo| {
        articles(demo, "later").filter(|count| *count >= 5)
    });
    failed.await;
    let before = articles(&demo, "done").unwrap();
    said(&cut_off.split('#').next().unwrap().replace("/off", "/on"));
    demo.until("they recover", |demo| {
        let (later, done) = (articles(demo, "later")?, articles(demo, "done")?);
        (later < 5 && done >= before + 5).then_some(())
    })
    .await;

    said(cancel);
    assert!(!said(explain).is_empty());
    assert!(said(work).contains("Ada"));
    // It kills the worker of this demo, and not that of another on the same machine.
    let victim = demo.worker("vela").unwrap()["pid"].clone();
    assert!(kill.contains(&folder.path().canonicalize().unwrap().display().to_string()), "{kill}");
    said(kill);
    demo.until("another one takes its place", |demo| {
        let worker = demo.worker("vela")?;
        (worker["answers"] == true && worker["pid"].is_i64() && worker["pid"] != victim).then_some(())
    })
    .await;
    demo.end();
    let left = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let pids: Vec<_> = left.filter(|name| name.to_string_lossy().ends_with(".pid")).collect();
    assert!(pids.is_empty(), "{pids:?} name processes that are gone");
}

/// Where a mongod is on the machine, the program that has the Listener shows it: an order that is paid is a job.
#[tokio::test(flavor = "multi_thread")]
async fn the_listener_takes_part_where_there_is_a_mongod() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../stores/mongo/tests/mongod");
    let mongod = String::from_utf8(Command::new(script).output().unwrap().stdout).unwrap();
    let place = Path::new(mongod.trim()).parent().unwrap();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path =
        std::env::join_paths([place.to_owned()].into_iter().chain(std::env::split_paths(&path))).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let demo = Demo::of(Command::new(windlass_full()).env("PATH", path), folder.path());
    let made = |demo: &Demo| demo.fact("listener", "jobs made")?.parse::<u64>().ok();
    demo.until("orders become jobs", |demo| made(demo).filter(|made| *made >= 2)).await;
    demo.end();
}
