//! Objects in a folder of this machine.
//!
//! Folders are walked one by one without following links, so nothing that
//! somebody put there leads out. An object is written beside the others under
//! another name, made durable, and then linked to its own: a link, unlike a
//! rename, fails when the name is taken.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, fsync, linkat, mkdirat, openat, statat};
use rustix::io::Errno;

use super::spool::spool;
use super::{AUDIO, Object, ObjectKey, ObjectsError, Put, PutSource};
use crate::pieces::pieces;

/// Where objects are while they are written. No key begins with a dot.
const PARTS: &str = ".parts";
/// What is older than this was left by a process that died.
const PART_AGE_MAX: Duration = Duration::from_secs(86_400);

/// A folder of objects.
#[derive(Debug, Clone)]
pub(super) struct Folder {
    root: PathBuf,
}

impl Folder {
    pub(super) fn open(root: PathBuf) -> Result<Self, ObjectsError> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(root.join(PARTS))?;
        let folder = Self { root };
        folder.sweep()?;
        Ok(folder)
    }

    pub(super) async fn put_new<E: Into<PutSource>>(
        &self,
        key: &ObjectKey,
        bytes_max: u64,
        stream: impl Stream<Item = Result<Bytes, E>> + Send,
    ) -> Result<Put, ObjectsError> {
        let (part, file) = self.part()?;
        let mut file = tokio::fs::File::from_std(file);
        let content = spool(&mut file, bytes_max, stream).await?;
        file.sync_all().await?;
        let (root, name) = (self.root.clone(), key.clone());
        let created = blocking(move || link(&part.0, &root, &name)).await?;
        if created {
            return Ok(Put::Created(content));
        }
        let found_bytes = self.head(key).await?.ok_or(ObjectsError::Upstream)?;
        Ok(Put::AlreadyThere { offered: content, found_bytes })
    }

    pub(super) async fn head(&self, key: &ObjectKey) -> Result<Option<u64>, ObjectsError> {
        let (root, key) = (self.root.clone(), key.clone());
        let found = blocking(move || {
            let (folders, name) = key.split();
            let parent = walk(&root, folders, false)?;
            Ok(statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW)?)
        });
        match found.await {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile => {
                Ok(Some(stat.st_size as u64))
            }
            Ok(_) => Err(ObjectsError::Disk(io::ErrorKind::InvalidInput)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) async fn get(&self, key: &ObjectKey) -> Result<Option<Object>, ObjectsError> {
        let (root, key) = (self.root.clone(), key.clone());
        let found = blocking(move || {
            let (folders, name) = key.split();
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let file = File::from(openat(&walk(&root, folders, false)?, name, flags, Mode::empty())?);
            let bytes = file.metadata()?.len();
            Ok((file, bytes))
        });
        match found.await {
            Ok((file, bytes)) => Ok(Some(Object { bytes, stream: pieces(tokio::fs::File::from_std(file)) })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// A folder has no prefix: what a bucket's name has before its plain parts is passed over.
    pub(super) async fn get_whole(&self, name: &str) -> Result<Option<Object>, ObjectsError> {
        let whole = ObjectKey::whole(name)?;
        let parts = whole.parts();
        let after_dot = parts.iter().rposition(|part| part.starts_with('.')).map_or(0, |at| at + 1);
        let audio = parts.iter().position(|part| part == AUDIO).unwrap_or(after_dot);
        for from in [after_dot, audio.max(after_dot)] {
            if from < parts.len()
                && let Some(object) = self.get(&whole.without(from)).await?
            {
                return Ok(Some(object));
            }
        }
        Ok(None)
    }

    /// A file to write to, under a name that nobody else uses.
    fn part(&self) -> io::Result<(Part, File)> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        loop {
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let path = self.root.join(PARTS).join(format!("{}-{count}", std::process::id()));
            match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
                Ok(file) => return Ok((Part(path), file)),
                // A process with this number was here before.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Takes away what processes left that died while they wrote. What time
    /// it is, is asked of the file system itself, by a file made now.
    fn sweep(&self) -> io::Result<()> {
        let (_part, file) = self.part()?;
        let now = file.metadata()?.modified()?;
        for entry in fs::read_dir(self.root.join(PARTS))? {
            let entry = entry?;
            let Ok(written) = entry.metadata().and_then(|data| data.modified()) else { continue };
            if now.duration_since(written).is_ok_and(|age| age > PART_AGE_MAX) {
                let _ = fs::remove_file(entry.path());
            }
        }
        Ok(())
    }
}

/// A file that is taken away when it is not needed any more, however that comes about.
struct Part(PathBuf);

impl Drop for Part {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Gives a written file its name; `false` when the name is taken.
fn link(part: &Path, root: &Path, key: &ObjectKey) -> io::Result<bool> {
    let (folders, name) = key.split();
    let parent = walk(root, folders, true)?;
    match linkat(rustix::fs::CWD, part, &parent, name, AtFlags::empty()) {
        Ok(()) => {}
        Err(Errno::EXIST) => return Ok(false),
        Err(error) => return Err(error.into()),
    }
    fsync(&parent)?;
    Ok(true)
}

/// Opens a folder below the root, part by part, and makes what is missing.
fn walk(root: &Path, folders: &[String], create: bool) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut at = rustix::fs::open(root, flags, Mode::empty())?;
    for folder in folders {
        if create {
            match mkdirat(&at, folder.as_str(), Mode::from_raw_mode(0o700)) {
                Ok(()) => fsync(&at)?,
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        at = openat(&at, folder.as_str(), flags | OFlags::NOFOLLOW, Mode::empty())?;
    }
    Ok(at)
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}
