//! What batches of records were answered, for whoever asks again because the answer was lost.

use rusqlite::{OptionalExtension, params};
use uuid::Uuid;
use windlass_core::id::JobId;
use windlass_core::record::{BATCH_MEMORY_MS, BatchAnswer, RecordBatch};
use windlass_core::store::Enqueued;

use crate::fail::{Done, Fail};
use crate::rows::head::signed;
use crate::run::tx::Tx;

/// A job in the memory: its id, and whether it was there before.
const JOB_BYTES: usize = 17;

/// What this batch was answered when it was done before.
pub fn recall(tx: &Tx<'_>, batch: &RecordBatch) -> Done<Option<BatchAnswer>> {
    let mut select = tx.sql(sql!("batch", "recall"))?;
    let found: Option<(i64, i64, Option<Vec<u8>>)> = select
        .query_row(params![batch.id.as_bytes()], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?;
    let Some((first, writes, jobs)) = found else { return Ok(None) };
    let revs = (first..first + writes).map(i64::cast_unsigned).collect();
    Ok(Some(batch.answered(revs, unpack(&jobs.unwrap_or_default())?)?))
}

/// Notes what a batch was answered. Its revisions follow each other.
pub fn remember(tx: &Tx<'_>, batch: &RecordBatch, revs: &[u64], jobs: &[Enqueued]) -> Done<()> {
    tx.sql(sql!("batch", "remember"))?.execute(params![
        batch.id.as_bytes(),
        tx.now.ms(),
        signed(revs.first().copied().unwrap_or_default())?,
        revs.len().cast_signed(),
        (!jobs.is_empty()).then(|| pack(jobs)),
    ])?;
    Ok(())
}

/// Forgets batches that are over, `most` at most; answers how many.
pub fn sweep(tx: &mut Tx<'_>, most: usize) -> Done<usize> {
    let oldest = tx.now.plus_ms(-BATCH_MEMORY_MS);
    Ok(tx.sql(sql!("batch", "sweep"))?.execute(params![oldest.ms(), most.cast_signed()])?)
}

fn pack(jobs: &[Enqueued]) -> Vec<u8> {
    let mut out = Vec::with_capacity(jobs.len() * JOB_BYTES);
    for Enqueued { id, deduplicated } in jobs {
        out.extend_from_slice(id.0.as_bytes());
        out.push(u8::from(*deduplicated));
    }
    out
}

fn unpack(packed: &[u8]) -> Done<Vec<Enqueued>> {
    let one = |bytes: &[u8]| {
        let (id, flag) = bytes.split_at_checked(JOB_BYTES - 1)?;
        let id = JobId(Uuid::from_slice(id).ok()?);
        Some(Enqueued { id, deduplicated: flag == [1] })
    };
    let jobs: Option<Vec<Enqueued>> = packed.chunks(JOB_BYTES).map(one).collect();
    jobs.filter(|jobs| jobs.len() * JOB_BYTES == packed.len())
        .ok_or_else(|| Fail::damaged("the answer of a batch that was cut"))
}
