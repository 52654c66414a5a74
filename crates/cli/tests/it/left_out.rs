//! What the program of `cargo build --release` was built without, as a person meets it.

use std::process::{Command, Output};

fn run(line: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(windlass_testkit::binary::windlass());
    command.current_dir(folder.path()).args(line);
    for name in ["WINDLASS_STORE", "WINDLASS_TOKEN", "WINDLASS_URL"] {
        command.env_remove(name);
    }
    command.output().unwrap()
}

#[test]
fn the_listener_is_in_the_help_and_says_how_to_get_it() {
    const BUILD: &str = "cargo build --release --features listener";
    let help = String::from_utf8(run(&["--help"]).stdout).unwrap();
    let (_, workers) = help.split_once("\nWorkers:\n").expect("a heading");
    let line = workers.lines().find(|line| line.trim_start().starts_with("listener ")).expect("the listener");
    assert!(line.contains(BUILD), "{line}");
    for line in [&["listener"][..], &["listener", "--help"], &["listener", "add", "--collection", "batches"]]
    {
        let output = run(line);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{line:?}: {said}");
        assert!(said.contains(BUILD), "{line:?}: {said}");
    }
    let output = run(&["--json", "listener", "check"]);
    let said: serde_json::Value = serde_json::from_slice(&output.stderr).unwrap();
    assert!(said["error"]["message"].as_str().unwrap().contains(BUILD), "{said}");
}

#[test]
fn a_store_on_mongodb_says_how_to_get_it() {
    let url = "mongodb://ada:hunter2@127.0.0.1:1/jobs?replicaSet=rs0";
    for line in [
        &["jobs", "--store", url][..],
        &["enqueue", "greet", "{}", "--store", url],
        &["serve", "--listen", "127.0.0.1:0", "--store", url],
    ] {
        let output = run(line);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{line:?}: {said}");
        assert!(said.contains("cargo build --release --features mongo"), "{line:?}: {said}");
        assert!(said.contains("mongodb://ada@127.0.0.1:1") && !said.contains("hunter2"), "{line:?}: {said}");
    }
}
