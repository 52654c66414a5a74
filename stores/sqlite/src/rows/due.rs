//! From when on the queued jobs of a queue are due, counted by the
//! millisecond: kept beside the jobs, in the same commit, so that the oldest
//! is found without a look at the others.

use std::collections::{BTreeMap, HashMap};

use rusqlite::{Connection, OptionalExtension, params};
use windlass_core::id::QueueName;
use windlass_core::time::Time;

use crate::fail::Done;

/// What the operations of a group changed, to be written once at its end: a job that is claimed in the
/// commit that brings it leaves nothing to write.
#[derive(Debug, Default)]
pub struct DueChanges {
    queues: HashMap<QueueName, BTreeMap<i64, i64>>,
    /// The newest change, not yet among the others: what follows is often the same.
    newest: Option<(QueueName, i64, i64)>,
}

impl DueChanges {
    /// So many more queued jobs of `queue` are due at `run_at`, or fewer.
    pub fn add(&mut self, queue: &QueueName, run_at: Time, by: i64) {
        if by == 0 {
            return;
        }
        match &mut self.newest {
            Some((name, at, sum)) if name == queue && *at == run_at.ms() => *sum += by,
            _ => {
                self.put_newest_away();
                self.newest = Some((queue.clone(), run_at.ms(), by));
            }
        }
    }

    /// What another operation of the group changed comes to it.
    pub fn merge(&mut self, mut other: Self) {
        other.put_newest_away();
        for (queue, moments) in other.queues {
            for (run_at_ms, by) in moments {
                self.add(&queue, Time::from_ms(run_at_ms), by);
            }
        }
    }

    fn put_newest_away(&mut self) {
        let Some((queue, at, sum)) = self.newest.take() else { return };
        let moments = match self.queues.get_mut(&queue) {
            Some(moments) => moments,
            None => self.queues.entry(queue).or_default(),
        };
        *moments.entry(at).or_default() += sum;
    }

    /// Writes the changes.
    pub fn save(mut self, conn: &Connection) -> Done<()> {
        self.put_newest_away();
        for (queue, moments) in &self.queues {
            for (run_at_ms, by) in moments.iter().filter(|(_, by)| **by != 0) {
                save(conn, queue.as_str(), *run_at_ms, *by)?;
            }
        }
        Ok(())
    }
}

fn save(conn: &Connection, queue: &str, run_at_ms: i64, by: i64) -> Done<()> {
    if by > 0 {
        let mut more = conn.prepare_cached(sql!("due", "more"))?;
        more.execute(params![queue, run_at_ms, by])?;
        return Ok(());
    }
    let mut none = conn.prepare_cached(sql!("due", "none"))?;
    if none.execute(params![queue, run_at_ms, -by])? == 0 {
        let mut fewer = conn.prepare_cached(sql!("due", "fewer"))?;
        fewer.execute(params![queue, run_at_ms, -by])?;
    }
    Ok(())
}

/// Since when the longest waiting of the due jobs of a queue could have run.
pub fn oldest(conn: &Connection, queue: &str, now: Time) -> Done<Option<Time>> {
    let mut select = conn.prepare_cached(sql!("due", "oldest"))?;
    let found: Option<i64> = select.query_row(params![queue, now.ms()], |row| row.get(0)).optional()?;
    Ok(found.map(Time::from_ms))
}

/// Counts anew, when moments of jobs were changed at once.
pub fn recount(conn: &Connection) -> Done<()> {
    for sql in [sql!("due", "clear"), sql!("due", "count")] {
        conn.prepare_cached(sql)?.execute([])?;
    }
    Ok(())
}
