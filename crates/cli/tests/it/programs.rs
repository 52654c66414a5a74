//! Where the programs are that the tests start.

use std::path::{Path, PathBuf};

/// The path of an example of this package. Cargo builds them with the tests.
pub fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its own path");
    let profile = test.parent().and_then(Path::parent).expect("tests lie in PROFILE/deps");
    let path = profile.join("examples").join(name);
    assert!(path.exists(), "{} is missing; run `cargo build --examples -p windlass-cli`", path.display());
    path
}
