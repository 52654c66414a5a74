//! The examples run, and say what they should.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use windlass_testkit::program::example;

/// Runs an example, and gives what it said.
fn check(name: &str, url: Option<&str>, expected: &[&str]) -> String {
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
    said
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
    let said = check("schedules", None, &["run of "]);
    assert_eq!(said.matches("run of ").count(), 3, "{said}");
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

/// A program of one's own, with the dependencies that a page shows and no others.
struct Project {
    folder: tempfile::TempDir,
    built: PathBuf,
}

impl Project {
    /// With a manifest as the pages write it.
    fn new(manifest: &str) -> Self {
        let root = root().canonicalize().unwrap();
        assert!(manifest.contains("…/windlass/"), "{manifest}");
        let manifest = manifest.replace("…/windlass/", &format!("{}/", root.display()));
        let project = Self {
            folder: tempfile::tempdir().unwrap(),
            built: example("hello").ancestors().nth(3).unwrap().join("quickstart"),
        };
        let package = "[package]\nname = \"quickstart\"\nedition = \"2024\"\n\n[workspace]\n";
        project.write("Cargo.toml", &format!("{package}\n{manifest}"));
        // The versions that we know, so that nothing has to be fetched.
        std::fs::copy(root.join("Cargo.lock"), project.folder.path().join("Cargo.lock")).unwrap();
        project
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// What cargo says, on stdout and stderr.
    fn cargo(&self, line: &[&str]) -> (bool, String, String) {
        let mut command = Command::new(env!("CARGO"));
        command.args(line).args(["--offline", "--quiet"]).current_dir(self.folder.path());
        let output = command.env("CARGO_TARGET_DIR", &self.built).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.success(), text(&output.stdout), text(&output.stderr))
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn document(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap()
}

fn page(name: &str) -> String {
    document(&format!("docs/guide/{name}"))
}

/// The blocks of a page that begin so.
fn blocks<'p>(page: &'p str, begin: &str) -> Vec<&'p str> {
    let blocks = page.split(begin).skip(1);
    blocks.map(|rest| rest.split_once("\n```").expect("its end").0).collect()
}

/// The steps of the quickstart: its dependencies, `hello`, and the program of the page itself, which works until it is
/// told to end.
#[test]
fn the_quickstart_as_it_is_written() {
    let page = page("quickstart.md");
    let [manifest] = blocks(&page, "```toml\n")[..] else { panic!("one list of dependencies") };
    let [program] = blocks(&page, "```rust,no_run\n")[..] else { panic!("one program") };
    let project = Project::new(manifest);
    project.write("src/main.rs", program);
    project.write("src/bin/hello.rs", include_str!("../../../../examples/hello.rs"));
    let (done, said, errors) = project.cargo(&["run", "--bin", "hello"]);
    assert!(done && said.contains("Hello, world!"), "{said}\n{errors}");

    let (done, said, errors) = project.cargo(&["build", "--bin", "quickstart"]);
    assert!(done, "{said}\n{errors}");
    let windlass = windlass_testkit::binary::windlass();
    let enqueued = Command::new(windlass)
        .args(["enqueue", "greet", "\"Ada\"", "--store", "sqlite:hello.db"])
        .current_dir(project.folder.path())
        .env_remove("WINDLASS_URL")
        .output()
        .unwrap();
    assert!(enqueued.status.success(), "{}", String::from_utf8_lossy(&enqueued.stderr));
    let mut works = Command::new(project.built.join("debug/quickstart"));
    let mut works = works.current_dir(project.folder.path()).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(works.stdout.as_mut().unwrap()).read_line(&mut said).unwrap();
    assert_eq!(said, "Hello, Ada!\n");
    let pid = i32::try_from(works.id()).unwrap();
    // SAFETY: it is a child of ours that was not waited for, so nobody else has its id.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGTERM) }, 0);
    assert!(works.wait().unwrap().success(), "it ends gracefully");
}

/// The test of the page, in a program that has what the quickstart lists and what this page adds.
#[test]
fn the_guide_to_testing_as_it_is_written() {
    let (own, quickstart) = (page("testing.md"), page("quickstart.md"));
    let [dependencies] = blocks(&quickstart, "```toml\n")[..] else { panic!("one list of dependencies") };
    let [added] = blocks(&own, "```toml\n")[..] else { panic!("one list of dependencies") };
    let [program] = blocks(&own, "```rust\n")[..] else { panic!("one program") };
    let test = "[[test]]\nname = \"mail\"\nharness = false\n";
    let project = Project::new(&format!("{dependencies}\n\n{added}\n\n{test}"));
    project.write("src/lib.rs", "");
    project.write("tests/mail.rs", program);
    let (done, said, errors) = project.cargo(&["test", "--test", "mail"]);
    assert!(done, "{said}\n{errors}");
}

/// The programs of README and of the page on workers, with what the quickstart lists; their doc tests have run them.
#[test]
fn the_programs_of_the_pages_need_no_more_than_the_quickstart_lists() {
    let (readme, workers, quickstart) = (document("README.md"), page("workers.md"), page("quickstart.md"));
    let [dependencies] = blocks(&quickstart, "```toml\n")[..] else { panic!("one list of dependencies") };
    let programs = [blocks(&readme, "```rust\n"), blocks(&workers, "```rust\n")].concat();
    assert_eq!(programs.len(), 5);
    let project = Project::new(dependencies);
    project.write("src/lib.rs", "");
    for (at, program) in programs.iter().enumerate() {
        let end = if program.contains("fn main") { "" } else { "fn main() {}" };
        project.write(&format!("src/bin/program_{at}.rs"), &format!("{program}\n{end}\n"));
    }
    let (done, said, errors) = project.cargo(&["build", "--bins"]);
    assert!(done, "{said}\n{errors}");
}

/// Every example, with the dependencies that stand beside it.
#[test]
fn the_examples_need_no_more_than_is_listed() {
    let readme = document("examples/README.md");
    let [of_most, of_app] = blocks(&readme, "```toml\n")[..] else { panic!("two lists of dependencies") };
    let (most, app) = (Project::new(of_most), Project::new(of_app));
    let mut found = 0;
    for entry in std::fs::read_dir(root().join("examples")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if let Some(name) = name.strip_suffix(".rs") {
            assert!(readme.contains(&format!("| `{name}.rs` |")), "{name} is not in the table");
            let project = if name == "app" { &app } else { &most };
            project.write(&format!("src/bin/{name}.rs"), &std::fs::read_to_string(&path).unwrap());
            found += 1;
        }
    }
    assert!(found >= 7, "{found}");
    for project in [most, app] {
        project.write("src/lib.rs", "");
        let (done, said, errors) = project.cargo(&["build", "--bins"]);
        assert!(done, "{said}\n{errors}");
    }
}

/// What the compiler says of wrong jobs and handlers: every line below a block of the page, word for word.
#[test]
fn wrong_handlers_are_told_what_to_do() {
    let (own, quickstart) = (page("workers.md"), page("quickstart.md"));
    let [dependencies] = blocks(&quickstart, "```toml\n")[..] else { panic!("one list of dependencies") };
    let wrong = blocks(&own, "```rust,compile_fail,");
    let said = blocks(&own, &format!("<!-- run: {} -->\n```text\n", "said by the compiler"));
    assert_eq!((wrong.len(), said.len()), (5, 5));
    let project = Project::new(dependencies);
    project.write("src/lib.rs", "");
    for (at, wrong) in wrong.iter().enumerate() {
        let (_, program) = wrong.split_once('\n').expect("a code, and the program");
        project.write(&format!("src/bin/wrong_{at}.rs"), &format!("{program}\nfn main() {{}}\n"));
    }
    for (at, said) in said.iter().enumerate() {
        let (done, _, errors) = project.cargo(&["build", "--bin", &format!("wrong_{at}")]);
        assert!(!done, "it is wrong, and yet compiled");
        // Columns and numbers of lines differ with the place.
        let errors: Vec<String> = errors.lines().map(without_numbers).collect();
        for line in said.lines().map(without_numbers) {
            assert!(errors.contains(&line), "{line:?} was not said of {at}:\n{}", errors.join("\n"));
        }
    }
}

/// A line of rustc without its number and the space before it.
fn without_numbers(line: &str) -> String {
    let line = line.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ');
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}
