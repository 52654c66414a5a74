//! The real embedding model that tests use.

use std::path::PathBuf;
use std::process::Command;

/// The folder that it is in. Fetched where it is missing; a machine that cannot do that fails the test.
pub fn folder() -> PathBuf {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../embed/tests/model");
    let output = Command::new(script).output().expect("crates/embed/tests/model can be run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    PathBuf::from(String::from_utf8(output.stdout).expect("a path in UTF-8").trim_end())
}
