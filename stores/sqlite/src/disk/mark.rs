//! The mark beside the file (`windlass_core::incarnation`), and the lock that says whether other processes have the
//! file open: each of them shares a lock on the mark as long as it lives.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use uuid::Uuid;
use windlass_core::error::StoreError;
use windlass_core::incarnation::{FileId, Mark};

/// The mark of a file that is open.
pub struct MarkFile {
    file: File,
    path: PathBuf,
    newest: Option<Mark>,
}

impl MarkFile {
    /// The mark of a database; an empty one is made when there is none.
    pub fn open(database: &Path) -> Result<Self, StoreError> {
        let path = path_of(database);
        let file =
            OpenOptions::new().create(true).truncate(false).read(true).write(true).mode(0o600).open(&path);
        let file = file.map_err(|error| cannot(&path, &error))?;
        Ok(Self { file, path, newest: None })
    }

    /// Takes the lock for this process alone; answers whether it could: no other has the file open.
    pub fn is_alone(&self) -> Result<bool, StoreError> {
        match flock(&self.file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(true),
            Err(Errno::WOULDBLOCK) => Ok(false),
            Err(error) => Err(cannot(&self.path, &error.into())),
        }
    }

    /// Shares the lock, when nobody is judging the file any more.
    pub fn share(&self) -> Result<(), StoreError> {
        flock(&self.file, FlockOperation::LockShared).map_err(|error| cannot(&self.path, &error.into()))
    }

    /// What it says; nothing when it was never written, or not whole.
    pub fn read(&self) -> Result<Option<Mark>, StoreError> {
        let mut bytes = [0; Mark::BYTES];
        match self.file.read_exact_at(&mut bytes, 0) {
            Ok(()) => Ok(Mark::read(&bytes)),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(None),
            Err(error) => Err(cannot(&self.path, &error)),
        }
    }

    /// Writes it, durably.
    pub fn write(&mut self, mark: Mark) -> Result<(), StoreError> {
        let written = self.file.write_all_at(&mark.to_bytes(), 0).and_then(|()| self.file.sync_all());
        written.map_err(|error| cannot(&self.path, &error))?;
        self.newest = Some(mark);
        Ok(())
    }

    /// Notes a commit that is durable by now. That this is written is not waited for; a mark that is behind is harmless.
    pub fn note(&mut self, commits: u64) {
        let Some(mark) = &mut self.newest else { return };
        mark.commits = commits;
        if let Err(error) = self.file.write_all_at(&mark.to_bytes(), 0) {
            tracing::debug!(%error, "the mark beside the store's file stays behind");
        }
    }
}

/// What the mark of a database says that may not be there; nothing when there is no mark.
pub fn look(database: &Path) -> Option<Mark> {
    let mut bytes = Vec::new();
    File::open(path_of(database)).ok()?.take(Mark::BYTES as u64).read_to_end(&mut bytes).ok()?;
    Mark::read(&bytes)
}

/// Where the mark of a database is: beside the file itself, by whatever name it was reached, as its log is.
pub fn path_of(database: &Path) -> PathBuf {
    beside(database, "-mark")
}

/// A file beside a database.
pub fn beside(database: &Path, ending: &str) -> PathBuf {
    let mut path = std::fs::canonicalize(database).unwrap_or_else(|_| database.to_owned()).into_os_string();
    path.push(ending);
    path.into()
}

/// Which file this is.
pub fn id_of(path: &Path, boot: Uuid) -> std::io::Result<FileId> {
    Ok(FileId::of(&std::fs::metadata(path)?, boot))
}

fn cannot(path: &Path, error: &std::io::Error) -> StoreError {
    StoreError::CannotWrite(format!(
        "the mark {} cannot be written ({error}); allow this program to write the store's folder",
        path.display()
    ))
}
