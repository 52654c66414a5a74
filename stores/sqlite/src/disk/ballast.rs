//! Room kept aside. A full disk would otherwise be a deadlock: finishing and
//! deleting jobs needs room too. So a file of some size lies beside the
//! database, and is given up when the disk is full; from then on jobs can be
//! finished and canceled, and none can be added until the file fits again.
//! Jobs are refused a little before: when no more than as much again is free.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, StatVfsMountFlags, fallocate, statvfs};

/// The file that is given up.
pub struct Ballast {
    path: PathBuf,
    bytes: u64,
    aboard: bool,
}

impl Ballast {
    /// The ballast of a database, taken aboard if there is room.
    pub fn new(database: &Path, bytes: u64) -> Self {
        let mut path = database.as_os_str().to_owned();
        path.push("-ballast");
        let mut ballast = Self { path: path.into(), bytes, aboard: false };
        if !ballast.take() {
            tracing::warn!(bytes, "there is no room to keep aside; jobs cannot be added until there is");
        }
        ballast
    }

    /// Whether the room is kept aside.
    pub fn is_aboard(&self) -> bool {
        self.aboard
    }

    /// Whether jobs may be added: the ballast is aboard, and as much again is free.
    pub fn has_room(&mut self) -> bool {
        self.take() && self.free_bytes() >= self.bytes
    }

    /// How much may still be written to the disk.
    pub fn free_bytes(&self) -> u64 {
        // A file system that does not tell is taken to have room; a write will find out.
        statvfs(Self::folder_of(&self.path)).map_or(u64::MAX, |disk| disk.f_bavail * disk.f_frsize)
    }

    /// Whether jobs could be added to a database now, by a look at its disk alone: what [`Self::has_room`] would find.
    pub fn would_have_room(database: &Path, bytes: u64) -> bool {
        let mut path = database.as_os_str().to_owned();
        path.push("-ballast");
        let ballast = Self { path: path.into(), bytes, aboard: false };
        let needed = if ballast.path.exists() { bytes } else { 2 * bytes };
        ballast.free_bytes() >= needed && !ballast.is_read_only()
    }

    /// The folder that a file is in.
    pub fn folder_of(file: &Path) -> &Path {
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
        folder.unwrap_or(Path::new("."))
    }

    fn is_read_only(&self) -> bool {
        statvfs(Self::folder_of(&self.path)).is_ok_and(|disk| disk.f_flag.contains(StatVfsMountFlags::RDONLY))
    }

    /// Takes the ballast aboard, when there is room; answers whether there was.
    fn take(&mut self) -> bool {
        if self.aboard {
            return true;
        }
        self.aboard = self.bytes == 0 || self.reserve().is_ok();
        if !self.aboard {
            self.remove();
        }
        self.aboard
    }

    /// Gives the room to those who have to finish.
    pub fn release(&mut self) {
        self.aboard = false;
        self.remove();
        tracing::error!(
            "the disk is full: jobs can be finished and canceled, none can be added. Free some space"
        );
    }

    fn reserve(&self) -> std::io::Result<()> {
        let file =
            OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&self.path)?;
        match fallocate(&file, FallocateFlags::empty(), 0, self.bytes) {
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => self.write_out(file),
            reserved => Ok(reserved?),
        }
    }

    /// For file systems that cannot reserve.
    fn write_out(&self, mut file: File) -> std::io::Result<()> {
        let zeros = vec![0; 64 * 1024];
        let mut left = self.bytes;
        while left > 0 {
            let bite = left.min(zeros.len() as u64);
            file.write_all(&zeros[..bite as usize])?;
            left -= bite;
        }
        file.sync_all()
    }

    fn remove(&self) {
        // Not being there is as good, and another process may have been faster.
        let _ = std::fs::remove_file(&self.path);
    }
}
