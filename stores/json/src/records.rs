//! Records in the document.

use async_trait::async_trait;
use windlass_core::book::Book;
use windlass_core::error::StoreError;
use windlass_core::id::{Label, RecordKey, ShelfName};
use windlass_core::record::{
    BatchAnswer, Record, RecordBatch, RecordPage, Records, Scan, check_read, check_text,
};
use windlass_core::time::Time;
use windlass_core::wake::Work;

use crate::desk::Change;
use crate::store::JsonStore;
use crate::verbs::refuse_overflow;

/// Bytes of all values. Every change writes all of them.
const RECORDS_BYTES_MAX: usize = 64 * 1024 * 1024;

#[async_trait]
impl Records for JsonStore {
    async fn write(&self, batch: RecordBatch) -> Result<BatchAnswer, StoreError> {
        batch.checked()?;
        let work = Work::in_queues(batch.jobs.iter().map(|job| &job.spec.queue));
        let change = |book: &mut Book, now| {
            refuse_overflow(book, &batch.jobs, self.jobs_max(), now)?;
            refuse_more_records(book, &batch, self.records_max(), now)?;
            let answer = book.write_records(&batch, now)?;
            let changed = matches!(answer, BatchAnswer::Done { .. });
            Ok(Change { answer, changed })
        };
        if batch.jobs.is_empty() { self.write(change).await } else { self.write_and_wake(work, change).await }
    }

    async fn read(&self, shelf: ShelfName, keys: Vec<RecordKey>) -> Result<Vec<Option<Record>>, StoreError> {
        check_read(&keys)?;
        self.read(|book, now| keys.iter().map(|key| book.record(&shelf, key, now).cloned()).collect())
    }

    async fn scan(&self, scan: Scan) -> Result<RecordPage, StoreError> {
        Ok(self.read(|book, now| book.scan_records(scan, now))??)
    }

    async fn count(&self, shelf: ShelfName, prefix: String) -> Result<Vec<(Option<Label>, u64)>, StoreError> {
        check_text("prefix", &prefix)?;
        self.read(|book, now| book.count_records(&shelf, &prefix, now))
    }
}

/// Refuses a batch that makes the records too many, or too large. What makes them fewer is always taken.
fn refuse_more_records(
    book: &Book,
    batch: &RecordBatch,
    records_max: usize,
    now: Time,
) -> Result<(), StoreError> {
    let before = book.records_size();
    let (mut count, mut bytes) = before;
    for write in &batch.writes {
        if let Some(there) = book.record(&write.shelf, &write.key, now) {
            (count, bytes) = (count - 1, bytes - there.value.as_str().len());
        }
        if let Some(put) = &write.put {
            (count, bytes) = (count + 1, bytes + put.value.as_str().len());
        }
    }
    let too_many = count > records_max && count > before.0;
    let too_large = bytes > RECORDS_BYTES_MAX && bytes > before.1;
    if too_many || too_large {
        return Err(StoreError::Full(format!(
            "it keeps {} records of {} bytes and may keep {records_max} of {RECORDS_BYTES_MAX} bytes; delete \
             some, or move to the SQLite store",
            before.0, before.1
        )));
    }
    Ok(())
}
