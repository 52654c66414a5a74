//! Every fault of the engine has a row in `docs/faults.md`, and every test that
//! the page names exists.

use std::collections::HashSet;
use std::path::Path;

const FAULTS: [std::ops::RangeInclusive<u32>; 4] = [1..=15, 20..=20, 22..=22, 24..=65];

#[test]
fn the_page_of_faults_is_true() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("docs/faults.md")).unwrap();
    let mut functions = HashSet::new();
    for folder in ["crates", "stores", "apps"] {
        collect(&root.join(folder), &mut functions);
    }
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| ")).collect();
    for fault in FAULTS.into_iter().flatten() {
        let row = rows.iter().find(|row| row.starts_with(&format!("| {fault} |")));
        let row = row.unwrap_or_else(|| panic!("docs/faults.md has no row for fault {fault}"));
        let tests = row.split('`').skip(1).step_by(2).filter(|name| is_test(name)).count();
        assert!(tests > 0, "fault {fault} names no test");
    }
    for name in page.split('`').skip(1).step_by(2).filter(|name| is_test(name)) {
        assert!(functions.contains(name), "docs/faults.md names {name}, which is no function");
    }
}

fn is_test(name: &str) -> bool {
    name.len() > 3 && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

/// The names of all functions in the Rust files below a folder.
fn collect(folder: &Path, functions: &mut HashSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, functions);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let named = text.split("fn ").skip(1).filter_map(|rest| rest.split(['(', '<']).next());
            functions.extend(named.map(str::to_owned));
        }
    }
}
