//! A program that is killed at every one of its writes.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rusqlite::{Connection, OptionalExtension};

use crate::audit::audit;
use windlass_testkit::needs;

const STATE: &str = "SELECT iif(leases.seq IS NULL, coalesce(past.state, 0), 1) FROM jobs
    LEFT JOIN leases ON leases.seq = jobs.seq LEFT JOIN past ON past.seq = jobs.seq WHERE id = ?1";
const RECORD: &str = "SELECT 1 FROM records WHERE shelf = 's' AND key = ?1";
const WRITES: &str = "pwrite64,pwritev,write,fsync,fdatasync,ftruncate,unlink,fallocate";

/// Fault 1: killed at the n-th write, for every n of making the file, adding,
/// claiming and completing. The file is sound, what was answered is there, and
/// the program goes on from there.
#[test]
fn fault_01_killed_at_every_write() {
    if !needs::strace() {
        return;
    }
    let mut killed = 0;
    for at in 1.. {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("w.db");
        let said = victim(&path, 2, &format!("{WRITES}:signal=KILL:when={at}"));
        if !said.killed {
            break;
        }
        killed += 1;
        if path.exists() && std::fs::metadata(&path).is_ok_and(|meta| meta.len() > 0) {
            said.check_acknowledged(&path, &at.to_string());
        }
        let after = victim(&path, 2, "none");
        assert!(
            !after.killed && after.lines.iter().all(|said| said.what != "open" || said.code() == "ok"),
            "{at}"
        );
        audit(&path);
        said.check_acknowledged(&path, &at.to_string());
        assert_eq!(epoch(&path), 1, "{at}: a program that is killed cuts no history");
    }
    assert!(killed > 30, "killed {killed} times only");
}

/// The number of the epoch that a file is in.
pub fn epoch(path: &Path) -> i64 {
    let conn = Connection::open(path).expect("the file of the store");
    conn.query_row("SELECT number FROM epoch", [], |row| row.get(0)).expect("an epoch")
}

/// What the victim said.
pub struct Testimony {
    /// Its lines.
    pub lines: Vec<Said>,
    /// It did not end by itself.
    pub killed: bool,
    /// The system call that was made to fail, when one was.
    pub injected: Option<String>,
}

/// One line of the victim.
#[derive(Debug)]
pub struct Said {
    /// The verb.
    pub what: String,
    rest: Vec<String>,
}

impl Said {
    /// The last word: "ok", or the code of an error.
    pub fn code(&self) -> &str {
        self.rest.last().map_or("", String::as_str)
    }
}

impl Testimony {
    /// Whatever was answered with success must be in the file.
    pub fn check_acknowledged(&self, path: &Path, at: &str) {
        let conn = Connection::open(path).expect("the file of the store");
        check_batches(&conn, at);
        for said in self.lines.iter().filter(|said| said.code() == "ok" && said.rest.len() == 2) {
            let number: u128 = said.rest[0].parse().expect("a number");
            let state: Option<i64> = conn
                .query_row(STATE, [number.to_be_bytes()], |row| row.get(0))
                .optional()
                .expect("an answer");
            let least = match said.what.as_str() {
                "enqueued" => 0,
                "written" => {
                    let there = conn.query_row(RECORD, [said.rest[0].as_str()], |_| Ok(())).optional();
                    assert!(there.expect("an answer").is_some(), "{at}: {said:?}, and there is no record");
                    continue;
                }
                "claimed" => 1,
                "settled" => 2,
                other => panic!("{at}: the victim said {other}"),
            };
            assert!(state.is_some_and(|state| state >= least), "{at}: {said:?}, the file says {state:?}");
        }
    }
}

/// A record is there if its job is, and never without it.
fn check_batches(conn: &Connection, at: &str) {
    let has_shelves = conn.prepare("SELECT 1 FROM records").is_ok();
    if has_shelves {
        let count = |sql| conn.query_row(sql, [], |row| row.get::<_, i64>(0)).expect("a number");
        let (records, jobs) =
            (count("SELECT count(*) FROM records"), count("SELECT count(*) FROM jobs WHERE queue = 'later'"));
        assert_eq!(records, jobs, "{at}: half of a batch is there");
    }
}

/// Runs the example program `victim` while strace makes one of its system calls fail.
pub fn victim(path: &Path, jobs: u32, inject: &str) -> Testimony {
    let trace = path.with_extension("strace");
    let mut command = if inject == "none" {
        Command::new(example("victim"))
    } else {
        let mut strace = Command::new("strace");
        strace.args(["-f", "-qq", "-y", "-e", &format!("inject={inject}"), "-o"]).arg(&trace);
        strace.arg(example("victim"));
        strace
    };
    let output = command.arg(path).arg(jobs.to_string()).output().expect("the victim starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let lines = text.lines().map(|line| {
        let mut words = line.split(' ').map(str::to_owned);
        Said { what: words.next().unwrap_or_default(), rest: words.collect() }
    });
    let traced = std::fs::read_to_string(&trace).unwrap_or_default();
    let injected = traced.lines().find(|line| line.contains("(INJECTED)")).map(str::to_owned);
    Testimony { lines: lines.collect(), killed: output.status.signal().is_some(), injected }
}

/// Runs the example program `victim`, which dies at its end without closing the store.
pub fn abort(path: &Path, jobs: u32) {
    let victim = Command::new(example("victim")).arg(path).arg(jobs.to_string()).arg("abort").output();
    let output = victim.expect("the victim starts");
    assert!(output.status.signal().is_some(), "{output:?}");
}

fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("the path of this test");
    let folder = test.ancestors().nth(2).expect("the folder of the build");
    let path = folder.join("examples").join(name);
    assert!(path.exists(), "{} is missing: build the examples of windlass-sqlite", path.display());
    path
}
