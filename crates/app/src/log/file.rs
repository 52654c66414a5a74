//! A log file and its elder brothers.
//!
//! An app and the processes of its jobs may write to the same file, so each
//! line is written under a lock, and whoever finds the file full moves it on.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::PathBuf;

use rustix::fs::{FlockOperation, flock};

use super::out::Out;

/// `NAME.log`, then `NAME1.log`, `NAME2.log` and so on, the newest first.
#[derive(Debug, Clone)]
pub struct LogFile {
    folder: PathBuf,
    name: String,
    limits: FileLimits,
}

/// How much is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileLimits {
    /// Of one file.
    pub bytes_max: u64,
    /// Files in all.
    pub files_max: u32,
}

impl Out for LogFile {
    /// Writes a line. One that cannot be written is shown on stderr instead.
    fn write(&self, line: &str) {
        if let Err(error) = self.try_write(line) {
            eprint!("the log file cannot be written ({error}): {line}");
        }
    }
}

impl LogFile {
    /// A file in a folder, which is made when the first line comes. The name is without `.log`.
    pub fn new(folder: impl Into<PathBuf>, name: impl Into<String>, limits: FileLimits) -> Self {
        Self { folder: folder.into(), name: name.into(), limits }
    }

    fn try_write(&self, line: &str) -> io::Result<()> {
        loop {
            let mut file = self.open()?;
            flock(&file, FlockOperation::LockExclusive)?;
            let (held, there) = (file.metadata()?, fs::metadata(self.path(0)));
            // Somebody moved it on while we waited: this is not the newest any more.
            if !there.is_ok_and(|there| there.ino() == held.ino()) {
                continue;
            }
            if held.len() > 0 && held.len() + line.len() as u64 > self.limits.bytes_max {
                self.move_on()?;
                continue;
            }
            return file.write_all(line.as_bytes());
        }
    }

    fn open(&self) -> io::Result<File> {
        let open = || OpenOptions::new().create(true).append(true).mode(0o640).open(self.path(0));
        match open() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fs::create_dir_all(&self.folder)?;
                open()
            }
            opened => opened,
        }
    }

    fn path(&self, number: u32) -> PathBuf {
        let number = if number == 0 { String::new() } else { number.to_string() };
        self.folder.join(format!("{}{number}.log", self.name))
    }

    /// Every file gets the next number; the last one goes.
    fn move_on(&self) -> io::Result<()> {
        if self.limits.files_max == 1 {
            return fs::remove_file(self.path(0));
        }
        for number in (0..self.limits.files_max - 1).rev() {
            match fs::rename(self.path(number), self.path(number + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(folder: &std::path::Path, files_max: u32) -> LogFile {
        LogFile::new(folder.join("logs"), "App", FileLimits { bytes_max: 100, files_max })
    }

    fn names(folder: &std::path::Path) -> Vec<String> {
        let entries = fs::read_dir(folder.join("logs")).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn full_files_move_on() {
        let folder = tempfile::tempdir().unwrap();
        let log = log(folder.path(), 3);
        for number in 0..20 {
            log.write(&format!("{number:039}\n"));
        }
        assert_eq!(names(folder.path()), ["App.log", "App1.log", "App2.log"]);
        let newest = fs::read_to_string(folder.path().join("logs/App.log")).unwrap();
        assert!(newest.ends_with("19\n") && newest.len() <= 100, "{newest}");
        let oldest = fs::read_to_string(folder.path().join("logs/App2.log")).unwrap();
        assert!(oldest.ends_with("15\n"), "{oldest}");
    }

    #[test]
    fn several_writers_lose_no_line() {
        let folder = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let log = log(folder.path(), 1_000);
                scope.spawn(move || {
                    for number in 0..50 {
                        log.write(&format!("{writer} {number:02} ........................\n"));
                    }
                });
            }
        });
        let mut lines: Vec<String> = Vec::new();
        for name in names(folder.path()) {
            let text = fs::read_to_string(folder.path().join("logs").join(name)).unwrap();
            lines.extend(text.lines().map(str::to_owned));
        }
        lines.sort();
        lines.dedup();
        assert_eq!(lines.len(), 200);
    }

    #[test]
    fn one_file_begins_again() {
        let folder = tempfile::tempdir().unwrap();
        let log = log(folder.path(), 1);
        for number in 0..9 {
            log.write(&format!("{number:039}\n"));
        }
        assert_eq!(names(folder.path()), ["App.log"]);
    }
}
