//! The example of the guide, as a program.

use std::process::{Command, Stdio};

use windlass_testkit::eventually::eventually;
use windlass_testkit::program::{Program, example};

use crate::ask::ask;

#[tokio::test(flavor = "multi_thread")]
async fn the_example_reminds_and_ends_when_told() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let command = || {
        let mut command = Command::new(example("app"));
        command.current_dir(folder.path()).env_clear();
        command
    };
    let refused = command().output().unwrap();
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && why.contains("REMINDERS_SENDER"), "{why}");
    let errors = Stdio::from(std::fs::File::create(&log).unwrap());
    let settings = [("REMINDERS_SENDER", "me"), ("REMINDERS_LISTEN", "127.0.0.1:0")];
    let app = Program::start(command().envs(settings).stderr(errors));
    let read = || std::fs::read_to_string(&log).unwrap_or_default();
    let addr = async || read().split("address=\"").nth(1)?.split('"').next()?.parse().ok();
    let addr = eventually("it listens", addr).await;
    let taken = ask(addr, "POST /remind/Ada", "", "").await;
    assert!(taken.starts_with("HTTP/1.1 202"), "{taken}");
    eventually("Ada is reminded", async || read().contains("Reminded Ada").then_some(())).await;
    app.signal(libc::SIGTERM);
    let status = tokio::task::spawn_blocking(move || app.wait()).await.unwrap();
    assert!(status.success(), "{}", read());
}

#[test]
fn its_help_has_the_settings() {
    let output = Command::new(example("app")).arg("--help").output().unwrap();
    let help = String::from_utf8_lossy(&output.stdout).into_owned();
    for words in ["Remind people", "REMINDERS_LISTEN", "[default: 127.0.0.1:7070]", "NAME_FILE", "a store"] {
        assert!(help.contains(words), "{words} is not in {help}");
    }
}
