//! The grammar of `windlass jobs`: short ids, the same filters everywhere, what jobs said.

use crate::cli::{Shell, text};

#[test]
fn short_ids_name_one_job_or_list_what_they_could_mean() {
    for shell in Shell::both() {
        let one = "0198c0de-1111-7000-8000-0123456789ab";
        let other = "0198c0de-2222-7000-8000-ff23456789ab";
        shell.says(0, &["enqueue", "greet", "1", "--id", one]);
        shell.says(0, &["enqueue", "part", r#"{"of": "0123456789ab"}"#, "--id", other]);
        for id in [one, "0123456789ab", "00-0123456789ab", "0198c0de-11", "0198C0DE11", "…0123456789ab"] {
            assert_eq!(shell.json(&["jobs", "show", id])["id"], one, "{id}");
        }
        for (code, id, hint) in [
            (2, "456789ab", "could be any of these"),
            (2, "0198c0de", "could be any of these"),
            (3, "deadbeef", "there is no job deadbeef"),
            (2, "abc", "4 or more digits"),
            (2, "no-hex-at-all", "4 or more digits"),
        ] {
            let output = shell.run(&["job", id]);
            assert_eq!(output.status.code(), Some(code), "{id}: {}", text(&output.stderr));
            assert!(text(&output.stderr).contains(hint), "{id}: {}", text(&output.stderr));
        }
        let said = text(&shell.run(&["cancel", "456789ab"]).stderr);
        assert!(said.contains(one) && said.contains(other), "{said}");
        assert_eq!(shell.list(&["jobs", "--state", "queued"]).len(), 2, "an ambiguous id changes nothing");
        shell.says(0, &["jobs", "cancel", "0123456789ab"]);
        assert_eq!(shell.json(&["job", one])["state"], "canceled");
    }
}

#[test]
fn cancel_takes_the_filters_of_jobs() {
    for shell in Shell::both() {
        for kind in ["a", "a", "b"] {
            shell.says(0, &["enqueue", kind, "--delay", "1h"]);
        }
        assert_eq!(shell.says(0, &["cancel", "--kind", "a", "--dry-run"]), "would cancel 2 jobs\n");
        shell.says(0, &["jobs", "cancel", "--kind", "a"]);
        assert_eq!(shell.list(&["jobs", "--state", "canceled"]).len(), 2);
        assert_eq!(shell.list(&["jobs", "list", "--state", "queued"]).len(), 1);
        assert!(!shell.run(&["cancel"]).status.success(), "nothing said is not everything");
        let output = shell.run(&["jobs", "--state", "queued", "cancel"]);
        assert!(text(&output.stderr).contains("behind the verb"), "{}", text(&output.stderr));
        assert_eq!(shell.list(&["jobs", "--state", "queued"]).len(), 1);
        let waits = shell.says(0, &["jobs", "--state", "queued"]);
        assert!(waits.contains("its time has not come"), "{waits}");
        assert!(shell.says(0, &["explain"]).contains(" b: its time has not come"));
    }
}

#[test]
fn what_a_program_prints_is_kept() {
    for shell in Shell::both() {
        let script = shell.script(
            "talk.sh",
            "echo out $WINDLASS_ATTEMPT; echo err >&2; echo '::windlass {\"progress\": 1}'; test $WINDLASS_ATTEMPT = 2",
        );
        let id = shell.says(0, &["enqueue", "talk", "--ladder", "1s"]).trim().to_owned();
        assert!(text(&shell.run(&["logs", &id]).stderr).contains("it has said nothing yet"));
        shell.says(0, &["work", "--kind", "talk", "--until-idle", "--quiet", "--", &script]);
        let follow = shell.run(&["logs", &id]);
        assert!(text(&follow.stdout).contains("out 1\n"), "{}", text(&follow.stdout));
        while shell.json(&["job", &id])["state"] != "completed" {
            shell.says(0, &["work", "--kind", "talk", "--until-idle", "--quiet", "--", &script]);
        }
        let said = shell.says(0, &["logs", &id, "-f"]);
        for line in ["out 1\n", "err\n", "--- next attempt ---\n", "out 2\n"] {
            assert!(said.contains(line), "{said}");
        }
        assert!(!said.contains("::windlass"), "what is meant for the worker is no output: {said}");
        let logs = shell.list(&["logs", &id]);
        assert_eq!((logs.len(), &logs[0]["dropped"]), (2, &0.into()));
        assert_eq!(shell.list(&["logs", &id, "-f"]), logs, "of a job that is over, all of it");
        assert_eq!(shell.run(&["logs", "0198c0de-0000-7000-8000-000000000001"]).status.code(), Some(3));
    }
}

#[test]
fn much_output_is_bounded() {
    let shell = Shell::migrated();
    let script = shell.script("flood.sh", "seq 1 60000");
    let id = shell.says(0, &["enqueue", "flood"]).trim().to_owned();
    shell.says(0, &["work", "--kind", "flood", "--until-idle", "--quiet", "--", &script]);
    let said = shell.says(0, &["logs", &id]);
    assert!(said.len() < 65 * 1024 && said.ends_with("60000\n"), "{} bytes", said.len());
    assert!(said.starts_with("… ") && said.contains(" bytes are not kept …"), "{}", &said[..60]);
}

#[test]
fn the_place_may_stand_anywhere() {
    let shell = Shell::new();
    shell.says(0, &["--store", "sqlite:other.db", "enqueue", "x"]);
    assert_eq!(shell.list(&["--store=sqlite:other.db", "jobs"]).len(), 1);
    assert_eq!(shell.list(&["jobs", "list", "--store", "sqlite:other.db"]).len(), 1);
    assert_eq!(shell.list(&["jobs", "--store", "sqlite:other.db", "list"]).len(), 1);
    assert!(!shell.folder.path().join("windlass.db").exists());
}

/// A refused connection has changed nothing, and says so.
#[test]
fn nobody_there_is_no_unknown_outcome() {
    let shell = Shell::new();
    let held = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", held.local_addr().unwrap());
    drop(held);
    let output = shell.run(&["enqueue", "x", "--url", &url]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("Nothing was changed") && !said.contains("unknown"), "{said}");
}

#[test]
fn a_folder_to_begin_in() {
    let shell = Shell::new();
    let said = shell.says(0, &["init"]);
    assert!(said.contains("made ./windlass.toml") && said.contains("windlass serve"), "{said}");
    shell.says(0, &["config", "check"]);
    std::fs::write(shell.folder.path().join("greet.sh"), "mine").unwrap();
    assert!(shell.says(0, &["init"]).contains("kept ./greet.sh"));
    assert_eq!(std::fs::read_to_string(shell.folder.path().join("greet.sh")).unwrap(), "mine");
}

#[test]
fn failed_jobs_are_retried_by_filter() {
    for shell in Shell::both() {
        for _ in 0..3 {
            shell.says(0, &["enqueue", "break", "--ladder", "none"]);
        }
        let script = shell.script("break.sh", "echo 'no luck' >&2; exit 1");
        shell.says(0, &["work", "--kind", "break", "--until-idle", "--exec", &script]);
        let failed = shell.list(&["jobs", "--state", "failed"]);
        assert_eq!(failed.len(), 3);
        assert!(shell.says(0, &["jobs"]).contains("exit status: 1: no luck"));
        let one = &failed[0];
        let shown = shell.says(0, &["job", one["id"].as_str().unwrap()]);
        let attempt =
            format!("failed  1        {}  exit status: 1: no luck", one["worker"].as_str().unwrap());
        assert!(shown.contains(&attempt), "every attempt with its worker: {shown}");
        assert_eq!(shell.says(0, &["retry", "--kind", "break", "--dry-run"]), "would retry 3 jobs\n");
        assert_eq!(shell.says(0, &["retry", "--kind", "break"]), "retried 3 of 3 jobs\n");
        assert_eq!(shell.list(&["jobs", "--state", "queued"]).len(), 3);
        assert!(text(&shell.run(&["retry"]).stderr).contains("name jobs by their ids"));
        shell.says(0, &["work", "--kind", "break", "--until-idle", "--", "true"]);
        let went_well = shell.says(0, &["jobs", "--state", "completed"]);
        assert_eq!(went_well.matches("completed").count(), 3, "{went_well}");
        assert!(!went_well.contains("no luck"), "what went wrong before is no error of now: {went_well}");
    }
}
