//! `windlass mcp` as an assistant drives it: a program on stdin and stdout, asked a line at a time, before a server that knows
//! tokens of every role, and on a store without a server.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde_json::{Value, json};

use crate::cli::Shell;

const TOKENS: &str = r#"
[tokens.boss]
env = "BOSS_TOKEN"
role = "admin"

[tokens.eyes]
env = "EYES_TOKEN"
role = "read"

[tokens.shop]
env = "SHOP_TOKEN"
role = "submit"
"#;
const BOSS: (&str, &str) = ("BOSS_TOKEN", "boss-5f0e7c1d9a3b4e8f");
const EYES: (&str, &str) = ("EYES_TOKEN", "eyes-0c2d4e6f8a1b3c5d");
const SHOP: (&str, &str) = ("SHOP_TOKEN", "shop-9e8d7c6b5a4f3e2d");

/// A session: what is asked is answered before the next is asked.
struct Session {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    asked: u64,
}

impl Session {
    fn open(shell: &Shell, token: Option<&str>, line: &[&str]) -> Self {
        let mut command = shell.command(&[&["mcp"][..], line].concat());
        if let Some(token) = token {
            command.env("WINDLASS_TOKEN", token);
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        let mut session = Self { child, input, output, asked: 0 };
        let hello = session.ask("initialize", json!({ "protocolVersion": "2025-06-18", "capabilities": {} }));
        assert_eq!(hello["result"]["serverInfo"]["name"], "windlass");
        // It wants no answer: the next line is that of the next question.
        session.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        session
    }

    fn send(&mut self, message: &Value) {
        let input = self.input.as_mut().unwrap();
        writeln!(input, "{message}").unwrap();
        input.flush().unwrap();
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.asked += 1;
        let id = self.asked;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        let answer: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"));
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    /// What a tool answers; an error where it refuses.
    fn tool(&mut self, name: &str, arguments: Value) -> Result<Value, String> {
        let answer = self.ask("tools/call", json!({ "name": name, "arguments": arguments }));
        if let Some(refused) = answer["error"]["message"].as_str() {
            return Err(refused.to_owned());
        }
        let text = answer["result"]["content"][0]["text"].as_str().expect("a text");
        let said: Value = serde_json::from_str(text).expect("JSON");
        match answer["result"]["isError"].as_bool() {
            Some(false) => Ok(said),
            _ => Err(said["error"].as_str().expect("an error").to_owned()),
        }
    }

    fn does(&mut self, name: &str, arguments: Value) -> Value {
        self.tool(name, arguments).unwrap_or_else(|refused| panic!("{name}: {refused}"))
    }

    fn refuses(&mut self, name: &str, arguments: Value) -> String {
        self.tool(name, arguments).map_or_else(|refused| refused, |said| panic!("{name}: {said}"))
    }

    fn tools(&mut self) -> Vec<Value> {
        self.ask("tools/list", json!({}))["result"]["tools"].as_array().unwrap().clone()
    }

    /// Its input ends, and so does it.
    fn close(mut self) {
        drop(self.input.take());
        assert!(self.child.wait().unwrap().success());
    }
}

/// A server that knows who may what, with a job for later, one that is over and one that failed.
fn house() -> Shell {
    let mut shell = Shell::new();
    std::fs::write(shell.folder.path().join("windlass.toml"), TOKENS).unwrap();
    shell.says(0, &["enqueue", "fails", "--ladder", "none"]);
    let script = shell.script("fails.sh", "echo no luck >&2; exit 1");
    shell.says(0, &["work", "--kind", "fails", "--until-idle", "--quiet", "--", &script]);
    shell.says(0, &["enqueue", "greet", "--delay", "1h"]);
    shell.says(0, &["enqueue", "greet", "--delay", "2h"]);
    shell.serves(&[BOSS, EYES, SHOP]);
    shell
}

/// How many jobs are in a state, as the store itself has it.
fn count(shell: &Shell, state: &str) -> usize {
    shell.list(&["jobs", "--state", state, "--store", "sqlite:windlass.db"]).len()
}

/// Whoever may act counts first, and then does it; each tool of those that change something is used once.
#[test]
fn an_admin_looks_counts_and_acts() {
    let shell = house();
    let mut session = Session::open(&shell, Some(BOSS.1), &["--act"]);
    let tools = session.tools();
    let acting = tools.iter().filter(|tool| tool["annotations"]["readOnlyHint"] == false);
    let mut acting: Vec<&str> = acting.map(|tool| tool["name"].as_str().unwrap()).collect();
    acting.sort_unstable();
    let mut used = Vec::new();
    let mut act = |session: &mut Session, name: &'static str, arguments: Value| {
        used.push(name);
        session.does(name, arguments)
    };

    let greets = json!({ "kind": "greet" });
    assert_eq!(session.does("run_jobs", greets.clone())["would_run"], 2);
    assert_eq!(session.does("cancel_jobs", greets.clone())["would_cancel"], 2);
    assert_eq!(session.does("retry_jobs", json!({ "error": "no luck" }))["would_retry"], 1);
    let dry = session.does("delete_jobs", json!({ "state": "failed" }));
    assert_eq!((&dry["would_delete"], dry["newest"].as_array().unwrap().len()), (&json!(1), 1));
    assert_eq!((count(&shell, "queued"), count(&shell, "failed")), (2, 1), "it was only counted");

    let wet = |mut given: Value| {
        given["dry_run"] = json!(false);
        given
    };
    assert_eq!(act(&mut session, "run_jobs", wet(greets.clone())), json!({ "made_due": 2, "refused": 0 }));
    let failed = session.does("list_jobs", json!({ "state": "failed" }))["jobs"][0]["id"].clone();
    assert!(session.does("get_log", json!({ "id": failed })).to_string().contains("no luck"));
    assert_eq!(act(&mut session, "retry_job", json!({ "id": failed }))["outcome"], "retried");
    assert_eq!(act(&mut session, "cancel_job", json!({ "id": failed }))["outcome"], "canceled");
    assert_eq!(act(&mut session, "delete_job", json!({ "id": failed }))["outcome"], "deleted");
    assert!(session.refuses("get_job", json!({ "id": failed })).contains("no"));
    let made = act(&mut session, "enqueue_job", json!({ "kind": "hello", "payload": { "n": 1 } }));
    assert_eq!(act(&mut session, "run_job", json!({ "id": made["id"] }))["outcome"], "already_due");
    let explained = session.does("explain_job", json!({ "id": made["id"] }));
    assert!(explained.to_string().contains("workers"), "{explained}");
    let cancels = act(&mut session, "cancel_jobs", wet(greets));
    assert_eq!(cancels, json!({ "canceled": 2, "refused": 0 }));
    let retries = act(&mut session, "retry_jobs", wet(json!({ "state": "canceled" })));
    assert_eq!(retries, json!({ "retried": 2, "refused": 0 }));
    let deletes = act(&mut session, "delete_jobs", wet(json!({ "state": "queued" })));
    assert_eq!(deletes, json!({ "deleted": 3, "refused": 0 }));
    let schedule = ["schedules", "set", "nightly", "--cron", "0 3 * * *", "--kind", "report", "--store"];
    shell.says(0, &[&schedule[..], &["sqlite:windlass.db"]].concat());
    act(&mut session, "run_schedule", json!({ "name": "nightly" }));
    assert_eq!(count(&shell, "queued"), 1);

    used.sort_unstable();
    used.dedup();
    assert_eq!(used, acting, "each tool that changes something is used");
    let findings = session.does("doctor", json!({}));
    assert!(findings.to_string().contains("No worker is alive, and 1 job waits"), "{findings}");
    session.close();
}

/// Without `--act` nothing is changed, whoever asks; with it the role decides.
#[test]
fn nobody_does_more_than_the_flag_and_the_token_allow() {
    let shell = house();
    let before = || (count(&shell, "queued"), count(&shell, "failed"), count(&shell, "canceled"));
    assert_eq!(before(), (2, 1, 0));
    let cancel = json!({ "kind": "greet", "dry_run": false });

    let mut looks = Session::open(&shell, Some(BOSS.1), &[]);
    assert!(looks.tools().iter().all(|tool| tool["annotations"]["readOnlyHint"] == true));
    assert!(looks.refuses("cancel_jobs", cancel.clone()).contains("--act"));
    assert!(looks.refuses("enqueue_job", json!({ "kind": "x" })).contains("there is no tool"));
    assert_eq!(looks.does("cancel_jobs", json!({ "kind": "greet" }))["would_cancel"], 2);
    looks.close();

    let mut eyes = Session::open(&shell, Some(EYES.1), &["--act"]);
    assert_eq!(eyes.does("cancel_jobs", json!({ "kind": "greet" }))["would_cancel"], 2);
    let newest = eyes.does("list_jobs", json!({ "kind": "greet" }))["jobs"][0]["id"].clone();
    for (tool, given) in [
        ("cancel_jobs", cancel.clone()),
        ("retry_jobs", json!({ "state": "failed", "dry_run": false })),
        ("delete_jobs", json!({ "state": "failed", "dry_run": false })),
        ("run_jobs", cancel.clone()),
        ("cancel_job", json!({ "id": newest })),
        ("delete_job", json!({ "id": newest })),
        ("enqueue_job", json!({ "kind": "x" })),
    ] {
        let said = eyes.refuses(tool, given);
        assert!(said.contains("admin") || said.contains("may"), "{tool}: {said}");
    }
    eyes.close();

    let mut shop = Session::open(&shell, Some(SHOP.1), &["--act"]);
    assert!(shop.does("enqueue_job", json!({ "kind": "order" }))["id"].is_string());
    shop.refuses("cancel_jobs", cancel.clone());
    shop.refuses("delete_job", json!({ "id": newest }));
    shop.close();
    assert_eq!(before(), (3, 1, 0), "one was enqueued, and nothing else changed");

    let mut nobody = Session::open(&shell, Some("guessed"), &["--act"]);
    let said = nobody.refuses("cancel_jobs", cancel);
    assert!(said.contains("token"), "{said}");
    assert_eq!(before(), (3, 1, 0));
    nobody.close();
}

/// A store needs no server, and no token.
#[test]
fn a_store_without_a_server() {
    let shell = Shell::migrated();
    let mut session = Session::open(&shell, None, &["--act", "--store", "sqlite:windlass.db"]);
    let id = session.does("enqueue_job", json!({ "kind": "greet" }))["id"].clone();
    assert_eq!(session.does("get_job", json!({ "id": id }))["state"], "queued");
    assert!(session.refuses("list_jobs", json!({ "stat": "queued" })).contains("takes no stat"));
    assert!(session.ask("resources/list", json!({}))["error"]["message"].is_string());
    assert_eq!(session.does("cancel_job", json!({ "id": id }))["outcome"], "canceled");
    session.close();
    assert_eq!(count(&shell, "canceled"), 1);
}
