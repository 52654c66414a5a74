//! A worker of Node's Agenda in a process of its own.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use mongodb::bson::oid::ObjectId;
use serde_json::{Value, json};

use crate::scene::{COLLECTION, Scene};

/// Every version whose rows are worked.
pub const VERSIONS: [&str; 4] = ["4", "5", "hokify", "6"];

/// It ends with its input, and so with this process.
pub struct Node {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<Value>,
    /// The runs that it told of while it was asked for something else.
    runs: Vec<Value>,
}

impl Node {
    /// Starts a process that looks for work as often as this says, such as `0.2 seconds`, once it is told to.
    pub fn open(version: &str, scene: &Scene, process_every: &str) -> Self {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/agenda");
        let installed =
            Command::new(format!("{folder}/install")).output().expect("tests/agenda/install can be run");
        assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));
        let mut child = Command::new("node")
            .args(["worker.mjs", version, &scene.database.url(), COLLECTION])
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("node starts");
        let output = BufReader::new(child.stdout.take().expect("its output"));
        let (tell, lines) = channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let line = serde_json::from_str(&line).unwrap_or_else(|_| json!({ "noise": line }));
                if tell.send(line).is_err() {
                    break;
                }
            }
        });
        let input = child.stdin.take();
        let mut node = Self { child, input, lines, runs: Vec::new() };
        node.ask(json!({ "command": "open", "processEvery": process_every }));
        node
    }

    /// Asks for something and waits for the answer.
    pub fn ask(&mut self, wish: Value) -> Value {
        let input = self.input.as_mut().expect("it was not killed");
        writeln!(input, "{wish}").expect("it listens");
        loop {
            let line = self.line(&wish);
            if let Some(answer) = line.get("answer") {
                return answer.clone();
            }
            assert!(line.get("failed").is_none(), "{wish}: {line}");
            self.runs.extend(Some(line).filter(|line| line.get("run").is_some()));
        }
    }

    /// What a run of this name does: `end` at once, `fail`, or `wait` until it is told.
    pub fn define(&mut self, name: &str, lock_lifetime_ms: u32, does: &str) {
        self.ask(
            json!({ "command": "define", "name": name, "lockLifetime": lock_lifetime_ms, "does": does }),
        );
    }

    pub fn start(&mut self) {
        self.ask(json!({ "command": "start" }));
    }

    /// Waits for a run to begin.
    pub fn run(&mut self) -> (ObjectId, Value) {
        let run = match self.runs.is_empty() {
            false => self.runs.remove(0),
            true => loop {
                let line = self.line(&json!("a run"));
                if line.get("run").is_some() {
                    break line;
                }
            },
        };
        (id(&run["run"]), run["data"].clone())
    }

    /// The runs that began, as far as it has told.
    pub fn runs_so_far(&mut self) -> Vec<ObjectId> {
        let told = self.lines.try_iter().filter(|line| line.get("run").is_some());
        self.runs.extend(told);
        self.runs.iter().map(|run| id(&run["run"])).collect()
    }

    fn line(&self, waiting_for: &Value) -> Value {
        self.lines
            .recv_timeout(Duration::from_secs(60))
            .unwrap_or_else(|error| panic!("Node says nothing of {waiting_for}: {error}"))
    }

    pub fn kill(&mut self) {
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it has ended");
    }
}

pub fn id(hex: &Value) -> ObjectId {
    ObjectId::parse_str(hex.as_str().expect("an id as text")).expect("an id")
}

impl Drop for Node {
    fn drop(&mut self) {
        drop(self.input.take());
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
