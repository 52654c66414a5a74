//! Programs that tests start, and end.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The path of an example of the package that is tested. Cargo builds them with the tests.
///
/// # Panics
///
/// When it is not built.
pub fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its own path");
    let profile = test.parent().and_then(Path::parent).expect("tests lie in PROFILE/deps");
    let path = profile.join("examples").join(name);
    assert!(path.exists(), "{} is missing; run `cargo build --workspace --examples`", path.display());
    path
}

/// What programs said last, of the logs that lie in a folder: so many lines of each, without those of their doors.
pub fn last_words(folder: &Path, lines_max: usize) -> String {
    let mut words = String::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.path().extension().is_some_and(|end| end == "log") {
            let text = std::fs::read_to_string(entry.path()).unwrap_or_default();
            let lines: Vec<&str> = text.lines().filter(|line| !line.contains("Request handled")).collect();
            let tail = &lines[lines.len().saturating_sub(lines_max)..];
            words += &format!("--- {}\n{}\n", entry.path().display(), tail.join("\n"));
        }
    }
    words
}

/// A program that is killed when the test is over.
pub struct Program(Child);

impl Program {
    /// Starts it, with nothing to read.
    pub fn start(command: &mut Command) -> Self {
        let child = command.stdin(Stdio::null()).spawn();
        Self(child.unwrap_or_else(|error| panic!("cannot start {command:?}: {error}")))
    }

    /// The processes that it has started and that are still there.
    pub fn children(&self) -> Vec<u32> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.0.id())).into_iter().flatten().flatten();
        let lists =
            tasks.map(|task| std::fs::read_to_string(task.path().join("children")).unwrap_or_default());
        let all: Vec<String> = lists.collect();
        all.iter().flat_map(|list| list.split_whitespace()).filter_map(|pid| pid.parse().ok()).collect()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: i32) {
        let pid = i32::try_from(self.0.id()).expect("a process number fits");
        // SAFETY: the child is ours and not reaped yet, so the number is its own.
        let sent = unsafe { libc::kill(pid, signal) };
        assert_eq!(sent, 0, "cannot signal {pid}");
    }

    /// kill -9.
    pub fn kill(mut self) {
        self.0.kill().expect("a child of ours can be killed");
        self.0.wait().expect("and reaped");
    }

    /// Waits for its end.
    pub fn wait(mut self) -> std::process::ExitStatus {
        self.0.wait().expect("a child of ours can be waited for")
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Already gone in the good case.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
