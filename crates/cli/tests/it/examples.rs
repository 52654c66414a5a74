//! The examples run, and say what they should.

use std::process::Command;

use windlass_testkit::program::example;

fn check(name: &str, url: Option<&str>, expected: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(example(name));
    command.current_dir(folder.path());
    if let Some(url) = url {
        command.env("DATABASE_URL", url);
    }
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {}\n{said}\n{errors}", output.status);
    for line in expected {
        assert!(said.contains(line), "{name} does not say {line:?}:\n{said}");
    }
}

#[test]
fn hello() {
    check("hello", None, &["Hello, world!"]);
    let lines = include_str!("../../../../examples/hello.rs").lines().count();
    assert!(lines <= 25, "hello.rs has {lines} lines");
}

#[test]
fn steps() {
    check(
        "steps",
        None,
        &["fetching article 7 (once)\nsomething breaks\nprinting", "completed after 2 attempts"],
    );
}

#[test]
fn keys_and_budgets() {
    check("keys_and_budgets", None, &["shop 3 page 4", "12 pages"]);
}

#[test]
fn schedules() {
    check("schedules", None, &["run of "]);
}

#[test]
fn child_process() {
    check("child_process", None, &["3 words"]);
}

#[tokio::test]
async fn transactional_enqueue() {
    let server = windlass_testkit::postgres::Server::shared().await;
    let database = server.fresh_database().await;
    check("transactional_enqueue", Some(&database.url()), &["Welcome, Ada!", "Welcome, Ada in SQL!"]);
}
