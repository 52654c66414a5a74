//! The document on disk: written whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use windlass_core::time::Time;

use crate::options::OnDamage;

/// A document with its neighbours: `.1` (the one before), `.tmp` (the one that
/// is being written), `.lock`, `.mark` (which document this is), `.corrupt-<time>` (what could not be read).
#[derive(Debug, Clone)]
pub struct StoreFile {
    path: PathBuf,
    folder: PathBuf,
    on_damage: OnDamage,
}

/// On a full disk a document that grows by no more than this is worth the copy.
const GROWTH_BYTES_MAX: u64 = 4_096;

/// How many documents that were set aside are kept.
const ASIDE_MAX: usize = 10;

/// Why a document was not written.
#[derive(Debug)]
pub enum NotWritten {
    /// Nothing changed; it may be tried again.
    Refused(String),
    /// An fsync failed: what is on the disk is not known any more.
    Unsure(String),
}

impl StoreFile {
    /// The document at `path`.
    pub fn new(path: &Path, on_damage: OnDamage) -> Self {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        Self { path: path.to_owned(), folder: folder.unwrap_or(Path::new(".")).to_owned(), on_damage }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn previous(&self) -> PathBuf {
        self.beside("1")
    }

    pub fn lock(&self) -> PathBuf {
        self.beside("lock")
    }

    pub fn mark(&self) -> PathBuf {
        self.beside("mark")
    }

    fn beside(&self, ending: &str) -> PathBuf {
        let mut name = self.path.as_os_str().to_owned();
        name.push(".");
        name.push(ending);
        PathBuf::from(name)
    }

    /// The bytes of a file, or nothing when there is none.
    pub fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
        match fs::read(path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether somebody has taken the right to write the document away. A
    /// rename would not ask for it.
    pub fn is_read_only(&self) -> bool {
        fs::metadata(&self.path).is_ok_and(|file| file.permissions().mode() & 0o200 == 0)
    }

    /// Whether there is a document.
    pub fn is_there(&self) -> bool {
        self.path.exists()
    }

    /// Makes the folder again.
    pub fn make_folder(&self) -> Result<(), NotWritten> {
        fs::create_dir_all(&self.folder).map_err(|error| {
            NotWritten::Refused(format!("cannot make the folder {}: {error}", self.folder.display()))
        })
    }

    /// Lets go of documents that were set aside: all but the newest few, and
    /// those from before a moment.
    pub fn prune_aside(&self, oldest: Option<Time>) -> io::Result<usize> {
        let oldest = oldest.map(aside_time);
        let mut found = self.aside()?;
        found.sort_unstable_by(|one, next| next.cmp(one));
        let mut pruned = 0;
        for (at, (time, path)) in found.into_iter().enumerate() {
            if at >= ASIDE_MAX || oldest.as_ref().is_some_and(|oldest| time < *oldest) {
                fs::remove_file(path)?;
                pruned += 1;
            }
        }
        Ok(pruned)
    }

    /// What was set aside: when, and where it is.
    fn aside(&self) -> io::Result<Vec<(String, PathBuf)>> {
        let pattern = self.corrupt("*");
        let pattern = pattern.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Some((before, after)) = pattern.split_once('*') else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let time = name.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
            found.extend(time.map(|time| (time.to_owned(), entry.path())));
        }
        Ok(found)
    }

    /// Sets a document aside that cannot be read. Answers where it is now.
    pub fn set_aside(&self, now: Time) -> io::Result<PathBuf> {
        let time = aside_time(now);
        let mut aside = self.corrupt(&time);
        let mut number = 1;
        while aside.exists() {
            number += 1;
            aside = self.corrupt(&format!("{time}-{number}"));
        }
        fs::rename(&self.path, &aside)?;
        self.sync_folder()?;
        Ok(aside)
    }

    fn corrupt(&self, time: &str) -> PathBuf {
        let extension = self.path.extension().map(|extension| extension.to_string_lossy().into_owned());
        match (self.on_damage, extension) {
            (OnDamage::BeginAnew, Some(extension)) => {
                self.path.with_extension(format!("corrupt-{time}.{extension}"))
            }
            _ => self.beside(&format!("corrupt-{time}")),
        }
    }

    /// Writes the document: a temporary file, fsync, the old one kept as `.1`,
    /// rename, fsync of the folder.
    pub fn write(&self, bytes: &[u8]) -> Result<(), NotWritten> {
        let temporary = self.beside("tmp");
        let refused = |what: &str, error: io::Error| {
            // What was half written is of no use; the room it takes may be.
            drop(fs::remove_file(&temporary));
            NotWritten::Refused(format!("{what} {}: {error}", self.path.display()))
        };
        let file = self.make_room(bytes, fill(&temporary, bytes));
        let file = file.map_err(|error| refused("cannot write beside", error))?;
        if let Err(error) = file.sync_all() {
            return Err(self.unsure(error));
        }
        drop(file);
        if self.on_damage == OnDamage::TakeCopy {
            self.keep_previous().map_err(|error| refused("cannot keep a copy of", error))?;
        }
        fs::rename(&temporary, &self.path).map_err(|error| refused("cannot replace", error))?;
        self.sync_folder().map_err(|error| self.unsure(error))
    }

    /// On a full disk the copy gives its room to a document that hardly grows,
    /// so that jobs can still end and be deleted; nothing else could make room.
    fn make_room(&self, bytes: &[u8], filled: io::Result<File>) -> io::Result<File> {
        let Err(error) = filled else { return filled };
        let len = fs::metadata(&self.path).map_or(0, |file| file.len());
        let grows_little = bytes.len() as u64 <= len + GROWTH_BYTES_MAX;
        if error.kind() != io::ErrorKind::StorageFull || !grows_little {
            return Err(error);
        }
        drop(fs::remove_file(self.beside("tmp")));
        fs::remove_file(self.previous()).map_err(|_| error)?;
        tracing::warn!(file = %self.path.display(), "the disk is full; the copy of the store's file gave its room");
        fill(&self.beside("tmp"), bytes)
    }

    /// Makes `.1` another name of the document as it is. At no moment is
    /// either of the two names without a whole document.
    fn keep_previous(&self) -> io::Result<()> {
        let next = self.beside("1.tmp");
        match fs::remove_file(&next) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        match fs::hard_link(&self.path, &next) {
            Ok(()) => fs::rename(&next, self.previous()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(_) => self.copy_previous(&next),
        }
    }

    /// For file systems without hard links.
    fn copy_previous(&self, next: &Path) -> io::Result<()> {
        fill(next, &fs::read(&self.path)?)?.sync_all()?;
        fs::rename(next, self.previous())
    }

    fn sync_folder(&self) -> io::Result<()> {
        File::open(&self.folder)?.sync_all()
    }

    fn unsure(&self, error: io::Error) -> NotWritten {
        NotWritten::Unsure(format!(
            "an fsync of {} failed ({error}); look at the disk, then start the program again",
            self.path.display()
        ))
    }
}

/// A moment as it is written in the name of a document that was set aside.
fn aside_time(at: Time) -> String {
    at.to_string().replace(':', "")
}

/// A new file with this content, for its owner alone.
fn fill(path: &Path, bytes: &[u8]) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).truncate(true).write(true).mode(0o600);
    let mut file = options.open(path)?;
    file.set_permissions(fs::Permissions::from_mode(0o600))?;
    file.write_all(bytes)?;
    Ok(file)
}
