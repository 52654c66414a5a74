//! One process per store: a lock on a file beside it. The kernel lets go of it
//! when the process ends, however it ends.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use windlass_core::error::StoreError;

/// Held as long as this lives.
pub struct Lock {
    file: File,
    path: PathBuf,
}

impl Lock {
    /// Takes the lock, or says who is in the way.
    pub fn take(path: &Path) -> Result<Self, StoreError> {
        let cannot = |why: &dyn std::fmt::Display| {
            StoreError::CannotWrite(format!("the lock file {} cannot be opened: {why}", path.display()))
        };
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).write(true).mode(0o600);
        let file = options.open(path).map_err(|error| cannot(&error))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { file, path: path.to_owned() }),
            Err(Errno::WOULDBLOCK) => Err(StoreError::InUse(format!(
                "the lock file {} is held; stop the other program, or give this one a file of its own",
                path.display()
            ))),
            Err(error) => Err(cannot(&error)),
        }
    }

    /// Whether it still keeps others out: not when its file was deleted, for
    /// then the next one makes a file of its own.
    pub fn is_held(&self) -> bool {
        let same = |there: std::fs::Metadata, held: std::fs::Metadata| {
            (there.dev(), there.ino()) == (held.dev(), held.ino())
        };
        match (std::fs::metadata(&self.path), self.file.metadata()) {
            (Ok(there), Ok(held)) => same(there, held),
            _ => false,
        }
    }
}
