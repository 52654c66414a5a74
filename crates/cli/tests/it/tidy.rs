//! Sizes that keep the code readable. What is larger today is listed, and the lists may only shrink.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const COLUMNS_MAX: usize = 120;
const FUNCTION_LINES_MAX: usize = 80;
const FILE_LINES_MAX: usize = 500;

/// SQL functions with more lines, and how many they have.
const LONG_FUNCTIONS: &[(&str, usize)] = &[];

/// Rust files with more lines, and how many they have.
const LONG_FILES: &[(&str, usize)] = &[
    ("crates/cli/tests/it/cli.rs", 582),
    ("crates/core/src/store.rs", 530),
    ("stores/postgres/tests/store/adopted.rs", 622),
];

/// How many lines of SQL are wider.
const WIDE_LINES: usize = 9;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

/// The files below a folder that end so.
fn files(folder: &Path, ending: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() && !["target", "node_modules", ".git"].contains(&name) {
            files(&path, ending, found);
        } else if name.ends_with(ending) {
            found.push(path);
        }
    }
}

fn all(folders: &[&str], ending: &str) -> Vec<(String, String)> {
    let root = root();
    let mut found = Vec::new();
    for folder in folders {
        files(&root.join(folder), ending, &mut found);
    }
    found.sort();
    let read = |path: PathBuf| {
        let name = path.strip_prefix(&root).expect("in the repository").display().to_string();
        (name, fs::read_to_string(&path).expect("a text"))
    };
    found.into_iter().map(read).collect()
}

/// What is long is listed, and no longer than it is listed with; what is listed is long.
fn hold(what: &str, long: &BTreeMap<String, usize>, listed: &[(&str, usize)], most: usize) {
    let listed: BTreeMap<&str, usize> = listed.iter().copied().collect();
    for (name, lines) in long {
        let allowed = listed.get(name.as_str()).copied().unwrap_or(most);
        assert!(*lines <= allowed, "the {what} {name} has {lines} lines, and {allowed} at most");
    }
    for name in listed.keys() {
        assert!(long.contains_key(*name), "the {what} {name} is short by now: take it off the list");
    }
}

#[test]
fn sql_functions_are_short() {
    let mut long = BTreeMap::new();
    for (_, text) in all(&["stores/postgres/sql/functions"], ".sql") {
        for function in text.split("\nCREATE FUNCTION windlass.").skip(1) {
            let name = function.split('(').next().expect("a name");
            let end = function.find("$$;").expect("an end");
            let lines = function[..end].lines().count();
            if lines > FUNCTION_LINES_MAX {
                long.insert(name.to_owned(), lines);
            }
        }
    }
    hold("SQL function", &long, LONG_FUNCTIONS, FUNCTION_LINES_MAX);
}

#[test]
fn lines_of_sql_are_narrow() {
    let texts = all(&["stores/postgres/sql", "stores/sqlite/sql"], ".sql");
    let wide = |text: &str| text.lines().filter(|line| line.chars().count() > COLUMNS_MAX).count();
    let count: usize = texts.iter().map(|(_, text)| wide(text)).sum();
    assert!(
        count <= WIDE_LINES,
        "{count} lines have more than {COLUMNS_MAX} columns; {WIDE_LINES} had: fold what is new"
    );
}

#[test]
fn rust_files_are_short() {
    let texts = all(&["apps", "crates", "stores", "examples"], ".rs");
    let long: BTreeMap<String, usize> = texts
        .into_iter()
        .map(|(name, text)| (name, text.lines().count()))
        .filter(|(_, lines)| *lines > FILE_LINES_MAX)
        .collect();
    hold("Rust file", &long, LONG_FILES, FILE_LINES_MAX);
}

/// Where `Source` and `Store` are written by hand: those that keep jobs, and those that ask somebody else who does.
const BY_HAND: &[&str] =
    &["apps/vela/src/counter.rs", "crates/core/src/decorate.rs", "crates/core/src/memory.rs", "stores/"];

/// Verbs of a store that only say another one in fewer words.
const SUGAR: &[&str] = &["audit", "cancel", "delete_with_logs", "rerun", "retry", "run_now"];

/// Whoever stands around a store passes it on by `core::decorate`, so that a verb or a capability is lost nowhere; and what is
/// sugar is written nowhere else, so that nobody has to pass it on.
#[test]
fn who_stands_around_a_store_loses_nothing() {
    let texts = all(&["apps", "bench", "crates", "examples", "stores"], ".rs");
    let by_hand = |line: &str| {
        line.starts_with("impl") && (line.contains(" Source for ") || line.contains(" Store for "))
    };
    let of_stores: Vec<_> = texts.iter().filter(|(_, text)| text.lines().any(by_hand)).collect();
    assert!(of_stores.len() > 10, "stores are written otherwise by now: look for them anew");
    for (name, text) in of_stores {
        let allowed = BY_HAND.iter().any(|place| name.starts_with(place));
        assert!(allowed, "{name} is a source by hand: use `core::decorate`, or say in this file why not");
        let of_store = text.split("Store for ").skip(1).filter_map(|rest| rest.split("\n}\n").next());
        for body in of_store {
            for verb in SUGAR {
                let written = body.contains(&format!("    async fn {verb}("));
                assert!(!written, "{name} writes {verb} by itself: whoever decorates it would lose that");
            }
        }
    }
}

/// Whoever reads a decision sees first whether it holds.
#[test]
fn each_decision_says_whether_it_holds() {
    for (name, text) in all(&["docs/decisions"], ".md") {
        if name.ends_with("README.md") {
            continue;
        }
        let status = text.lines().nth(2).unwrap_or_default();
        let said = ["Status: holds", "Status: replaced by"].iter().any(|word| status.starts_with(word));
        assert!(said, "the third line of {name} is no status: {status:?}");
    }
}
