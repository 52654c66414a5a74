//! Which jobs have ended, by age: one row for those of a queue that a call
//! ended, so that it costs a job next to nothing. A job that was retried or
//! deleted since is still listed; whoever reads the list looks at the job.

use rusqlite::{OptionalExtension, params};
use windlass_core::id::QueueName;
use windlass_core::time::Time;

use crate::fail::Done;
use crate::rows::row::{parse, text};
use crate::rows::row_write::to_text;
use crate::run::tx::Tx;

/// Jobs of a queue that ended at one moment.
pub struct Ended {
    /// When.
    pub at: Time,
    /// Their numbers, in order, each once.
    pub seqs: Vec<i64>,
    positions: Vec<i64>,
}

/// Lists jobs that end now. The position is that of the newest event: no two calls that end jobs have the same.
pub fn add(tx: &Tx<'_>, queue: &QueueName, position: i64, seqs: &[i64]) -> Done<()> {
    let mut insert = tx.sql(sql!("ended", "insert"))?;
    insert.execute(params![queue.as_str(), tx.now.ms(), position, to_text(seqs)?])?;
    Ok(())
}

/// The first queue with ended jobs whose name comes after this one.
pub fn next_queue(tx: &Tx<'_>, after: &str) -> Done<Option<String>> {
    let mut select = tx.sql(sql!("ended", "next_queue"))?;
    Ok(select.query_row(params![after], |row| row.get(0)).optional()?)
}

/// So many jobs of one moment are looked at together, so that the first accepted of them go first.
const TOGETHER: usize = 10_000;

/// The jobs of a queue that ended first: those of one moment, about [`TOGETHER`] of them at most.
pub fn oldest(tx: &Tx<'_>, queue: &str) -> Done<Option<Ended>> {
    let mut select = tx.sql(sql!("ended", "oldest"))?;
    let mut rows = select.query(params![queue])?;
    let mut found: Option<Ended> = None;
    while let Some(row) = rows.next()? {
        let at = Time::from_ms(row.get(0)?);
        let ended = found.get_or_insert_with(|| Ended { at, seqs: Vec::new(), positions: Vec::new() });
        if ended.at != at || ended.seqs.len() >= TOGETHER {
            break;
        }
        ended.positions.push(row.get(1)?);
        ended.seqs.extend(parse::<Vec<i64>>(text(row, 2)?)?);
    }
    if let Some(ended) = &mut found {
        ended.seqs.sort_unstable();
        ended.seqs.dedup();
    }
    Ok(found)
}

/// Takes jobs off the list, but for those that are left.
pub fn take(tx: &Tx<'_>, queue: &str, ended: &Ended, left: &[i64]) -> Done<()> {
    let Ended { at, seqs: _, positions } = ended;
    let mut delete = tx.sql(sql!("ended", "delete"))?;
    for position in positions {
        delete.execute(params![queue, at.ms(), position])?;
    }
    if let (Some(position), false) = (positions.first(), left.is_empty()) {
        let mut insert = tx.sql(sql!("ended", "insert"))?;
        insert.execute(params![queue, at.ms(), position, to_text(left)?])?;
    }
    Ok(())
}
