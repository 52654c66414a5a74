//! The table of `docs/comparison.md` says what is below it.

use std::collections::BTreeMap;

const LIBRARIES: [&str; 4] = ["Windlass", "apalis", "River", "Oban"];

#[test]
fn the_table_counts_the_lines_of_the_page() {
    let page = include_str!("../../../docs/comparison.md");
    let counted = counted(page);
    assert_eq!(counted.len(), 5, "five tasks");
    let mut sums = [0; LIBRARIES.len()];
    for (task, lines) in &counted {
        let lines = LIBRARIES.map(|library| lines.get(library).copied().unwrap_or_default());
        assert!(lines.iter().all(|lines| *lines > 0), "task {task} lacks a library: {lines:?}");
        assert_eq!(row(page, &format!("| [{task}. ")), lines, "task {task}");
        for (sum, lines) in sums.iter_mut().zip(lines) {
            *sum += lines;
        }
    }
    assert_eq!(row(page, "| all "), sums, "all tasks");
}

/// By task (`## 1. …`) and library (`### River`): the lines of the code block that follows.
fn counted(page: &str) -> BTreeMap<char, BTreeMap<&str, usize>> {
    let mut counted: BTreeMap<char, BTreeMap<&str, usize>> = BTreeMap::new();
    let (mut task, mut library) = (None, "");
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if let Some(title) = line.strip_prefix("## ") {
            task = title.chars().next().filter(char::is_ascii_digit);
        } else if let Some(title) = line.strip_prefix("### ") {
            library = title;
        } else if let (Some(info), Some(task)) = (line.strip_prefix("```"), task) {
            let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            let language = info.split(',').next().unwrap_or_default();
            *counted.entry(task).or_default().entry(library).or_default() += code_lines(language, &block);
        }
    }
    counted
}

/// How many lines are neither blank, nor only a comment, nor an import.
fn code_lines(language: &str, block: &[&str]) -> usize {
    let (mut code, mut in_import) = (0, false);
    for line in block.iter().map(|line| line.trim()) {
        let import = in_import || begins_import(language, line);
        in_import = match language {
            "rust" => import && !line.ends_with(';'),
            "go" => import && line != ")" && !line.starts_with("package "),
            _ => false,
        };
        let comment = line.starts_with(if language == "elixir" { "# " } else { "//" });
        code += usize::from(!import && !comment && !line.is_empty());
    }
    code
}

fn begins_import(language: &str, line: &str) -> bool {
    let words: &[&str] = match language {
        "rust" => &["use "],
        "go" => &["package ", "import ("],
        "elixir" => &["alias ", "import ", "require "],
        other => panic!("nobody has said how {other:?} is counted"),
    };
    words.iter().any(|word| line.starts_with(word))
}

/// The numbers of the row of the table that begins so.
fn row(page: &str, begin: &str) -> [usize; LIBRARIES.len()] {
    let row = page.lines().find(|line| line.starts_with(begin)).unwrap_or_else(|| panic!("no row {begin:?}"));
    let cells: Vec<usize> = row.split('|').filter_map(|cell| cell.trim().parse().ok()).collect();
    cells.try_into().unwrap_or_else(|cells| panic!("row {begin:?} has {cells:?}"))
}
