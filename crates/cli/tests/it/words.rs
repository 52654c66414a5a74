//! What the command line says and to whom: tables that fit a terminal, JSON for programs, and which store is meant.

use std::process::{Command, Stdio};

use crate::cli::{Shell, text};

/// What is said on a terminal of so many columns.
fn on_terminal(shell: &Shell, columns: u16, line: &str) -> String {
    let windlass = windlass_testkit::binary::windlass().display();
    let line = format!("stty rows 40 cols {columns}; TERM=xterm {windlass} {line}");
    let mut command = Command::new("script");
    command.args(["-qec", &line, "/dev/null"]).current_dir(shell.folder.path()).stdin(Stdio::null());
    for name in ["WINDLASS_STORE", "WINDLASS_URL", "WINDLASS_TOKEN", "NO_COLOR"] {
        command.env_remove(name);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{line}: {}", text(&output.stdout));
    text(&output.stdout).replace('\r', "")
}

/// How many letters a line has, without its colours.
fn letters(line: &str) -> usize {
    let mut parts = line.split('\u{1b}');
    let first = parts.next().map_or(0, |part| part.chars().count());
    first + parts.map(|part| part.split_once('m').map_or(0, |(_, rest)| rest.chars().count())).sum::<usize>()
}

#[test]
fn tables_fit_the_terminal() {
    let shell = Shell::migrated();
    let long = "a-queue-with-a-name-that-is-longer-than-most";
    let ladder = "1m 2m 3m 4m 5m 10m 20m 30m 1h 2h 4h 8h 16h 1d";
    shell.says(0, &["queues", "set", long, "--limit", "1", "--ladder", ladder]);
    shell.says(0, &["queues", "pause", long]);
    shell.says(
        0,
        &["budgets", "set", "a-budget-with-a-name-that-is-longer-than-most-are", "--per-second", "5"],
    );
    shell.says(
        0,
        &[
            "schedules",
            "set",
            "nightly-and-more-words",
            "--cron",
            "0 3 * * *",
            "--zone",
            "Europe/Berlin",
            "--kind",
            "a-kind-with-a-long-name",
        ],
    );
    let id = shell.says(0, &["enqueue", "resize", "--queue", long, "--ladder", "none"]).trim().to_owned();
    let script = shell.script(
        "break.sh",
        "echo 'the image is broken, and this text is rather long for one line' >&2; exit 1",
    );
    shell.says(0, &["enqueue", "break", "--ladder", "none"]);
    shell.says(0, &["work", "--kind", "break", "--until-idle", "--", &script]);
    let mut working = shell.command(&["work", "--kind", "none", "--queue", long, "--", "cat"]);
    let mut working = working.stderr(Stdio::null()).spawn().unwrap();
    let is_there = (0..200).any(|_| !shell.list(&["workers"]).is_empty());
    assert!(is_there, "the worker says that it is there");
    for (line, words, colour) in [
        ("jobs", &["waits for", "failed", "queued"][..], "\u{1b}[31mfailed"),
        ("queues", &["status", "paused", "queued"], "\u{1b}[33mpaused"),
        ("budgets", &["a-budget"], ""),
        ("schedules", &["nightly", "in "], ""),
        ("workers", &["running", "alive"], "\u{1b}[32malive"),
        (&format!("job {id}"), &["resize"], ""),
    ] {
        for columns in [60, 160] {
            let said = on_terminal(&shell, columns, line);
            for row in said.lines().filter(|_| !line.starts_with("job ")) {
                assert!(
                    letters(row) <= usize::from(columns),
                    "{line}, {columns} columns: {} {row:?}",
                    letters(row)
                );
            }
            assert!(said.contains(colour), "{line}, {columns} columns: {said:?}");
            for word in words {
                assert!(said.contains(word), "{line}, {columns} columns: {word} in {said}");
            }
        }
        let (narrow, wide) = (on_terminal(&shell, 60, line), on_terminal(&shell, 160, line));
        let cut = |said: &str| said.matches('…').count();
        assert!(cut(&wide) <= cut(&narrow), "{line}: {wide}");
    }
    working.kill().unwrap();
    working.wait().unwrap();
    assert!(on_terminal(&shell, 160, "queues").contains(long));
    assert!(!on_terminal(&shell, 60, "queues").contains(long));
}

/// `work` tells programs of each attempt in a line, `serve` where it serves, and wrong words are JSON, too.
#[test]
fn programs_are_told_in_json() {
    let shell = Shell::migrated();
    let script = shell.script("try.sh", "read p; echo said; test \"$p\" = 1");
    shell.says(0, &["enqueue", "try", "1"]);
    shell.says(0, &["enqueue", "try", "2", "--ladder", "none"]);
    let said =
        shell.says(0, &["--json", "work", "--kind", "try", "--slots", "1", "--until-idle", "--", &script]);
    let lines: Vec<serde_json::Value> =
        said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |event: &str| lines.iter().filter(|line| line["event"] == event).collect::<Vec<_>>();
    let ended: Vec<(&str, &str, i64)> = of("ended")
        .iter()
        .map(|line| {
            (
                line["kind"].as_str().unwrap(),
                line["outcome"].as_str().unwrap(),
                line["attempt"].as_i64().unwrap(),
            )
        })
        .collect();
    assert_eq!(ended, [("try", "completed", 1), ("try", "failed", 1)]);
    assert!(of("ended")[1]["error"].as_str().unwrap().contains("exit status: 1"), "{lines:?}");
    assert_eq!((of("output").len(), &of("output")[0]["line"]), (2, &"said".into()));
    assert_eq!((&of("over")[0]["attempts"], &of("over")[0]["settled"]), (&2.into(), &2.into()));

    for line in [
        &["jobs", "--no-such"][..],
        &["nothing"],
        &["enqueue"],
        &["work", "--kind", "k"],
        &["jobs", "--state", "lost"],
    ] {
        let output = shell.run(&[&["--json"], line].concat());
        let said: serde_json::Value = serde_json::from_slice(&output.stderr)
            .unwrap_or_else(|error| panic!("{line:?}: {error}: {}", text(&output.stderr)));
        assert_eq!(
            (output.status.code(), &said["error"]["code"]),
            (Some(2), &"invalid".into()),
            "{line:?}: {said}"
        );
    }
    assert!(shell.says(0, &["jobs", "--help", "--json"]).contains("Usage"), "help is for people");

    use std::io::BufRead;
    let mut serve = shell.command(&["serve", "--listen", "127.0.0.1:0", "--json"]);
    let mut child = serve.stdout(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    std::io::BufReader::new(child.stdout.take().unwrap()).read_line(&mut said).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert!(said["url"].as_str().unwrap().starts_with("http://127.0.0.1:"), "{said}");
    assert_eq!(said["store"], "sqlite:windlass.db");
}

/// A word goes before a variable; and a verb for a store does not take a server's variable for "nothing was said".
#[test]
fn the_store_that_is_meant_is_used_or_asked_for() {
    let shell = Shell::new();
    let with_url = |line: &[&str]| {
        let mut command = shell.command(line);
        command.env("WINDLASS_URL", "http://127.0.0.1:9").output().unwrap()
    };
    let refused = with_url(&["migrate"]);
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("WINDLASS_URL") && said.contains("--store"), "{said}");
    assert!(!shell.folder.path().join("windlass.db").exists(), "nothing was made");
    let refused = shell.run(&["migrate", "--url", "http://127.0.0.1:9"]);
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused.stderr));
    let refused = shell.run(&["serve", "--url", "http://127.0.0.1:9"]);
    assert!(text(&refused.stderr).contains("name its store"), "{}", text(&refused.stderr));
    assert_eq!(with_url(&["migrate", "--store", "sqlite:named.db"]).status.code(), Some(0));
    assert!(shell.folder.path().join("named.db").exists());
    let listed = with_url(&["jobs", "--store", "sqlite:named.db"]);
    assert_eq!(listed.status.code(), Some(0), "the word goes before the variable: {}", text(&listed.stderr));
    assert_eq!(
        shell.run(&["jobs", "--store", "sqlite:named.db", "--url", "http://h"]).status.code(),
        Some(2)
    );
    let measured = Shell::served();
    let figures =
        measured.command(&["bench", "--only", "enqueue-batch", "--jobs", "100", "--json"]).output().unwrap();
    assert!(
        text(&figures.stdout).contains("sqlite (temporary)"),
        "WINDLASS_URL is left alone: {}",
        text(&figures.stderr)
    );
}

/// What `serve` would refuse of a store before it asks anybody, `config check` refuses.
#[test]
fn a_store_is_checked_as_a_server_checks_it() {
    let shell = Shell::new();
    for (store, says) in [
        ("sqlite:x.db?pause_max=long", "pause_max"),
        ("postgres://127.0.0.1:1/db?colour=blue", "colour"),
        ("mongodb://127.0.0.1:1/db?replicaSet=r", "--features"),
    ] {
        std::fs::write(
            shell.folder.path().join("windlass.toml"),
            format!("listen = \"127.0.0.1:0\"\nstore = \"{store}\""),
        )
        .unwrap();
        for verb in [&["config", "check"][..], &["serve"]] {
            let output = shell.run(verb);
            assert!(!output.status.success(), "{verb:?} {store}");
            assert!(text(&output.stderr).contains(says), "{verb:?} {store}: {}", text(&output.stderr));
        }
    }
    std::fs::write(shell.folder.path().join("windlass.toml"), "store = \"postgres://127.0.0.1:1/db\"")
        .unwrap();
    shell.says(0, &["config", "check"]);
}

/// Whoever looks at a database without a store makes none there.
#[tokio::test(flavor = "multi_thread")]
async fn looking_makes_no_store_in_postgres() {
    let server = windlass_testkit::postgres::Server::shared().await;
    let database = server.fresh_database().await;
    let shell = Shell::new();
    for line in [&["jobs"][..], &["queues"], &["doctor"]] {
        let output = shell.run(&[line, &["--store", &database.url()]].concat());
        assert_eq!(output.status.code(), Some(3), "{line:?}: {}", text(&output.stderr));
    }
    let there = windlass_postgres::PostgresStore::is_there(&database.url()).await.unwrap();
    assert!(!there, "whoever looks makes nothing");
    shell.says(0, &["migrate", "--store", &database.url()]);
    shell.says(0, &["jobs", "--store", &database.url()]);
}
