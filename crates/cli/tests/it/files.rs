//! The file of a store and what may happen to it, from outside: the program is stopped, killed, copied, cut and robbed.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use windlass_testkit::eventually::eventually;
use windlass_testkit::program::Program;

/// A folder with a store in it.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn command(&self, line: &[&str]) -> Command {
        let mut command = Command::new(windlass_testkit::binary::windlass());
        command.current_dir(self.0.path()).args(line);
        for name in ["WINDLASS_STORE", "WINDLASS_TOKEN", "WINDLASS_URL"] {
            command.env_remove(name);
        }
        command
    }

    /// A server of a file, and where it listens.
    fn serve(&self, file: &str) -> (Program, String) {
        let mut command =
            self.command(&["serve", "--listen", "127.0.0.1:0", "--store", &format!("sqlite:{file}")]);
        let log = fs::File::options().create(true).append(true).open(self.path("server.log")).unwrap();
        let (reader, writer) = std::io::pipe().unwrap();
        let program = Program::start(command.stdout(writer).stderr(log));
        drop(command);
        let mut said = String::new();
        BufReader::new(reader).read_line(&mut said).unwrap();
        let address =
            said.split("http://").nth(1).unwrap_or_else(|| panic!("{said}")).split(' ').next().unwrap();
        (program, format!("http://{address}"))
    }

    /// What a command says on stdout and stderr, and its exit code.
    fn says(&self, line: &[&str]) -> (i32, String) {
        let output = self.command(line).stdin(Stdio::null()).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&text).into_owned())
    }

    /// A job for later: that nobody works on it is nothing to tell of.
    fn enqueue(&self, url: &str, n: u32) -> (i32, String) {
        self.says(&["enqueue", "greet", &format!("{{\"n\":{n}}}"), "--delay", "1h", "--url", url])
    }

    /// How many jobs a file has.
    fn jobs(&self, file: &str) -> usize {
        let (code, said) = self.says(&["jobs", "--json", "--store", &format!("sqlite:{file}")]);
        assert_eq!(code, 0, "{said}");
        said.lines().filter(|line| line.starts_with('{')).count()
    }

    fn doctor(&self, file: &str) -> String {
        self.says(&["doctor", "--store", &format!("sqlite:{file}")]).1
    }

    /// A server that took so many jobs and was killed.
    fn killed(&self, jobs: u32) {
        let (server, url) = self.serve("w.db");
        for n in 0..jobs {
            let (code, said) = self.enqueue(&url, n);
            assert_eq!(code, 0, "{said}");
        }
        server.kill();
    }
}

fn log_of(file: &Path) -> PathBuf {
    PathBuf::from(format!("{}-wal", file.display()))
}

/// After SIGTERM the file is everything: a copy of it is the whole store, and is told to be a copy.
#[test]
fn a_clean_stop_leaves_one_whole_file() {
    let place = Place::new();
    let (server, url) = place.serve("w.db");
    for n in 0..5 {
        assert_eq!(place.enqueue(&url, n).0, 0);
    }
    server.signal(libc::SIGTERM);
    assert!(server.wait().success());
    for beside in ["w.db-wal", "w.db-shm"] {
        assert!(!place.path(beside).exists(), "{beside} is left");
    }
    fs::copy(place.path("w.db"), place.path("copy.db")).unwrap();
    assert_eq!(place.jobs("copy.db"), 5);
    let said = place.doctor("copy.db");
    assert!(said.contains("epoch 2") && !said.contains("nothing is wrong"), "{said}");
    assert!(place.doctor("w.db").contains("nothing is wrong"), "{}", place.doctor("w.db"));
}

/// A server that was killed has lost nothing. One whose log is gone, cut or damaged says so, and so does `doctor`.
#[test]
fn a_log_that_lost_commits_is_told() {
    let place = Place::new();
    place.killed(4);
    assert_eq!(place.jobs("w.db"), 4, "killed, and nothing else");
    assert!(place.doctor("w.db").contains("nothing is wrong"));
    type Harm = fn(&Path);
    let harms: [(&str, Harm); 3] = [
        ("deleted", |log| fs::remove_file(log).unwrap()),
        ("cut", |log| fs::File::options().write(true).open(log).unwrap().set_len(150_000).unwrap()),
        ("flipped", |log| {
            let mut bytes = fs::read(log).unwrap();
            bytes[120_000] ^= 1;
            fs::write(log, bytes).unwrap();
        }),
    ];
    for (harm, on) in harms {
        let place = Place::new();
        place.killed(6);
        on(&log_of(&place.path("w.db")));
        let (server, url) = place.serve("w.db");
        let log = fs::read_to_string(place.path("server.log")).unwrap();
        assert!(log.contains("A new epoch begins"), "{harm}: {log}");
        let said = place.doctor("w.db");
        assert!(said.contains("epoch 2") && !said.contains("nothing is wrong"), "{harm}: {said}");
        assert_eq!(place.enqueue(&url, 99).0, 0, "{harm}: it goes on");
        drop(server);
    }
}

/// A file that goes under a running server: no job is taken any more, it is not ready, and nothing starts empty.
#[tokio::test]
async fn a_file_that_goes_stops_the_server() {
    for gone in ["deleted", "moved"] {
        let place = Place::new();
        let (server, url) = place.serve("w.db");
        assert_eq!(place.enqueue(&url, 1).0, 0);
        match gone {
            "deleted" => fs::remove_file(place.path("w.db")).unwrap(),
            _ => fs::rename(place.path("w.db"), place.path("away.db")).unwrap(),
        }
        let (code, said) = place.enqueue(&url, 2);
        assert!(code != 0, "{gone}: {said}");
        eventually("it is not ready", async || {
            let ready = place.says(&["queues", "--url", &url]);
            (ready.0 != 0).then_some(())
        })
        .await;
        server.kill();
        let (code, said) = place.says(&["serve", "--listen", "127.0.0.1:0", "--store", "sqlite:w.db"]);
        assert!(code != 0 && said.contains("w.db-mark"), "{gone}: {said}");
        if gone == "moved" {
            fs::rename(place.path("away.db"), place.path("w.db")).unwrap();
            // What was answered with an error may be there or not.
            let jobs = place.jobs("w.db");
            assert!((1..=2).contains(&jobs), "put back, it is whole: {jobs}");
        }
    }
}
