//! The commands of the documents, run one after another as a reader would.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output};

use windlass_testkit::binary::windlass;

/// The id that the documents write where a reader has another.
const ID_OF_THE_DOCUMENTS: &str = "3fa9c21b";

/// All blocks of shell commands of a document.
fn blocks(text: &str) -> Vec<&str> {
    let parts = text.split("```sh\n").skip(1);
    parts.map(|part| part.split("```").next().expect("a block has an end")).collect()
}

/// Runs commands in a folder of their own; `windlass serve` stays in the background on a free port.
fn run(commands: &str) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let held = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = held.local_addr().unwrap().port();
    drop(held);
    std::os::unix::fs::symlink(windlass(), folder.path().join("windlass")).unwrap();
    let serve = format!(
        "windlass serve --listen 127.0.0.1:{port} >serve.log 2>&1 & server=$!\n\
         trap 'kill $server; wait $server' EXIT\n\
         until grep -q dashboard serve.log; do sleep 0.1; done\n"
    );
    let mut script = String::from("set -euo pipefail\n");
    for line in commands.lines() {
        if line.starts_with("windlass serve") {
            script.push_str(&serve);
            continue;
        }
        if line.contains(ID_OF_THE_DOCUMENTS) && !script.contains("\nnamed=") {
            script.push_str("named=$(windlass jobs --limit 1 | tail -n 1 | cut -d' ' -f1)\n");
        }
        let line = line.replace(ID_OF_THE_DOCUMENTS, "\"$named\"");
        script.push_str(&line.replace("127.0.0.1:7717", &format!("127.0.0.1:{port}")));
        script.push('\n');
    }
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap_or_default());
    let mut command = Command::new("bash");
    command.arg("-c").arg(&script).current_dir(folder.path()).env_clear().env("PATH", path);
    command.env("HOME", folder.path()).output().unwrap()
}

fn said(output: &Output) -> String {
    let (out, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    format!("{out}\n-- stderr --\n{errors}")
}

fn document(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::fs::read_to_string(root.join(name)).unwrap()
}

#[test]
fn the_quickstart_works_as_it_is_written() {
    let text = document("docs/guide/quickstart.md");
    let output = run(&blocks(&text).concat());
    let said = said(&output);
    assert!(output.status.success(), "{said}");
    for expected in [
        "no live worker",
        "say_hello: not found",
        "greeting with",
        "failed",
        "retried 1 of 1 job",
        "Hello!",
        "completed",
        "collected before",
    ] {
        assert!(said.contains(expected), "{expected:?} was not said:\n{said}");
    }
}

#[test]
fn the_commands_of_the_readme_work() {
    let text = document("README.md");
    let own = blocks(&text).into_iter().filter(|block| block.starts_with("windlass "));
    let output = run(&own.collect::<String>());
    let said = said(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("Ada") && said.contains("completed"), "{said}");
}

/// What a crontab becomes in a file is what a file may say.
#[test]
fn the_file_for_a_crontab_is_right() {
    let page = document("docs/guide/migrating.md");
    let (_, rest) =
        page.split_once(&format!("<!-- run: {} -->\n```toml\n", "cron in a file")).expect("its mark");
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("windlass.toml"), rest.split("```").next().unwrap()).unwrap();
    let output =
        Command::new(windlass()).args(["config", "check"]).current_dir(folder.path()).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("1 schedule, 1 command"), "{}", said(&output));
}

/// The words in the first column of the table under a heading.
fn named_in(page: &str, heading: &str) -> BTreeSet<String> {
    let section = page.split(&format!("\n### {heading}\n")).nth(1).unwrap_or_else(|| panic!("no {heading}"));
    let section = section.split("\n##").next().unwrap();
    let cells = section.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    cells.map(str::to_owned).collect()
}

/// The tables of settings name what the program knows: it says that itself of a setting that it does not know.
#[test]
fn the_settings_of_the_guide_are_those_of_the_program() {
    let page = document("docs/guide/config.md");
    for (heading, file) in [
        ("The file itself", "no_such = 1"),
        ("`[queues.NAME]`", "[queues.x]\nno_such = 1"),
        ("`[budgets.NAME]`", "[budgets.x]\nno_such = 1"),
        ("`[schedules.NAME]`", "[schedules.x]\nno_such = 1"),
        ("`[commands.KIND]`", "[commands.x]\nno_such = 1"),
        ("`[tokens.NAME]`", "[tokens.x]\nno_such = 1"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("windlass.toml"), file).unwrap();
        let mut command = Command::new(windlass_testkit::binary::windlass());
        let output = command.args(["config", "check"]).current_dir(folder.path()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let listed = said.split("expected one of ").nth(1).unwrap_or_else(|| panic!("{heading}: {said}"));
        let known: BTreeSet<String> = listed.split('`').skip(1).step_by(2).map(str::to_owned).collect();
        assert_eq!(named_in(&page, heading), known, "{heading}");
    }
}

/// Every variable of ours that a source reads is in the guide, and no other.
#[test]
fn the_variables_of_the_guide_are_those_of_the_sources() {
    const FOR_TESTS: [&str; 8] = [
        "BIN",
        "FULL_BIN",
        "BLESS",
        "PROPTEST_CASES",
        "PROPTEST_SEED",
        "CI",
        "TEST_MONGODB_URL",
        "TEST_POSTGRES_URL",
    ];
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let (mut found, mut folders) = (BTreeSet::new(), Vec::new());
    for room in ["crates", "stores", "apps"] {
        let members = std::fs::read_dir(root.join(room)).unwrap();
        folders.extend(members.map(|member| member.unwrap().path().join("src")).filter(|path| path.is_dir()));
    }
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ext| ext == "rs") {
                found.extend(variables(&std::fs::read_to_string(path).unwrap()));
            }
        }
    }
    found.retain(|name| !FOR_TESTS.contains(&name.as_str()) && !name.starts_with("TEST_"));
    let page = document("docs/guide/config.md");
    let section = page.split("\n### Variables\n").nth(1).unwrap();
    assert_eq!(variables(section).into_iter().collect::<BTreeSet<_>>(), found);
}

/// The names behind `WINDLASS_` in a text.
fn variables(text: &str) -> Vec<String> {
    let name =
        |rest: &str| rest.chars().take_while(|c| c.is_ascii_uppercase() || *c == '_').collect::<String>();
    text.split("WINDLASS_").skip(1).map(name).filter(|name| !name.is_empty()).collect()
}
