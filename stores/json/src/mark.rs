//! The mark beside the document (`windlass_core::incarnation`). The document is another file after each write, so the
//! mark follows it.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use uuid::Uuid;
use windlass_core::epoch::Epoch;
use windlass_core::incarnation::{FileId, Mark};

use crate::file::StoreFile;

/// What no file is.
pub const NOWHERE: FileId = FileId { dev: 0, ino: 0, born_ns: None, boot: Uuid::nil() };

/// The mark of a document.
pub struct MarkFile {
    file: StoreFile,
    boot: Uuid,
    open: Option<File>,
    newest: Option<FileId>,
}

impl MarkFile {
    /// The mark of a document, as seen in this start of the machine.
    pub fn new(file: &StoreFile, boot: Uuid) -> Self {
        Self { file: file.clone(), boot, open: None, newest: id_of(file.path(), boot).ok() }
    }

    /// Whether another document is where this one was when it was last looked at.
    pub fn is_another(&self) -> bool {
        let found = id_of(self.file.path(), self.boot).ok();
        found.zip(self.newest).is_some_and(|(found, newest)| !found.is_same(&newest))
    }

    /// Notes that the document was written. That this is on the disk is not waited for; a mark that is behind is
    /// harmless.
    pub fn note(&mut self, epoch: &Epoch, writes: u64) {
        if let Err(error) = self.try_note(epoch, writes) {
            self.open = None;
            tracing::debug!(%error, "the mark beside the store's file stays behind");
        }
    }

    fn try_note(&mut self, epoch: &Epoch, writes: u64) -> io::Result<()> {
        let file = id_of(self.file.path(), self.boot)?;
        self.newest = Some(file);
        let Epoch { number, instance, floor, .. } = *epoch;
        let mark = Mark { file, instance, number, floor, commits: writes };
        let open = match &self.open {
            Some(open) if open.metadata()?.nlink() > 0 => open,
            _ => self.open.insert(
                OpenOptions::new()
                    .create(true)
                    .truncate(false)
                    .write(true)
                    .mode(0o600)
                    .open(self.file.mark())?,
            ),
        };
        open.write_all_at(&mark.to_bytes(), 0)
    }
}

/// What a mark says; nothing when there is none that can be read.
pub fn look(path: &Path) -> Option<Mark> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(Mark::BYTES as u64).read_to_end(&mut bytes).ok()?;
    Mark::read(&bytes)
}

/// Which file this is.
pub fn id_of(path: &Path, boot: Uuid) -> io::Result<FileId> {
    Ok(FileId::of(&std::fs::metadata(path)?, boot))
}
