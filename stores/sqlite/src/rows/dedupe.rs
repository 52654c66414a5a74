//! Dedupe keys, each held by the one job that has it and is not final.

use rusqlite::{OptionalExtension, params};
use uuid::Uuid;
use windlass_core::id::{DedupeKey, JobId};
use windlass_core::job::Job;

use crate::fail::Done;
use crate::rows::head::signed;
use crate::run::tx::Tx;

/// The job that holds a dedupe key.
pub fn holder(tx: &Tx<'_>, key: &DedupeKey) -> Done<Option<JobId>> {
    let mut select = tx.sql(sql!("dedupe", "holder"))?;
    let id: Option<[u8; 16]> = select.query_row(params![key.as_str()], |row| row.get(0)).optional()?;
    Ok(id.map(|id| JobId(Uuid::from_bytes(id))))
}

/// A job takes its dedupe key, if it has one.
pub fn hold(tx: &Tx<'_>, job: &Job) -> Done<()> {
    if let Some(key) = &job.spec.dedupe_key {
        let mut insert = tx.sql(sql!("dedupe", "insert"))?;
        insert.execute(params![key.as_str(), signed(job.seq)?])?;
    }
    Ok(())
}

/// A job that is over gives its dedupe key back, if it has one.
pub fn free(tx: &Tx<'_>, key: Option<&DedupeKey>) -> Done<()> {
    if let Some(key) = key {
        tx.sql(sql!("dedupe", "delete"))?.execute(params![key.as_str()])?;
    }
    Ok(())
}
