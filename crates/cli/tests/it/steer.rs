//! The verbs beside cancel and retry, what every verb says to programs, and what completes a line.

use crate::cli::{Shell, text};

#[test]
fn jobs_are_run_now_and_deleted() {
    for shell in Shell::both() {
        let id = shell.json(&["enqueue", "greet", "--delay", "1h"])["id"].as_str().unwrap().to_owned();
        assert!(shell.says(0, &["jobs", "run", &id]).contains("is due now"));
        assert_eq!(shell.json(&["jobs", "run", &id])["outcome"], "already_due");
        shell.says(0, &["cancel", &id]);
        let said = shell.says(4, &["jobs", "run", &id]);
        assert!(said.contains("is over"), "{said}");
        for _ in 0..3 {
            shell.says(0, &["enqueue", "many", "--delay", "1h"]);
        }
        assert_eq!(shell.says(0, &["jobs", "run", "--kind", "many", "--dry-run"]), "would run 3 jobs\n");
        let unsaid = shell.run(&["jobs", "delete", "--kind", "many"]);
        assert!(!unsaid.status.success() && text(&unsaid.stderr).contains("say which states"));
        let line = ["jobs", "delete", "--kind", "many", "--state", "queued"];
        assert_eq!(shell.json(&[&line[..], &["--dry-run"]].concat())["would_delete"], 3);
        assert_eq!(shell.list(&line).len(), 3);
        assert_eq!(shell.json(&["jobs", "delete", &id])["outcome"], "deleted");
        assert_eq!(shell.list(&["jobs"]).len(), 0);
        assert!(shell.says(3, &["jobs", "delete", &id]).contains("is not there"));
    }
}

#[test]
fn a_job_is_run_again_from_a_step() {
    for shell in Shell::both() {
        let id = shell.json(&["enqueue", "greet"])["id"].as_str().unwrap().to_owned();
        shell.says(0, &["cancel", &id]);
        let output = shell.run(&["retry", &id, "--from", "send"]);
        assert_eq!(output.status.code(), Some(4), "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains("has no such step"), "{}", text(&output.stderr));
        assert_eq!(shell.json(&["job", &id])["state"], "canceled");
    }
}

#[test]
fn queues_and_budgets_are_deleted() {
    for shell in Shell::both() {
        shell.says(0, &["queues", "set", "mail", "--limit", "2"]);
        shell.says(0, &["enqueue", "greet", "--queue", "mail"]);
        let held = shell.run(&["queues", "delete", "mail"]);
        assert_eq!(held.status.code(), Some(4));
        assert!(text(&held.stderr).contains("1 queued, 0 running"), "{}", text(&held.stderr));
        shell.says(0, &["jobs", "cancel", "--queue", "mail"]);
        assert_eq!(shell.json(&["queues", "delete", "mail"])["outcome"], "deleted");
        assert_eq!(shell.run(&["queues", "delete", "mail"]).status.code(), Some(3));
        shell.says(0, &["budgets", "set", "etsy", "--per-second", "2"]);
        shell.says(0, &["budgets", "cool-down", "etsy", "5m"]);
        assert_eq!(shell.json(&["budgets", "cool-down", "etsy", "0s"])["outcome"], "cool_down_ended");
        assert_eq!(shell.json(&["budgets", "delete", "etsy"])["outcome"], "deleted");
        assert_eq!(shell.run(&["budgets", "delete", "etsy"]).status.code(), Some(3));
    }
}

/// Whatever is changed, or refused, is said to programs as JSON: what happened on stdout, errors on stderr.
#[test]
fn every_verb_speaks_to_programs() {
    let shell = Shell::migrated();
    let ready = shell.json(&["migrate"]);
    assert_eq!((&ready["outcome"], &ready["store"]), (&"ready".into(), &"sqlite:windlass.db".into()));
    let files = |shell: &Shell| -> Vec<serde_json::Value> {
        shell.list(&["init", "first"]).iter().map(|file| file["outcome"].clone()).collect()
    };
    assert_eq!((files(&shell), files(&shell)), (vec!["made".into(); 2], vec!["kept".into(); 2]));
    for (line, outcome) in [
        (&["queues", "set", "mail", "--limit", "1"][..], "set"),
        (&["queues", "pause", "mail"], "paused"),
        (&["queues", "resume", "mail"], "resumed"),
        (&["budgets", "set", "etsy", "--slots", "1"], "set"),
        (&["budgets", "cool-down", "etsy", "1m"], "cools_down"),
        (&["schedules", "set", "nightly", "--cron", "0 3 * * *", "--kind", "report"], "set"),
        (&["schedules", "pause", "nightly"], "paused"),
        (&["schedules", "resume", "nightly"], "resumed"),
        (&["schedules", "delete", "nightly"], "deleted"),
    ] {
        let said = shell.json(line);
        assert_eq!(said["outcome"], outcome, "{line:?}: {said}");
    }
    for (line, code, word) in [
        (&["queues", "delete", "none"][..], 3, "not_found"),
        (&["budgets", "delete", "none"], 3, "not_found"),
        (&["schedules", "delete", "none"], 3, "not_found"),
        (&["schedules", "run", "none"], 3, "not_found"),
        (&["job", "0198c0de-0000-7000-8000-0000000000ff"], 3, "not_found"),
        (&["explain", "0198c0de-0000-7000-8000-0000000000ff"], 3, "not_found"),
        (&["logs", "0198c0de-0000-7000-8000-0000000000ff"], 3, "not_found"),
        (&["config", "check"], 3, "not_found"),
    ] {
        let output = shell.run(&[line, &["--json"]].concat());
        let said: serde_json::Value = serde_json::from_slice(&output.stderr)
            .unwrap_or_else(|error| panic!("{line:?}: {error}: {}", text(&output.stderr)));
        assert_eq!((output.status.code(), &said["error"]["code"]), (Some(code), &word.into()), "{line:?}");
    }
}

/// What `serve` would refuse, `config check` refuses.
#[test]
fn a_file_is_checked_as_a_server_checks_it() {
    let shell = Shell::new();
    for (file, says) in [
        ("[tokens.ci]\nenv = \"NOT_SET_ANYWHERE\"\nrole = \"read\"", "NOT_SET_ANYWHERE"),
        ("listen = \"0.0.0.0:0\"", "Set WINDLASS_TOKEN"),
        ("listen = \"nowhere\"", "no address"),
        ("store = \"mysql://host/db\"", "is not the URL of a store"),
    ] {
        std::fs::write(shell.folder.path().join("windlass.toml"), file).unwrap();
        let checked = shell.run(&["config", "check"]);
        assert_eq!(checked.status.code(), Some(1), "{file}: {}", text(&checked.stderr));
        assert!(text(&checked.stderr).contains(says), "{file}: {}", text(&checked.stderr));
        let served = shell.run(&["serve"]);
        assert_eq!(served.status.code(), Some(1), "{file}: {}", text(&served.stderr));
    }
    std::fs::write(shell.folder.path().join("windlass.toml"), "listen = \"127.0.0.1:0\"").unwrap();
    shell.says(0, &["config", "check"]);
}

/// Completions know what is in the store, and make none.
#[test]
fn completions_know_names() {
    let shell = Shell::new();
    let complete = |shell: &Shell, line: &[&str]| {
        let words = [&["--", "windlass"], line].concat();
        let mut command = shell.command(&words);
        command.env("COMPLETE", "fish");
        text(&command.output().unwrap().stdout)
    };
    assert!(!complete(&shell, &["queues", "pause", ""]).contains("mail"));
    assert!(!shell.folder.path().join("windlass.db").exists(), "whoever completes makes nothing");
    shell.says(0, &["migrate"]);
    shell.says(0, &["queues", "set", "mail", "--limit", "1"]);
    shell.says(0, &["budgets", "set", "etsy", "--slots", "1"]);
    shell.says(0, &["schedules", "set", "nightly", "--cron", "0 3 * * *", "--kind", "report"]);
    let id = shell.json(&["enqueue", "greet"])["id"].as_str().unwrap().to_owned();
    let script = shell.script("steps.sh", r#"echo '::windlass {"step": {"name": "download", "output": 1}}'"#);
    shell.says(0, &["work", "--kind", "greet", "--until-idle", "--", &script]);
    for (line, name) in [
        (&["queues", "pause", ""][..], "mail"),
        (&["budgets", "delete", "e"], "etsy"),
        (&["schedules", "run", ""], "nightly"),
        (&["jobs", "--kind", ""], "greet"),
        (&["cancel", ""], &id[28..]),
        (&["jo"], "jobs"),
        (&["enqueue", "gr"], "greet"),
        (&["enqueue", "greet", "--queue", "m"], "mail"),
        (&["enqueue", "greet", "--budget", ""], "etsy"),
        (&["work", "--kind", ""], "greet"),
        (&["work", "--queue", ""], "mail"),
        (&["schedules", "set", "x", "--kind", ""], "greet"),
        (&["schedules", "set", "x", "--queue", ""], "mail"),
        (&["retry", &id, "--from", ""], "download"),
    ] {
        let said = complete(&shell, line);
        assert!(said.contains(name), "{line:?}: {said}");
    }
    for name in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(shell.says(0, &["completions", name]).contains("windlass"), "{name}");
    }
}

#[test]
fn every_verb_has_a_manual_page() {
    let shell = Shell::new();
    shell.says(0, &["man", "man1"]);
    for page in ["windlass.1", "windlass-jobs.1", "windlass-jobs-delete.1", "windlass-vela.1"] {
        let text = std::fs::read_to_string(shell.folder.path().join("man1").join(page)).unwrap();
        assert!(text.starts_with(".ie") && text.contains(".SH NAME"), "{page}: {text}");
    }
}
