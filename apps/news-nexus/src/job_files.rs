//! What a job was asked for and what it gave: files of their own in a folder
//! beside the queue file, so that the queue file stays small.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;
use windlass_engine::core::id::JobId;
use windlass_engine::core::time::Time;

use crate::files::write_whole;

/// The largest file that an answer carries.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// A file may be older than its job, but not by more than this.
const HEAD_START_MS: u64 = 3_600_000;

const PARAMETERS: &str = "parameters";
const RESULT: &str = "result";

/// The folder: `runtime/queue-jobs/` for `runtime/queue-jobs.json`.
#[derive(Debug, Clone)]
pub(crate) struct JobFiles {
    folder: PathBuf,
}

impl JobFiles {
    /// The folder beside a queue file.
    pub(crate) fn beside(queue_file: &Path) -> Self {
        let mut folder = queue_file.with_extension("");
        if folder == queue_file {
            folder.set_extension("d");
        }
        Self { folder }
    }

    /// Makes the folder.
    pub(crate) fn create(&self) -> io::Result<()> {
        std::fs::create_dir_all(&self.folder)
    }

    /// Keeps what a job was asked for.
    pub(crate) fn keep_parameters(&self, id: JobId, parameters: &Value) -> io::Result<()> {
        self.keep(id, PARAMETERS, parameters)
    }

    /// Keeps what a job gave.
    pub(crate) fn keep_result(&self, id: JobId, result: &Value) -> io::Result<()> {
        self.keep(id, RESULT, result)
    }

    /// What a job was asked for, and what it gave, if it has.
    pub(crate) fn read(&self, id: JobId) -> io::Result<(Option<Value>, Option<Value>)> {
        Ok((self.load(id, PARAMETERS)?, self.load(id, RESULT)?))
    }

    /// Takes away what belongs to no job any more.
    pub(crate) fn sweep(&self, kept: &HashSet<JobId>, now: Time) -> io::Result<usize> {
        let mut swept = 0;
        let entries = match std::fs::read_dir(&self.folder) {
            // It is made again when there is something to keep.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name();
            let id = name.to_str().and_then(|name| name.split('.').next()?.parse::<JobId>().ok());
            let written = entry.metadata()?.modified()?.duration_since(std::time::UNIX_EPOCH);
            let written = Time::from_ms(written.map_or(0, |since| since.as_millis() as i64));
            let fresh = now.ms_since(written) < HEAD_START_MS;
            if id.is_some_and(|id| !kept.contains(&id)) && !fresh {
                std::fs::remove_file(entry.path())?;
                swept += 1;
            }
        }
        Ok(swept)
    }

    fn path(&self, id: JobId, what: &str) -> PathBuf {
        self.folder.join(format!("{id}.{what}.json"))
    }

    fn keep(&self, id: JobId, what: &str, value: &Value) -> io::Result<()> {
        let mut bytes = serde_json::to_vec_pretty(value)?;
        bytes.push(b'\n');
        write_whole(&self.path(id, what), &bytes)
    }

    fn load(&self, id: JobId, what: &str) -> io::Result<Option<Value>> {
        use std::io::Read;
        let file = match std::fs::File::open(self.path(id, what)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        let mut bytes = Vec::new();
        file.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
        // What somebody else has written there is no answer of ours.
        Ok(serde_json::from_slice(&bytes).ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::id_of;

    #[test]
    fn files_of_jobs_that_are_gone_are_swept() {
        let folder = tempfile::tempdir().unwrap();
        let files = JobFiles::beside(&folder.path().join("runtime/queue-jobs.json"));
        files.create().unwrap();
        let (kept, gone) = (id_of("0001"), id_of("0002"));
        for id in [kept, gone] {
            files.keep_parameters(id, &serde_json::json!({"n": 1})).unwrap();
            files.keep_result(id, &serde_json::json!({"ok": true})).unwrap();
        }
        let other = folder.path().join("runtime/queue-jobs/notes.txt");
        std::fs::write(&other, "not ours").unwrap();
        let written = std::fs::metadata(&other).unwrap().modified().unwrap();
        let now = written.duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as i64;
        let ids = HashSet::from([kept]);
        assert_eq!(files.sweep(&ids, Time::from_ms(now)).unwrap(), 0, "they may be older than their job");
        assert_eq!(files.sweep(&ids, Time::from_ms(now + 4_000_000)).unwrap(), 2);
        let (parameters, result) = files.read(kept).unwrap();
        assert!(parameters.is_some() && result.is_some() && other.exists());
        assert_eq!(files.read(gone).unwrap(), (None, None));
    }
}
