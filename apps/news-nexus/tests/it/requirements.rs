//! The list of requirements names the tests that check them: they must exist.

use std::path::Path;

#[test]
fn every_requirement_names_a_test_that_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("apps/news-nexus/docs/REQUIREMENTS_TODO.md")).unwrap();
    let mut sources = String::new();
    for folder in [
        "apps/news-nexus/src",
        "apps/news-nexus/tests",
        "crates/app",
        "crates/outside",
        "crates/embed",
        "stores/json",
    ] {
        collect(&root.join(folder), &mut sources);
    }
    let boxes: Vec<&str> = page.lines().map(str::trim).filter(|line| line.starts_with("- [")).collect();
    assert!(boxes.len() > 20, "the list is short: {}", boxes.len());
    for line in boxes {
        let ticked = line.starts_with("- [x] ");
        assert!(ticked || line.starts_with("- [ ] "), "{line}");
        let tests: Vec<&str> = line.split('`').skip(1).step_by(2).filter(|name| is_test(name)).collect();
        assert!(!ticked || !tests.is_empty(), "no test is named: {line}");
        for test in tests {
            assert!(sources.contains(&format!("fn {test}(")), "{test} is no test: {line}");
        }
    }
}

fn is_test(name: &str) -> bool {
    name.contains('_') && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

fn collect(folder: &Path, sources: &mut String) {
    for entry in
        std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())).flatten()
    {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, sources);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            sources.push_str(&std::fs::read_to_string(&path).unwrap());
        }
    }
}
