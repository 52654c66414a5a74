//! A disk that is soon full.

use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

/// A file system of its own, as small as that. Gone when dropped. Needs root.
pub struct SmallDisk(TempDir);

impl SmallDisk {
    /// Mounts one.
    pub fn mount(bytes: u64) -> Self {
        let folder = TempDir::with_prefix("windlass-small-").expect("a temporary folder");
        let size = format!("size={bytes},mode=700");
        run(Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(folder.path()));
        Self(folder)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Gives it to another user.
    pub fn give_to(&self, user: &str) {
        run(Command::new("chown").arg(user).arg(self.path()));
    }

    /// Makes it read-only.
    pub fn freeze(&self) {
        run(Command::new("mount").args(["-o", "remount,ro"]).arg(self.path()));
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        run(Command::new("umount").arg("-l").arg(self.path()));
    }
}

fn run(command: &mut Command) {
    let output = command.output().expect("a command that starts");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}
