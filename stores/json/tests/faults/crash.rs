//! Killed at every call, broken at every fsync, out of room, read-only.

use std::process::Command;

use windlass_core::state::StateName;
use windlass_core::store::Store;
use windlass_json::Opening;
use windlass_testkit::conformance::scene::id;

use windlass_testkit::needs::strace;

use super::child::{can_mount, churn, lines, traced};
use super::{Place, read};

/// More calls of one sort than the example makes.
const CALLS_MAX: u32 = 200;

/// Faults 1 and 4: killed at any call, the file is the old one or the new one,
/// and what was answered is in it.
#[tokio::test]
async fn fault_1_and_4_killed_at_every_call() {
    if !strace() {
        return;
    }
    let mut points = 0;
    for call in ["openat", "fchmod", "write", "fsync", "unlink", "link,linkat", "rename,renameat,renameat2"] {
        for n in 1..=CALLS_MAX {
            let place = Place::new();
            let inject = format!("inject={call}:signal=SIGKILL:when={n}");
            let folder = place.folder.path().to_string_lossy().into_owned();
            let watched: Vec<String> = ["", ".tmp", ".1", ".1.tmp"]
                .iter()
                .map(|ending| format!("{folder}/jobs.json{ending}"))
                .chain([folder.clone()])
                .collect();
            let mut arguments = vec!["-o", "/dev/null", "-e", &inject];
            for path in &watched {
                arguments.extend(["-P", path]);
            }
            let output = traced(&place.file(), &arguments);
            let answered = lines(&output).len() as u64;
            assert_whole(&place, answered, &format!("{call} number {n}")).await;
            if output.status.success() {
                assert_eq!(answered, 9, "nobody was killed, so all was done");
                break;
            }
            points += 1;
        }
    }
    assert!(points >= 60, "only {points} points of a crash were tried");
}

/// The store opens without having to look at its copy, with all that was
/// answered, and with at most one step more.
async fn assert_whole(place: &Place, answered: u64, point: &str) {
    let store = place.open().await.unwrap_or_else(|error| panic!("killed at {point}: {error}"));
    assert!(!matches!(store.opening(), Opening::Restored { .. }), "killed at {point}: {:?}", store.opening());
    let mut steps = 0;
    for n in 1..=3 {
        let job = store.get(id(n)).await.expect("get");
        steps += match job.map(|job| job.state.name()) {
            None => 0,
            Some(StateName::Queued) => 1,
            Some(StateName::Running) => 2,
            Some(StateName::Completed) => 3,
            Some(other) => panic!("killed at {point}: job {n} is {other}"),
        };
    }
    let kept = answered..=answered + 1;
    assert!(kept.contains(&steps), "killed at {point}: {answered} answers, and {steps} steps are there");
}

/// Fault 5: write, fsync of the new file, rename, fsync of the folder, and
/// only then an answer. A kill cannot see this; the order of calls can.
#[tokio::test]
async fn fault_5_the_order_of_calls() {
    if !strace() {
        return;
    }
    let place = Place::new();
    let log = place.folder.path().join("trace");
    let log_path = log.to_string_lossy().into_owned();
    let trace = "trace=write,fsync,rename,renameat,renameat2";
    let output = traced(&place.file(), &["-y", "-o", &log_path, "-e", trace]);
    assert!(output.status.success());
    let text = String::from_utf8(read(&log)).expect("a trace");
    let folder = place.folder.path().to_string_lossy().into_owned();
    let calls: Vec<char> = text.lines().filter_map(|line| letter(line, &folder)).collect();
    let calls: String = calls.into_iter().collect();
    let commits = calls.split('A').filter(|commit| !commit.is_empty()).collect::<Vec<_>>();
    assert_eq!(commits.len(), 9, "nine answers: {calls}");
    for commit in commits {
        assert_eq!(commit.replace("WW", "W"), "WSRD", "between two answers: {calls}");
    }
}

/// W: a write to the new file. S: its fsync. R: the rename over the document.
/// D: the fsync of the folder. A: an answer.
fn letter(line: &str, folder: &str) -> Option<char> {
    let temporary = format!("<{folder}/jobs.json.tmp>");
    if line.contains("write(") && line.contains(&temporary) {
        Some('W')
    } else if line.contains("fsync(") && line.contains(&temporary) {
        Some('S')
    } else if line.contains("rename") && line.contains("jobs.json.tmp\"") {
        Some('R')
    } else if line.contains("fsync(") && line.contains(&format!("<{folder}>")) {
        Some('D')
    } else if line.contains("write(1<") {
        Some('A')
    } else {
        None
    }
}

/// Fault 12: an fsync that fails stops the store for good; nothing is answered
/// after it, and what was answered before is there.
#[tokio::test]
async fn fault_12_a_failed_fsync_stops_the_store() {
    if !strace() {
        return;
    }
    for n in 1..=CALLS_MAX {
        let place = Place::new();
        let inject = format!("inject=fsync:error=EIO:when={n}");
        let output = traced(&place.file(), &["-o", "/dev/null", "-e", &inject]);
        let lines = lines(&output);
        if output.status.success() {
            assert_eq!(n, 19, "two fsyncs for each of nine answers");
            return;
        }
        assert_eq!(output.status.code(), Some(3));
        let answered = lines.iter().filter(|line| !line.starts_with("error")).count();
        assert_eq!(lines[answered..], ["error store_broken", "error store_broken"], "fsync number {n}");
        assert_whole(&place, answered as u64, &format!("fsync number {n}")).await;
    }
    panic!("the example made more than {CALLS_MAX} fsyncs");
}

/// A write that fails is undone, and the next one works.
#[tokio::test]
async fn a_failed_write_is_undone() {
    if !strace() {
        return;
    }
    for call in ["rename,renameat,renameat2", "link,linkat"] {
        let place = Place::new();
        let inject = format!("inject={call}:error=EPERM:when=3");
        let temporary = place.beside("tmp").to_string_lossy().into_owned();
        let file = place.file().to_string_lossy().into_owned();
        let output =
            traced(&place.file(), &["-o", "/dev/null", "-e", &inject, "-P", &temporary, "-P", &file]);
        let lines = lines(&output);
        if call.starts_with("link") {
            assert!(output.status.success(), "without hard links the copy is made by copying: {lines:?}");
        } else {
            assert!(lines.contains(&"error store_cannot_write".to_owned()), "{lines:?}");
            assert!(
                lines.contains(&"done 101".to_owned()) || lines.contains(&"enqueued 101".to_owned()),
                "{lines:?}"
            );
        }
        place.opened().await;
    }
}

fn on_small_disk(place: &Place, size: &str, mode: &str) -> Vec<String> {
    let script = format!(
        "mount -t tmpfs -o size={size} none {folder} && exec {churn} {folder}/jobs.json {mode}",
        folder = place.folder.path().display(),
        churn = churn().display(),
    );
    let output = Command::new("unshare").args(["-m", "sh", "-c", &script]).output().expect("unshare starts");
    assert!(
        output.status.success(),
        "{} {}",
        lines(&output).join(", "),
        String::from_utf8_lossy(&output.stderr)
    );
    lines(&output)
}

/// Fault 11: a full disk refuses, nothing that was answered is lost, nothing
/// that was refused is there, and once there is room all goes on.
#[test]
fn fault_11_a_full_disk() {
    if !can_mount() {
        return;
    }
    let said = on_small_disk(&Place::new(), "1m", "fill");
    assert_eq!(said, ["refused store_cannot_write", "phantom false", "lost 0"]);
}

/// A folder that became read-only refuses, can still be read, and heals.
#[test]
fn a_read_only_folder() {
    if !can_mount() {
        return;
    }
    let said = on_small_disk(&Place::new(), "1m", "readonly");
    assert_eq!(said, ["refused store_cannot_write", "there true", "healed"]);
}
