//! The example `json_churn` as a child process, under strace or on a disk of its own.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use windlass_testkit::needs::can_run;

/// Whether this test can be run here: it needs a file system of its own.
pub fn can_mount() -> bool {
    let mut probe = Command::new("unshare");
    probe.args(["-m", "sh", "-c", "mount -t tmpfs -o size=64k none /mnt"]);
    let works = probe.output().is_ok_and(|output| output.status.success());
    can_run(works, "root, to mount a small disk")
}

/// The example, which cargo builds beside the tests.
pub fn churn() -> PathBuf {
    let test = std::env::current_exe().expect("the path of this test");
    let built = test.ancestors().nth(2).expect("the folder of the build").join("examples/json_churn");
    assert!(built.is_file(), "{} is missing: build it with `cargo build --examples`", built.display());
    built
}

/// Runs the example's work under strace with these arguments.
pub fn traced(file: &Path, arguments: &[&str]) -> Output {
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq"]).args(arguments).arg(churn()).arg(file).arg("work");
    strace.output().expect("strace starts")
}

/// The lines that a child wrote.
pub fn lines(output: &Output) -> Vec<String> {
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}
