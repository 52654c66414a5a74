//! Workers, as they last said of themselves.

use rusqlite::{Connection, OptionalExtension, params};
use windlass_core::id::WorkerName;
use windlass_core::query::{WORKER_FORGET_MS, WorkerStatus};
use windlass_core::store::WorkerBeat;

use crate::fail::Done;
use crate::rows::row::{parse, text};
use crate::rows::row_write::to_text;
use crate::run::tx::Tx;

/// A worker says that it is alive.
pub fn beat(tx: &mut Tx<'_>, beat: &WorkerBeat) -> Done<()> {
    let WorkerBeat { name, queues, kinds, slots, running, version, host } = beat.clone();
    let mut select = tx.sql(sql!("worker", "load"))?;
    let body: Option<String> = select.query_row(params![name.as_str()], |row| row.get(0)).optional()?;
    let before: Option<WorkerStatus> = body.as_deref().map(parse).transpose()?;
    let started_at = before.map_or(tx.now, |worker| worker.started_at);
    let seen_at = tx.now;
    let status = WorkerStatus { name, queues, kinds, slots, running, version, host, started_at, seen_at };
    let mut save = tx.sql(sql!("worker", "save"))?;
    save.execute(params![status.name.as_str(), tx.now.ms(), to_text(&status)?])?;
    Ok(())
}

/// The workers, by name.
pub fn list(conn: &Connection) -> Done<Vec<WorkerStatus>> {
    let mut select = conn.prepare_cached(sql!("worker", "all"))?;
    let mut rows = select.query([])?;
    let mut workers = Vec::new();
    while let Some(row) = rows.next()? {
        workers.push(parse(text(row, 0)?)?);
    }
    Ok(workers)
}

/// A worker has ended.
pub fn forget(tx: &mut Tx<'_>, name: &WorkerName) -> Done<()> {
    tx.sql(sql!("worker", "delete"))?.execute(params![name.as_str()])?;
    Ok(())
}

/// Forgets the workers that were silent for too long.
pub fn sweep(tx: &mut Tx<'_>) -> Done<()> {
    let oldest = tx.now.plus_ms(-WORKER_FORGET_MS);
    tx.sql(sql!("worker", "sweep"))?.execute(params![oldest.ms()])?;
    Ok(())
}
