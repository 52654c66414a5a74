//! Whether the files that are open are still those that the next program will find. A file that was moved, replaced or
//! deleted takes all that is written to it along.

use std::fs::metadata;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use windlass_core::error::StoreError;

use crate::disk::mark::beside;

/// The files of a store that is open: the database, its log, and the index of the log.
pub struct Watch {
    database: PathBuf,
    files: Vec<(PathBuf, (u64, u64))>,
}

impl Watch {
    /// Remembers the files as they are now.
    pub fn new(database: &Path) -> Self {
        let paths = ["", "-wal", "-shm"].map(|ending| beside(database, ending));
        let known = |path: PathBuf| Some((path.clone(), number(&path).ok()?));
        Self { database: database.to_owned(), files: paths.into_iter().filter_map(known).collect() }
    }

    /// Looks whether they are still there.
    pub fn look(&self) -> Result<(), StoreError> {
        for (path, known) in &self.files {
            let gone = match number(path) {
                Ok(found) => found != *known,
                Err(error) => error.kind() == ErrorKind::NotFound,
            };
            if gone {
                return Err(self.lost(path));
            }
        }
        Ok(())
    }

    fn lost(&self, path: &Path) -> StoreError {
        StoreError::Broken(format!(
            "{} was moved, replaced or deleted while it was open, so nothing is accepted any more. Stop this program, \
             put {} back as it was together with its -wal, or restore a backup in its place, and start again",
            path.display(),
            self.database.display()
        ))
    }
}

fn number(path: &Path) -> std::io::Result<(u64, u64)> {
    metadata(path).map(|file| (file.dev(), file.ino()))
}
