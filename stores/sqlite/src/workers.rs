//! Workers, as they last said of themselves.

use rusqlite::{Connection, OptionalExtension, params};
use windlass_core::id::WorkerName;
use windlass_core::query::{WORKER_FORGET_MS, WorkerStatus};
use windlass_core::store::WorkerBeat;

use crate::fail::Done;
use crate::row::{parse, text};
use crate::row_write::to_text;
use crate::tx::Tx;

/// A worker says that it is alive.
pub fn beat(tx: &mut Tx<'_>, beat: &WorkerBeat) -> Done<()> {
    let WorkerBeat { name, queues, kinds, slots, running, version, host } = beat.clone();
    let mut select = tx.sql(include_str!("../sql/worker_load.sql"))?;
    let body: Option<String> = select.query_row(params![name.as_str()], |row| row.get(0)).optional()?;
    let before: Option<WorkerStatus> = body.as_deref().map(parse).transpose()?;
    let started_at = before.map_or(tx.now, |worker| worker.started_at);
    let seen_at = tx.now;
    let status = WorkerStatus { name, queues, kinds, slots, running, version, host, started_at, seen_at };
    let mut save = tx.sql(include_str!("../sql/worker_save.sql"))?;
    save.execute(params![status.name.as_str(), tx.now.ms(), to_text(&status)?])?;
    Ok(())
}

/// The workers, by name.
pub fn list(conn: &Connection) -> Done<Vec<WorkerStatus>> {
    let mut select = conn.prepare_cached(include_str!("../sql/worker_all.sql"))?;
    let mut rows = select.query([])?;
    let mut workers = Vec::new();
    while let Some(row) = rows.next()? {
        workers.push(parse(text(row, 0)?)?);
    }
    Ok(workers)
}

/// A worker has ended.
pub fn forget(tx: &mut Tx<'_>, name: &WorkerName) -> Done<()> {
    tx.sql(include_str!("../sql/worker_delete.sql"))?.execute(params![name.as_str()])?;
    Ok(())
}

/// Forgets the workers that were silent for too long.
pub fn sweep(tx: &mut Tx<'_>) -> Done<()> {
    let oldest = tx.now.plus_ms(-WORKER_FORGET_MS);
    tx.sql(include_str!("../sql/worker_sweep.sql"))?.execute(params![oldest.ms()])?;
    Ok(())
}
