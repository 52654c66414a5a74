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

/// The steps of the quickstart: a program of one's own, with the dependencies that the page shows and no others.
#[test]
fn the_quickstart_as_it_is_written() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let page = std::fs::read_to_string(root.join("docs/guide/quickstart.md")).unwrap();
    let (_, manifest) = page.split_once("```toml\n").expect("a manifest");
    let (manifest, _) = manifest.split_once("```").expect("its end");
    let manifest: String = manifest.lines().map(|line| format!("{}\n", line.trim())).collect();
    assert!(manifest.contains("…/windlass/"), "{manifest}");
    let manifest = manifest.replace("…/windlass/", &format!("{}/", root.display()));
    let project = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| std::fs::write(project.path().join(path), text).unwrap();
    std::fs::create_dir(project.path().join("src")).unwrap();
    write(
        "Cargo.toml",
        &format!("[package]\nname = \"quickstart\"\nedition = \"2024\"\n\n{manifest}\n[workspace]\n"),
    );
    write("src/main.rs", include_str!("../../../../examples/hello.rs"));
    // The versions that we know, so that nothing has to be fetched.
    std::fs::copy(root.join("Cargo.lock"), project.path().join("Cargo.lock")).unwrap();
    let built = example("hello").ancestors().nth(3).unwrap().join("quickstart");
    let mut command = Command::new(env!("CARGO"));
    command.args(["run", "--offline", "--quiet"]).current_dir(project.path()).env("CARGO_TARGET_DIR", built);
    let output = command.output().unwrap();
    let (said, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && said.contains("Hello, world!"), "{said}\n{errors}");
}
