//! The binary as a person uses it.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Output, Stdio};

pub struct Shell {
    pub folder: tempfile::TempDir,
    server: Option<Served>,
}

/// A server of the folder's store, until it is dropped.
struct Served {
    child: Child,
    url: String,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Shell {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), server: None }
    }

    /// One that speaks to a server.
    pub fn served() -> Self {
        let mut shell = Self::new();
        shell.serves(&[]);
        shell
    }

    /// From now on it speaks to a server with these variables.
    pub fn serves(&mut self, env: &[(&str, &str)]) {
        let (child, said) = self.serve(env);
        let address = said.split("http://").nth(1).unwrap().split(' ').next().unwrap();
        self.server = Some(Served { child, url: format!("http://{address}") });
    }

    /// One whose store is there.
    pub fn migrated() -> Self {
        let shell = Self::new();
        shell.says(0, &["migrate"]);
        shell
    }

    /// What works with a store works with a server.
    pub fn both() -> [Self; 2] {
        [Self::migrated(), Self::served()]
    }

    /// A server, and the first line that it says.
    fn serve(&self, env: &[(&str, &str)]) -> (Child, String) {
        let mut command = self.command(&["serve", "--listen", "127.0.0.1:0"]);
        let mut child = command.envs(env.iter().copied()).stdout(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut said).unwrap();
        (child, said)
    }

    pub fn command(&self, line: &[&str]) -> Command {
        let mut command = Command::new(windlass_testkit::binary::windlass());
        command.current_dir(self.folder.path()).args(line);
        for name in ["WINDLASS_STORE", "WINDLASS_TOKEN", "WINDLASS_URL"] {
            command.env_remove(name);
        }
        if let Some(server) = &self.server {
            command.env("WINDLASS_URL", &server.url);
        }
        command
    }

    pub fn run(&self, line: &[&str]) -> Output {
        self.command(line).output().unwrap()
    }

    /// What a command says on stdout, when it ends with `code`.
    pub fn says(&self, code: i32, line: &[&str]) -> String {
        let output = self.run(line);
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(code), "windlass {line:?}\n{out}\n{err}");
        out
    }

    pub fn json(&self, line: &[&str]) -> serde_json::Value {
        let line = [line, &["--json"]].concat();
        serde_json::from_str(&self.says(0, &line)).unwrap()
    }

    /// A list for programs: a line of JSON for each.
    pub fn list(&self, line: &[&str]) -> Vec<serde_json::Value> {
        let line = [line, &["--json"]].concat();
        self.says(0, &line).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    pub fn script(&self, name: &str, body: &str) -> String {
        use std::os::unix::fs::PermissionsExt;
        let path = self.folder.path().join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path.display().to_string()
    }
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_job_from_enqueue_to_result() {
    for shell in Shell::both() {
        let id = shell.says(0, &["enqueue", "greet", r#"{"name": "Ada"}"#]).trim().to_owned();
        assert!(shell.says(0, &["explain", &id]).contains("no live worker"));
        assert!(shell.says(0, &["jobs"]).contains(&id[id.len() - 8..]));
        let script = shell.script("greet.sh", r#"read p; echo "::windlass {\"result\": $p}""#);
        shell.says(0, &["work", "--kind", "greet", "--until-idle", "--exec", &script]);
        let job = shell.json(&["job", &id]);
        assert_eq!(job["result"]["name"], "Ada");
        assert!(shell.says(0, &["job", &id]).contains("completed"));
        assert!(shell.says(4, &["cancel", &id]).contains("final"));
        assert_eq!(shell.says(0, &["retry", &id]), "retried 1 of 1 job\n");
        assert!(shell.says(0, &["cancel", &id]).contains("canceled"));
    }
}

#[test]
fn queues_budgets_and_schedules() {
    for shell in Shell::both() {
        shell.says(0, &["queues", "set", "mail", "--limit", "2", "--ladder", "1m 5m", "--on-crash", "fail"]);
        shell.says(0, &["queues", "set", "mail", "--retention-days", "7"]);
        shell.says(0, &["queues", "pause", "mail"]);
        let queue = &shell.list(&["queues"])[0];
        assert_eq!(queue["policy"]["limit"], 2, "what is not said stays: {queue}");
        assert_eq!((&queue["policy"]["retention_days"], &queue["paused"]), (&7.into(), &true.into()));
        let id = shell.says(0, &["enqueue", "send", "--queue", "mail"]).trim().to_owned();
        assert!(shell.says(0, &["explain", &id]).contains("its queue is paused"));
        shell.says(0, &["budgets", "set", "etsy", "--per-second", "5"]);
        shell.says(0, &["budgets", "cool-down", "etsy", "1h"]);
        assert!(shell.says(0, &["budgets"]).contains("in 59 min"));
        shell.says(0, &["budgets", "set", "etsy", "--per-day", "100", "--per-minute", "60"]);
        shell.says(0, &["budgets", "cool-down", "etsy", "0s"]);
        let budget = &shell.list(&["budgets"])[0];
        assert_eq!(
            (&budget["per_second"], &budget["per_minute"], &budget["per_day"]),
            (&5.into(), &60.into(), &100.into()),
            "what is not said stays"
        );
        assert!(budget["cooling_until"].is_null() && budget["free_at"].is_null(), "{budget}");
        shell.says(0, &["budgets", "set", "etsy", "--per-day", "0"]);
        assert!(shell.list(&["budgets"])[0]["per_day"].is_null(), "0 takes a bound away");
        shell.says(
            0,
            &[
                "schedules",
                "set",
                "nightly",
                "--cron",
                "30 2 * * *",
                "--zone",
                "Europe/Berlin",
                "--kind",
                "report",
            ],
        );
        let run = shell.says(0, &["schedules", "run", "nightly"]).trim().to_owned();
        assert_eq!(shell.json(&["job", &run])["kind"], "report");
        // As by the API: the job of the first run is not over, so this is that one.
        let again = shell.json(&["schedules", "run", "nightly"]);
        assert_eq!(again, serde_json::json!({"job_id": run, "deduplicated": true}));
        assert_eq!(shell.says(0, &["schedules", "run", "nightly"]).trim(), run);
        shell.says(0, &["cancel", &run]);
        assert_ne!(shell.says(0, &["schedules", "run", "nightly"]).trim(), run);
        shell.says(3, &["schedules", "run", "weekly"]);
        shell.says(0, &["schedules", "pause", "nightly"]);
        assert!(shell.says(0, &["schedules"]).contains("paused"));
        shell.says(0, &["schedules", "delete", "nightly"]);
        shell.says(3, &["schedules", "delete", "nightly"]);
    }
}

#[test]
fn errors_say_what_to_do_and_exit_codes_are_kept() {
    let shell = Shell::migrated();
    let nobody = "0198c0de-0000-7000-8000-000000000001";
    for (code, line, hint) in [
        (2, vec!["enqueue", "x", "{"], "payload"),
        (2, vec!["enqueue", "", "1"], "kind is empty"),
        (2, vec!["enqueue", "x", "--delay", "-5m"], ""),
        (2, vec!["jobs", "--state", "lost"], "none of queued, running"),
        (3, vec!["job", nobody], "there is no job"),
        (3, vec!["explain", nobody], "there is no job"),
        (3, vec!["cancel", nobody], ""),
        (2, vec!["schedules", "set", "s", "--cron", "61 * * * *", "--kind", "k"], "cron"),
        (2, vec!["queues", "set", "q", "--lease", "1ms"], "lease_ms"),
        (1, vec!["jobs", "--store", "mysql://x"], "write sqlite:FILE or postgres://"),
        (1, vec!["enqueue", "x", "--store", "sqlite:/dev/null/found.db"], "cannot open the store"),
    ] {
        let output = shell.run(&line);
        let err = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "windlass {line:?}: {err}");
        assert!(err.contains(hint), "windlass {line:?} does not say {hint:?}: {err}");
    }
    shell.says(0, &["enqueue", "x", "1", "--id", nobody]);
    shell.says(0, &["enqueue", "x", "1", "--id", nobody]);
    shell.says(4, &["enqueue", "x", "2", "--id", nobody]);
}

/// Whoever only looks makes nothing; whoever makes a store says so.
#[test]
fn looking_makes_no_store() {
    let shell = Shell::new();
    let id = "0198c0de-0000-7000-8000-000000000001";
    for store in ["sqlite:windlass.db", "json:jobs.json"] {
        for line in [
            vec!["jobs"],
            vec!["job", id],
            vec!["explain", id],
            vec!["cancel", id],
            vec!["retry", id],
            vec!["queues"],
            vec!["queues", "set", "mail", "--limit", "2"],
            vec!["budgets"],
            vec!["schedules"],
            vec!["workers"],
            vec!["doctor"],
            vec!["top"],
        ] {
            let output = shell.run(&[&line[..1], &["--store", store, "--json"], &line[1..]].concat());
            assert_eq!(output.status.code(), Some(3), "{line:?}: {}", text(&output.stderr));
            assert!(text(&output.stderr).contains("begin with windlass serve"), "{}", text(&output.stderr));
        }
        assert_eq!(std::fs::read_dir(shell.folder.path()).unwrap().count(), 0);
    }
    let made = shell.run(&["enqueue", "x"]);
    assert_eq!(text(&made.stderr), "made the store sqlite:windlass.db\n");
    assert_eq!(text(&shell.run(&["enqueue", "x"]).stderr), "");
}

/// What a program reads is the same from the command line and from the API.
#[test]
fn the_command_line_and_the_api_write_one_form() {
    let shell = Shell::served();
    shell.says(
        0,
        &[
            "enqueue",
            "later",
            r#"{"n": 1.10}"#,
            "--queue",
            "slow",
            "--key",
            "k",
            "--budget",
            "etsy",
            "--delay",
            "1h",
        ],
    );
    let id = shell.says(0, &["enqueue", "greet", "--ladder", "none"]).trim().to_owned();
    let script = shell.script("greet.sh", "echo '::windlass {\"progress\": 1}'; exit 1");
    shell.says(0, &["work", "--kind", "greet", "--until-idle", "--quiet", "--", &script]);
    shell.says(0, &["queues", "set", "mail", "--limit", "2"]);
    shell.says(0, &["budgets", "set", "etsy", "--per-second", "10"]);
    shell.says(0, &["schedules", "set", "nightly", "--cron", "0 3 * * *", "--kind", "report"]);
    let address = shell.server.as_ref().unwrap().url.strip_prefix("http://").unwrap().to_owned();
    let claim = r#"{"worker": "w1", "queues": ["none"], "limit": 1, "request_id": "0198c0de-0000-7000-8000-0000000000aa"}"#;
    ask(&address, "POST", "/v1/claim", claim);
    // What grows older between two looks is left out.
    let still = |value: &serde_json::Value| {
        let mut value = value.clone();
        for name in ["oldest_age_ms", "seen_at", "alive"] {
            value.as_object_mut().unwrap().remove(name);
        }
        value
    };
    for (line, path, member) in [
        (vec!["jobs"], "/v1/jobs".to_owned(), "jobs"),
        (vec!["queues"], "/v1/queues".to_owned(), "queues"),
        (vec!["budgets"], "/v1/budgets".to_owned(), "budgets"),
        (vec!["schedules"], "/v1/schedules".to_owned(), "schedules"),
        (vec!["workers"], "/v1/workers".to_owned(), "workers"),
    ] {
        let said: Vec<_> = shell.list(&line).iter().map(still).collect();
        let answered: Vec<_> = get(&address, &path)[member].as_array().unwrap().iter().map(still).collect();
        assert!(!said.is_empty(), "{line:?}");
        assert_eq!(said, answered, "{line:?}");
    }
    assert_eq!(shell.json(&["job", &id]), get(&address, &format!("/v1/jobs/{id}")));
    assert_eq!(shell.json(&["explain", &id]), get(&address, &format!("/v1/jobs/{id}/explain")));
    let refused = shell.run(&["enqueue", "x", "{", "--json"]);
    let error: serde_json::Value = serde_json::from_slice(&refused.stderr).unwrap();
    assert_eq!(error["error"]["code"], "invalid");
}

fn get(address: &str, path: &str) -> serde_json::Value {
    ask(address, "GET", path, "")
}

/// The JSON that a server answers.
fn ask(address: &str, method: &str, path: &str, body: &str) -> serde_json::Value {
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-type: application/json"
    );
    write!(stream, "{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).unwrap();
    let mut answer = String::new();
    std::io::Read::read_to_string(&mut stream, &mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{path}: {answer}");
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{path}: {error}: {body}"))
}

/// A worker says where it works and how each attempt ended, and passes through what programs write.
#[test]
fn a_worker_speaks() {
    let shell = Shell::migrated();
    let good = shell.says(0, &["enqueue", "greet"]).trim().to_owned();
    let bad = shell.says(0, &["enqueue", "greet", "--ladder", "1s"]).trim().to_owned();
    let short = |id: &str| format!("…{}", &id[id.len() - 8..]);
    let script = shell.script(
        "greet.sh",
        &format!("echo hello; if [ $WINDLASS_JOB_ID = {bad} ]; then echo no luck >&2; exit 1; fi"),
    );
    let output = shell.run(&["work", "--kind", "greet", "--until-idle", "--", &script, "--url", "nowhere"]);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(err.contains("from default of sqlite:windlass.db"), "{err}");
    assert!(out.contains(&format!("greet {} | hello", short(&good))), "{out}");
    assert!(err.contains(&format!("greet {} | no luck", short(&bad))), "{err}");
    assert!(err.contains(&format!("✓ greet {} ", short(&good))), "{err}");
    let line = err.lines().find(|line| line.starts_with("✗ greet")).unwrap_or_default();
    assert!(line.contains("exit 1: no luck · again in "), "{err}");

    shell.says(0, &["enqueue", "greet"]);
    let quiet = shell.run(&["work", "--kind", "greet", "--until-idle", "--quiet", "--exec", &script]);
    assert!(quiet.stdout.is_empty() && !text(&quiet.stderr).contains('✓'), "{}", text(&quiet.stderr));
}

/// A slip of the pen starts no worker elsewhere, and fails no job.
#[test]
fn a_worker_refuses_what_cannot_be_meant() {
    let shell = Shell::migrated();
    let script = shell.script("greet.sh", "true");
    shell.says(0, &["enqueue", "greet"]);
    for (line, hint) in [
        (vec!["--exec", &script, "--store", "sqlite:other.db"], "--store stands behind --exec"),
        (vec!["--exec", &script, "--url=http://nowhere"], "--url=http://nowhere stands behind --exec"),
        (vec!["--", "./no-such.sh"], "there is no program \"./no-such.sh\""),
        (vec!["--exec", "no-such-program"], "there is no program"),
        (vec![], "PROGRAM"),
    ] {
        let output = shell.run(&[&["work", "--kind", "greet", "--until-idle"][..], &line].concat());
        assert!(!output.status.success(), "{line:?}");
        assert!(text(&output.stderr).contains(hint), "{line:?}: {}", text(&output.stderr));
    }
    assert_eq!(shell.list(&["jobs", "--state", "queued"]).len(), 1);
    assert!(!shell.folder.path().join("other.db").exists());
}

/// `windlass jobs | head`: nobody reads on, and that is no fault.
#[test]
fn a_closed_pipe_is_no_fault() {
    let shell = Shell::new();
    shell.says(0, &["enqueue", "x"]);
    let mut command = Command::new(windlass_testkit::binary::windlass());
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    command.current_dir(shell.folder.path()).args(["jobs"]).stdout(writer);
    let output = command.stderr(std::process::Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{}", text(&output.stderr));
}

#[test]
fn the_doctor_finds_what_is_wrong() {
    for shell in Shell::both() {
        assert_eq!(shell.says(0, &["doctor"]), "nothing is wrong\n");
        shell.says(0, &["enqueue", "x", "--budget", "typo"]);
        let said = shell.says(1, &["doctor"]);
        assert!(said.contains("No worker is alive, and 1 job waits"), "{said}");
        assert!(said.contains("windlass work --kind x -- PROGRAM") && said.contains("budget typo"), "{said}");
    }
}

#[test]
fn the_bench_runs_on_every_embedded_store() {
    let shell = Shell::new();
    for store in ["sqlite:bench.db", "json:bench.json"] {
        let report = shell.json(&[
            "bench",
            "--store",
            store,
            "--jobs",
            "200",
            "--only",
            "enqueue-one,enqueue-batch,drain",
        ]);
        let figures = report["figures"].as_array().unwrap();
        assert_eq!(figures.len(), 3, "{report}");
        assert!(figures.iter().all(|figure| figure["per_second"].as_f64().unwrap() > 0.0), "{report}");
        assert!(shell.list(&["jobs", "--store", store]).is_empty(), "it cleans up");
    }
}

#[test]
fn the_server_starts_with_nothing_configured_and_ends_politely() {
    use std::io::Read;
    let shell = Shell::new();
    let (mut child, said) = shell.serve(&[]);
    let address = said.split("http://").nth(1).unwrap().split(' ').next().unwrap();
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    write!(stream, "GET /healthz HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let pid = i32::try_from(child.id()).unwrap();
    // SAFETY: the child is ours and not reaped yet, so the number is its own.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGTERM) }, 0);
    assert!(child.wait().unwrap().success());

    let refused = shell.run(&["serve", "--listen", "0.0.0.0:0"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("Set WINDLASS_TOKEN"), "{}", text(&refused.stderr));
}

#[test]
fn a_file_says_what_a_server_is_like() {
    let shell = Shell::new();
    assert!(text(&shell.run(&["config", "check"]).stderr).contains("there is no windlass.toml"));
    let script = shell.script("greet.sh", r#"read p; echo "::windlass {\"result\": \"$WHO\"}""#);
    let file = |text: &str| std::fs::write(shell.folder.path().join("windlass.toml"), text).unwrap();
    file("[queues.mail]\nlimit = \"many\"");
    let wrong = shell.run(&["config", "check"]);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(text(&wrong.stderr).contains("line 2"), "{}", text(&wrong.stderr));
    assert_eq!(shell.run(&["serve"]).status.code(), Some(1), "a wrong file starts nothing");
    file(&format!(
        "store = \"sqlite:other.db\"\n[queues.mail]\nlimit = 2\n[budgets.etsy]\nper_second = 5\n\
         [schedules.nightly]\ncron = \"30 2 * * *\"\nkind = \"greet\"\n\
         [commands.greet]\nexec = [\"{script}\"]\nenv = [\"WHO\"]\n"
    ));
    let right = shell.says(0, &["config", "check"]);
    assert_eq!(right, "windlass.toml is right: 1 queue, 1 budget, 1 schedule, 1 command, 0 tokens\n");

    let mut shell = shell;
    shell.serves(&[("WHO", "Ada")]);
    assert!(shell.folder.path().join("other.db").exists());
    assert_eq!(shell.list(&["queues"])[0]["policy"]["limit"], 2);
    assert!(
        shell.says(0, &["budgets"]).contains("etsy") && shell.says(0, &["schedules"]).contains("nightly")
    );
    let id = shell.says(0, &["schedules", "run", "nightly"]).trim().to_owned();
    let ended = || shell.json(&["job", &id])["result"] == "Ada";
    assert!((0..200).any(|_| ended()), "the server's own worker runs it: {}", shell.json(&["job", &id]));
}

/// `enqueue --wait` says what the job gave, and its exit code how it went.
#[test]
fn enqueue_waits_for_the_end() {
    let mut shell = Shell::new();
    let script = shell.script(
        "work.sh",
        r#"read p; case $p in *bad*) echo "no such thing" >&2; exit 1;; esac; echo "::windlass {\"result\": {\"got\": 7}}""#,
    );
    let config = format!("store = \"sqlite:windlass.db\"\n[commands.work]\nexec = [\"{script}\"]\n");
    std::fs::write(shell.folder.path().join("windlass.toml"), config).unwrap();
    shell.serves(&[]);

    assert_eq!(shell.says(0, &["enqueue", "work", "--wait"]), "{\"got\":7}\n");
    let given = shell.json(&["enqueue", "work", "--wait"]);
    assert_eq!((&given["result"]["got"], &given["deduplicated"]), (&7.into(), &false.into()), "{given}");
    let id = given["id"].as_str().unwrap();
    assert_eq!(shell.json(&["job", id])["state"], "completed");
    // One that is over already is answered at once.
    let again = shell.json(&["enqueue", "work", "--wait", "--id", id]);
    assert_eq!((&again["id"], &again["deduplicated"]), (&id.into(), &true.into()));

    for extra in [&[][..], &["--json"]] {
        let line = [&["enqueue", "work", "\"bad\"", "--ladder", "none", "--wait"], extra].concat();
        let failed = shell.run(&line);
        let (out, err) = (text(&failed.stdout), text(&failed.stderr));
        assert_eq!((failed.status.code(), out.as_str()), (Some(1), ""), "{err}");
        assert!(err.contains("has failed") && err.contains("no such thing"), "{err}");
    }

    let id = "00000000-0000-7000-8000-00000000000a";
    let mut waiting = shell.command(&["enqueue", "work", "--delay", "1h", "--id", id, "--wait"]);
    let mut waiting = waiting.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(waiting.stderr.as_mut().unwrap()).read_line(&mut said).unwrap();
    assert!(said.contains(id), "{said}");
    shell.says(0, &["cancel", id]);
    assert_eq!(waiting.wait().unwrap().code(), Some(1), "canceled");
}

#[test]
fn top_is_for_terminals_and_for_programs() {
    for shell in Shell::both() {
        shell.says(0, &["enqueue", "greet", "--queue", "mail"]);
        let look = shell.json(&["top"]);
        assert_eq!((&look["queues"][0]["name"], &look["queues"][0]["queued"]), (&"mail".into(), &1.into()));
        let refused = shell.run(&["top"]);
        assert_eq!(refused.status.code(), Some(1));
        assert!(text(&refused.stderr).contains("top --json"), "{}", text(&refused.stderr));
    }
    let shell = Shell::new();
    shell.says(0, &["enqueue", "greet", "--queue", "mail"]);
    // A terminal of its own: `script` makes one. Blanks are moves of the cursor, so only words can be waited for. The keys pause the queue and end it.
    let windlass = windlass_testkit::binary::windlass().display();
    let line = format!("stty rows 30 cols 120; TERM=xterm {windlass} top");
    let mut command = Command::new("script");
    command.args(["-qec", &line, "/dev/null"]).current_dir(shell.folder.path());
    command.env_remove("WINDLASS_STORE").env_remove("WINDLASS_URL");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut seen = Vec::new();
    let mut wait_for = |word: &str, seen: &mut Vec<u8>| {
        while !String::from_utf8_lossy(seen).contains(word) {
            let read = stdout.fill_buf().unwrap().to_vec();
            assert!(!read.is_empty(), "{word} was not shown:\n{}", text(seen));
            stdout.consume(read.len());
            seen.extend(read);
        }
    };
    wait_for("mail", &mut seen);
    stdin.write_all(b"p").unwrap();
    wait_for("paused", &mut seen);
    stdin.write_all(b"q").unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(shell.list(&["queues"])[0]["paused"], true);
}

/// No help shows what a variable holds that may have a password in it: of no verb, and of no app.
#[test]
fn help_shows_no_secret() {
    let shell = Shell::new();
    let help = |line: &[&str]| {
        let mut command = shell.command(line);
        for name in ["WINDLASS_STORE", "WINDLASS_URL", "WINDLASS_TOKEN"] {
            command.env(name, "postgres://user:canary@host/db");
        }
        let output = command.arg("--help").output().unwrap();
        assert!(output.status.success(), "{line:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let verbs_of = |text: &str| -> Vec<String> {
        let listed = text.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
        // What was left out of the build has no help of its own: left_out.rs.
        let listed = listed.filter(|line| !line.contains("Not in this program"));
        let names = listed.filter_map(|line| line.split_whitespace().next()).map(str::to_owned);
        names.filter(|name| !name.starts_with('-') && name != "help" && name != "windlass").collect()
    };
    let mut looked = 0;
    let top = help(&[]);
    for verb in verbs_of(&top) {
        let text = help(&[&verb]);
        assert!(!text.contains("canary"), "windlass {verb} --help: {text}");
        looked += 1;
    }
    assert!(looked > 20, "{looked} verbs");
    assert!(!top.contains("canary"));
}
