//! Every block of code in README and guides is run by a test, or says why not.
//!
//! A block is run by whoever stands for its document and language in [`RUN`]; or it has a mark in the line above, which
//! nobody sees: `<!-- run: NAME -->` with the test in [`NAMED`], or `<!-- not run: why -->`.

use std::path::{Path, PathBuf};

/// Which test runs the blocks of a language in a document.
const RUN: &[(&str, &str, &str)] = &[
    ("README.md", "sh", "crates/cli/tests/it/documents.rs"),
    ("README.md", "rust", "crates/windlass/src/lib.rs"),
    ("README.md", "python", "sdk/python/tests/test_guides.py"),
    ("docs/guide/api.md", "sh", "crates/server/tests/it/guide.rs"),
    ("docs/guide/config.md", "toml", "crates/cli/src/config/read.rs"),
    ("docs/guide/quickstart.md", "sh", "crates/cli/tests/it/documents.rs"),
    ("docs/guide/quickstart.md", "toml", "crates/cli/tests/it/examples.rs"),
    ("docs/guide/quickstart.md", "rust,no_run", "crates/cli/tests/it/examples.rs"),
    ("docs/guide/remote-workers.md", "python", "sdk/python/tests/test_guides.py"),
    ("docs/guide/remote-workers.md", "toml", "sdk/python/tests/test_guides.py"),
    ("docs/guide/remote-workers.md", "js", "sdk/typescript/tests/guides.test.mjs"),
    ("docs/guide/testing.md", "toml", "crates/cli/tests/it/examples.rs"),
    ("docs/guide/testing.md", "rust", "crates/cli/tests/it/examples.rs"),
    ("docs/guide/troubleshooting.md", "sh", "sdk/python/tests/test_guides.py"),
    ("docs/guide/vela.md", "sql", "apps/vela/tests/it/sql.rs"),
    ("docs/guide/workers.md", "rust", "crates/windlass/src/lib.rs"),
    ("docs/guide/workers.md", "rust,compile_fail,E0277", "crates/cli/tests/it/examples.rs"),
    ("docs/guide/workers.md", "rust,compile_fail,E0046", "crates/cli/tests/it/examples.rs"),
];

/// Which test runs the blocks that have a name.
const NAMED: &[(&str, &str, &str)] = &[
    ("docs/guide/migrating.md", "after agenda", "sdk/typescript/tests/guides.test.mjs"),
    ("docs/guide/migrating.md", "after graphile-worker", "sdk/typescript/tests/guides.test.mjs"),
    ("docs/guide/migrating.md", "after graphile-worker, in SQL", "crates/windlass/tests/transactions.rs"),
    ("docs/guide/migrating.md", "after pg-boss", "sdk/typescript/tests/guides.test.mjs"),
    ("docs/guide/migrating.md", "after sidekiq", "sdk/python/tests/test_guides.py"),
    ("docs/guide/migrating.md", "agenda", "sdk/python/tests/test_guides.py"),
    ("docs/guide/migrating.md", "cron", "sdk/python/tests/test_guides.py"),
    ("docs/guide/migrating.md", "cron in a file", "crates/cli/tests/it/documents.rs"),
    ("docs/guide/migrating.md", "graphile-worker", "stores/postgres/tests/store/moved.rs"),
    ("docs/guide/migrating.md", "pg-boss", "stores/postgres/tests/store/moved.rs"),
    ("docs/guide/migrating.md", "sidekiq", "sdk/python/tests/test_guides.py"),
    ("docs/guide/workers.md", "collector", "crates/windlass/tests/otlp.rs"),
    ("docs/guide/workers.md", "said by the compiler", "crates/cli/tests/it/examples.rs"),
];

/// The fewest characters of a reason.
const WHY_MIN: usize = 15;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn documents() -> Vec<String> {
    let guides = std::fs::read_dir(root().join("docs/guide")).unwrap();
    let guides = guides.map(|entry| format!("docs/guide/{}", entry.unwrap().file_name().display()));
    let mut documents: Vec<String> = guides.filter(|path| path.ends_with(".md")).collect();
    documents.push("README.md".into());
    documents.sort();
    documents
}

/// A block: in which line it begins, its language, and the line above it.
#[derive(Debug, PartialEq)]
struct Block<'d> {
    line: usize,
    language: &'d str,
    above: &'d str,
}

fn blocks(text: &str) -> Vec<Block<'_>> {
    let (mut blocks, mut inside, mut above) = (Vec::new(), false, "");
    for (at, line) in text.lines().enumerate() {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            if !inside {
                blocks.push(Block { line: at + 1, language, above });
            }
            inside = !inside;
        }
        above = line;
    }
    blocks
}

fn mark<'d>(above: &'d str, word: &str) -> Option<&'d str> {
    above.trim().strip_prefix(&format!("<!-- {word}: "))?.strip_suffix(" -->")
}

/// What is wrong with a block, if anything is.
fn wrong(document: &str, block: &Block<'_>) -> Option<String> {
    if let Some(why) = mark(block.above, "not run") {
        return (why.len() < WHY_MIN).then(|| format!("{why:?} is no reason"));
    }
    if let Some(name) = mark(block.above, "run") {
        let named = NAMED.iter().find(|(of, known, _)| (*of, *known) == (document, name));
        return named.is_none().then(|| format!("nobody in NAMED runs {name:?}"));
    }
    let run = RUN.iter().any(|(of, language, _)| (*of, *language) == (document, block.language));
    (!run)
        .then(|| format!("nobody runs its {:?}; run it, or say why not: <!-- not run: … -->", block.language))
}

#[test]
fn every_block_is_run_or_says_why_not() {
    let mut faults = Vec::new();
    for document in documents() {
        for block in blocks(&read(&document)) {
            let fault = wrong(&document, &block);
            faults.extend(fault.map(|fault| format!("{document}:{}: {fault}", block.line)));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Whoever is said to run something reads that document, and by that name.
#[test]
fn whoever_runs_them_reads_them() {
    for (document, word, by) in RUN {
        let found = blocks(&read(document)).iter().any(|block| block.language == *word);
        assert!(found, "{document} has no block of {word}: take it out of RUN");
        let name = document.rsplit('/').next().unwrap();
        assert!(read(by).contains(name), "{by} does not read {name}");
    }
    for (document, name, by) in NAMED {
        assert!(
            read(document).contains(&format!("<!-- run: {name} -->")),
            "{document} has no block {name:?}"
        );
        assert!(read(by).contains(&format!("\"{name}\"")), "{by} does not run {name:?}");
    }
}

#[test]
fn a_block_without_a_runner_is_found() {
    let text = "a\n```sh\nwindlass\n```\n<!-- not run: it takes the whole day -->\n```sh\nx\n```\n<!-- not run: no -->\n```go\n```";
    let found = blocks(text);
    assert_eq!(found[0], Block { line: 2, language: "sh", above: "a" });
    let wrong: Vec<bool> = found.iter().map(|block| wrong("docs/guide/none.md", block).is_some()).collect();
    assert_eq!(wrong, [true, false, true]);
}
