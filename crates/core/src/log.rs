//! Output of runs: the last of what a handler or its program said, kept beside its job.
//!
//! It stands as records on a shelf of its own, one for each attempt, of which the newest few are kept: for people who
//! want to know what happened, and for no decision of anybody. It is written under the lease of the attempt, now and
//! then and at its end; what a crash leaves is what was written before.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::error::{Invalid, StoreError};
use crate::id::{JobId, RecordKey, ShelfName};
use crate::json::Json;
use crate::record::{
    BatchAnswer, IfRev, Keep, Put, READ_MAX, RECORD_BYTES_MAX, RecordBatch, RecordWrite, Records, WRITES_MAX,
};
use crate::store::{LeaseRef, Written};
use crate::time::Time;

/// The shelf.
pub const SHELF: &str = "windlass.logs";
/// How much of an attempt's output is kept: its end.
pub const LOG_BYTES_MAX: usize = 64 * 1024;
/// Of how many attempts of a job output is kept: the newest.
pub const LOGS_MAX: u64 = 4;
/// How long output is kept after it was last written.
pub const LOG_KEEP_MS: u64 = 7 * 86_400_000;

/// What an attempt said.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Log {
    /// The fence of the attempt.
    pub fence: u64,
    /// How many bytes went before those that are kept.
    #[serde(default)]
    pub dropped: u64,
    /// The last [`LOG_BYTES_MAX`] bytes, in whole lines where there are any.
    pub text: String,
}

/// Output that is to be kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogWrite {
    /// Asked again with the same id, it is written once.
    pub request_id: Uuid,
    /// Whose attempt it is.
    pub lease: LeaseRef,
    /// How many bytes went before.
    pub dropped: u64,
    /// The rest.
    pub text: String,
}

/// What an attempt said, and when that was last written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogPage {
    /// The output.
    #[serde(flatten)]
    pub log: Log,
    /// When.
    pub written_at: Time,
}

impl Log {
    /// The output of nobody yet.
    pub fn of(fence: u64) -> Self {
        Self { fence, dropped: 0, text: String::new() }
    }

    /// Adds a line. Of what is too much the beginning goes, whole lines of it where that is possible.
    pub fn push(&mut self, line: &str) {
        // No JSON may hold it.
        self.text.extend(line.chars().map(|c| if c == '\0' { '\u{2400}' } else { c }));
        self.text.push('\n');
        let surplus = self.text.len().saturating_sub(LOG_BYTES_MAX);
        if surplus == 0 {
            return;
        }
        let begin = (surplus..=self.text.len()).find(|at| self.text.is_char_boundary(*at)).unwrap_or(surplus);
        let line_end = self.text[begin..].find('\n').map(|end| begin + end + 1);
        let begin = line_end.filter(|end| *end < self.text.len()).unwrap_or(begin);
        self.text.drain(..begin);
        self.dropped += begin as u64;
    }
}

/// Keeps output as a record. Every store that keeps records does it so.
pub async fn put(records: &dyn Records, write: LogWrite) -> Result<Written, StoreError> {
    let LogWrite { request_id, lease, dropped, text } = write;
    let mut log = Log { fence: lease.fence, dropped, text: String::new() };
    match text.len() > LOG_BYTES_MAX {
        // Whoever sends more than is kept has not cut it.
        true => text.lines().for_each(|line| log.push(line)),
        false => log.text = text.replace('\0', "\u{2400}"),
    }
    let value = Json::from_value("the output", &log, RECORD_BYTES_MAX)?;
    let put = Put { value, sort: 0, label: None, keep: Keep::ForMs(LOG_KEEP_MS) };
    let write = RecordWrite {
        shelf: ShelfName::new(SHELF)?,
        key: key(lease.job_id, lease.fence % LOGS_MAX)?,
        if_rev: IfRev::Any,
        put: Some(put),
    };
    let batch = RecordBatch { lease: Some(lease), writes: vec![write], ..RecordBatch::new(request_id) };
    match records.write(batch).await? {
        BatchAnswer::Done { .. } => Ok(Written::Done),
        BatchAnswer::LeaseLost | BatchAnswer::Conflict { .. } => Ok(Written::Lost),
    }
}

/// The output of a job's newest attempts, oldest first.
pub async fn read(records: &dyn Records, job: JobId) -> Result<Vec<LogPage>, StoreError> {
    let keys = (0..LOGS_MAX).map(|place| key(job, place)).collect::<Result<Vec<_>, _>>()?;
    let found = records.read(ShelfName::new(SHELF)?, keys).await?.into_iter().flatten();
    let page = |record: crate::record::Record| {
        Some(LogPage { log: record.value.read().ok()?, written_at: record.written_at })
    };
    let mut pages: Vec<LogPage> = found.filter_map(page).collect();
    pages.sort_by_key(|page| page.log.fence);
    Ok(pages)
}

/// Forgets what the attempts of jobs said that are deleted.
pub async fn forget(records: &dyn Records, jobs: impl Iterator<Item = JobId>) -> Result<(), StoreError> {
    let places = |job| (0..LOGS_MAX).map(move |place| key(job, place));
    let keys = jobs.flat_map(places).collect::<Result<Vec<_>, _>>()?;
    for keys in keys.chunks(READ_MAX.min(WRITES_MAX)) {
        let found = records.read(ShelfName::new(SHELF)?, keys.to_vec()).await?;
        let newest = found.iter().flatten().map(|record| record.rev).max();
        let Some(newest) = newest else { continue };
        let there = keys.iter().zip(&found).filter(|(_, record)| record.is_some());
        let gone = |(key, _): (&RecordKey, _)| {
            Ok(RecordWrite { shelf: ShelfName::new(SHELF)?, key: key.clone(), if_rev: IfRev::Any, put: None })
        };
        let writes = there.map(gone).collect::<Result<Vec<_>, Invalid>>()?;
        // A revision is given once, so that this is the id of this batch alone.
        let digest = Sha256::digest(format!("{SHELF} forgets {newest}"));
        let request_id =
            Uuid::from_slice(&digest[..16]).map_err(|why| StoreError::Broken(why.to_string()))?;
        records.write(RecordBatch { writes, ..RecordBatch::new(request_id) }).await?;
    }
    Ok(())
}

/// Attempts take turns in the places of their job.
fn key(job: JobId, place: u64) -> Result<RecordKey, Invalid> {
    RecordKey::new(format!("{job}/{place}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_kept_in_whole_lines() {
        let mut log = Log::of(1);
        for number in 0..20_000 {
            log.push(&format!("line {number}"));
        }
        assert!(log.text.len() <= LOG_BYTES_MAX && log.text.ends_with("line 19999\n"));
        assert!(log.text.starts_with("line "), "{}", &log.text[..20]);
        let all: usize = (0..20_000).map(|number| format!("line {number}\n").len()).sum();
        assert_eq!(log.dropped as usize + log.text.len(), all);
    }

    #[test]
    fn one_line_that_is_too_long_is_cut_between_letters() {
        let mut log = Log::of(1);
        log.push(&"ü".repeat(LOG_BYTES_MAX));
        assert!(log.text.len() <= LOG_BYTES_MAX && log.text.ends_with("ü\n"));
        log.push("a\0b");
        assert!(log.text.ends_with("a\u{2400}b\n"));
    }
}
