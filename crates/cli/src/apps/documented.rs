//! What the documents say to type is what the program takes: every verb and every flag, also of blocks that no test runs
//! since they need an account somewhere.

use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory};

use super::with_apps;
use crate::args::Args;

/// The pages that tell people what to type.
fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages = vec![root.join("README.md"), root.join("packaging/README.md")];
    let within = |folder: PathBuf| std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let apps = within(root.join("apps"));
    for folder in apps.chain(["docs", "docs/guide"].map(|folder| root.join(folder))) {
        pages.extend(within(folder).filter(|path| path.extension().is_some_and(|ending| ending == "md")));
    }
    pages.sort();
    pages
}

/// What follows `windlass` wherever a page says so in code, in a block or in a line, word by word.
fn lines(page: &str) -> Vec<Vec<String>> {
    let (mut lines, mut in_block) = (Vec::new(), false);
    for line in page.lines() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
            continue;
        }
        let code: Vec<&str> =
            if in_block { vec![line] } else { line.split('`').skip(1).step_by(2).collect() };
        lines.extend(code.into_iter().filter_map(typed));
    }
    lines
}

/// The words of a line that begins with the program, perhaps behind settings.
fn typed(line: &str) -> Option<Vec<String>> {
    let mut words = line.split_whitespace().skip_while(|word| word.contains('=') && !word.starts_with('-'));
    if words.next()? != "windlass" {
        return None;
    }
    // What follows is for another program, or for people.
    let words =
        words.take_while(|word| !matches!(*word, "--" | "#" | "|" | "&" | "&&" | ">" | "<" | "…" | "\\"));
    Some(words.map(|word| word.trim_matches(['"', '\'', '[', ']', ',', ';', '(', ')']).to_owned()).collect())
}

/// What the program does not know of a line.
fn unknown(program: &Command, words: &[String]) -> Option<String> {
    let (mut path, mut at) = (vec![program], 0);
    while let Some(found) = words.get(at).and_then(|word| path[at].find_subcommand(word)) {
        path.push(found);
        at += 1;
    }
    let last = path[at];
    if last.get_arguments().any(|argument| argument.get_id() == "anything") {
        return None;
    }
    let is_verb =
        |word: &String| word.chars().all(|c| c.is_ascii_lowercase() || c == '-') && !word.starts_with('-');
    if at == 0 && words.first().is_some_and(is_verb) {
        return Some(format!("there is no verb {:?}", words[0]));
    }
    let flags =
        words.iter().filter_map(|word| word.strip_prefix("--")).map(|flag| flag.split('=').next().unwrap());
    let is_known = |flag: &str| {
        let mut all = path.iter().flat_map(|command| command.get_arguments());
        flag == "help" || flag == "version" || all.any(|argument| argument.get_long() == Some(flag))
    };
    let wrong: Vec<&str> = flags.filter(|flag| !flag.is_empty() && !is_known(flag)).collect();
    (!wrong.is_empty()).then(|| format!("{} has no --{}", last.get_name(), wrong.join(", --")))
}

fn program() -> Command {
    let mut program = with_apps(Args::command(), false);
    program.build();
    program
}

#[test]
fn what_the_documents_say_to_type_is_known() {
    let program = program();
    let (mut seen, mut faults) = (0, Vec::new());
    for path in pages() {
        for words in lines(&std::fs::read_to_string(&path).unwrap()) {
            seen += 1;
            let fault = unknown(&program, &words);
            faults
                .extend(fault.map(|why| format!("{}: windlass {}: {why}", path.display(), words.join(" "))));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(seen > 120, "{seen} lines were found");
}

#[test]
fn what_is_not_known_is_found() {
    let program = program();
    let fault = |line: &str| unknown(&program, &typed(line).expect("a line of the program"));
    for line in [
        "windlass jobs --state failed",
        "A=1 windlass enqueue greet '{}'",
        "windlass schedules set x --cron y",
    ] {
        assert_eq!(fault(line), None, "{line}");
    }
    for line in [
        "windlass jbos",
        "windlass jobs --sate failed",
        "windlass schedules set --corn y",
        "windlass vela --on",
    ] {
        assert!(fault(line).is_some(), "{line}");
    }
    assert_eq!(typed("cargo run windlass"), None);
}
