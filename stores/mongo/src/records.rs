//! Records, in the journal like everything else.

use async_trait::async_trait;
use windlass_core::error::StoreError;
use windlass_core::id::{Label, RecordKey, ShelfName};
use windlass_core::record::{
    BatchAnswer, Record, RecordBatch, RecordPage, Records, Scan, check_read, check_text,
};
use windlass_core::wake::Work;

use crate::journal::op::{Answer, Op};
use crate::journal::record_form::Batch;
use crate::store::MongoStore;
use crate::verbs::answered;

#[async_trait]
impl Records for MongoStore {
    async fn write(&self, batch: RecordBatch) -> Result<BatchAnswer, StoreError> {
        batch.checked()?;
        let work = Work::in_queues(batch.jobs.iter().map(|job| &job.spec.queue));
        let work = (!batch.jobs.is_empty()).then_some(work);
        answered!(self.change(Op::Records(Batch(batch)), work).await?, Answer::Batch)
    }

    async fn read(&self, shelf: ShelfName, keys: Vec<RecordKey>) -> Result<Vec<Option<Record>>, StoreError> {
        check_read(&keys)?;
        self.look(|book, now| keys.iter().map(|key| book.record(&shelf, key, now).cloned()).collect()).await
    }

    async fn scan(&self, scan: Scan) -> Result<RecordPage, StoreError> {
        Ok(self.look(|book, now| book.scan_records(scan, now)).await??)
    }

    async fn count(&self, shelf: ShelfName, prefix: String) -> Result<Vec<(Option<Label>, u64)>, StoreError> {
        check_text("prefix", &prefix)?;
        self.look(|book, now| book.count_records(&shelf, &prefix, now)).await
    }
}
