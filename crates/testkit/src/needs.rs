//! What some tests need of the machine. Without it they say what is missing;
//! where the tests of a release are run, that is a failure.

use std::process::Command;

/// Whether this test can be run here: it needs root, to mount file systems.
pub fn root() -> bool {
    let is_root =
        Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout.trim_ascii() == b"0");
    can_run(is_root, "root, to mount a small file system")
}

/// Whether this test can be run here: it needs strace, to make system calls fail.
pub fn strace() -> bool {
    let found =
        Command::new("strace").args(["-qq", "true"]).output().is_ok_and(|output| output.status.success());
    can_run(found, "strace (`apt-get install strace`, and ptrace allowed), to make system calls fail")
}

/// Whether this test can be run here, given that what it needs is there.
pub fn can_run(is_there: bool, what: &str) -> bool {
    let must = ["CI", "WINDLASS_CI"]
        .iter()
        .any(|name| std::env::var(name).is_ok_and(|value| value == "true" || value == "1"));
    assert!(is_there || !must, "this test needs {what}");
    if !is_there {
        eprintln!("NOT TESTED: this test needs {what}");
    }
    is_there
}
