//! How many jobs are queued, running and final: kept beside the jobs, in the
//! same commit, so that a claim need not count.

use rusqlite::{Connection, OptionalExtension, params};
use windlass_core::id::{BudgetName, QueueName};
use windlass_core::state::StateName;
use windlass_core::wake::Work;

use crate::fail::Done;

const QUEUE: i64 = 0;
const BUDGET: i64 = 1;

/// Numbers of jobs, or changes of such numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Queued jobs.
    pub queued: i64,
    /// Running jobs.
    pub running: i64,
    /// Final jobs.
    pub finished: i64,
}

impl Tally {
    fn add(&mut self, state: StateName, by: i64) {
        match state {
            StateName::Queued => self.queued += by,
            StateName::Running => self.running += by,
            StateName::Completed | StateName::Failed | StateName::Canceled => self.finished += by,
        }
    }
}

/// What one operation changed, to be written once at its end.
#[derive(Debug, Default)]
pub struct Changes {
    queues: Vec<(QueueName, Tally)>,
    budgets: Vec<(BudgetName, i64)>,
}

impl Changes {
    /// A job of `queue` went from one state (nothing: it is new) to another (nothing: it is deleted).
    pub fn moved(
        &mut self,
        queue: &QueueName,
        budgets: &[BudgetName],
        from: Option<StateName>,
        to: Option<StateName>,
    ) {
        let at = match self.queues.iter().position(|(name, _)| name == queue) {
            Some(at) => at,
            None => {
                self.queues.push((queue.clone(), Tally::default()));
                self.queues.len() - 1
            }
        };
        let tally = &mut self.queues[at].1;
        if let Some(from) = from {
            tally.add(from, -1);
        }
        if let Some(to) = to {
            tally.add(to, 1);
        }
        let running = |state| i64::from(state == Some(StateName::Running));
        let by = running(to) - running(from);
        if by != 0 {
            for budget in budgets {
                self.ran(budget, by);
            }
        }
    }

    fn ran(&mut self, budget: &BudgetName, by: i64) {
        match self.budgets.iter_mut().find(|(name, _)| name == budget) {
            Some((_, sum)) => *sum += by,
            None => self.budgets.push((budget.clone(), by)),
        }
    }

    /// Where a worker may find something after these changes: what runs in a queue holds back only its own jobs,
    /// but for budgets, which queues share. Without any change it was a policy that changed.
    pub fn work(&self) -> Work {
        let Self { queues, budgets } = self;
        if queues.is_empty() || !budgets.is_empty() {
            return Work::Anywhere;
        }
        Work::in_queues(queues.iter().map(|(name, _)| name))
    }

    /// Writes the changes.
    pub fn save(&self, conn: &Connection) -> Done<()> {
        let Self { queues, budgets } = self;
        let mut save = conn.prepare_cached(sql!("tally", "save"))?;
        for (name, Tally { queued, running, finished }) in queues {
            if (*queued, *running, *finished) != (0, 0, 0) {
                save.execute(params![QUEUE, name.as_str(), queued, running, finished])?;
            }
        }
        for (name, running) in budgets {
            if *running != 0 {
                save.execute(params![BUDGET, name.as_str(), 0, running, 0])?;
            }
        }
        Ok(())
    }
}

/// The numbers of a queue.
pub fn of_queue(conn: &Connection, queue: &str) -> Done<Tally> {
    load(conn, QUEUE, queue)
}

/// How many running jobs name a budget.
pub fn slots_used(conn: &Connection, budget: &str) -> Done<u32> {
    let running = load(conn, BUDGET, budget)?.running;
    Ok(u32::try_from(running).unwrap_or(u32::MAX))
}

fn load(conn: &Connection, sort: i64, name: &str) -> Done<Tally> {
    let mut select = conn.prepare_cached(sql!("tally", "load"))?;
    let tally = select
        .query_row(params![sort, name], |row| {
            Ok(Tally { queued: row.get(0)?, running: row.get(1)?, finished: row.get(2)? })
        })
        .optional()?;
    Ok(tally.unwrap_or_default())
}

/// The numbers of all queues, by name.
pub fn all_queues(conn: &Connection) -> Done<Vec<(String, Tally)>> {
    let mut select = conn.prepare_cached(sql!("tally", "queues"))?;
    let rows = select.query_map(params![QUEUE], |row| {
        Ok((row.get(0)?, Tally { queued: row.get(1)?, running: row.get(2)?, finished: row.get(3)? }))
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Forgets names that have no jobs any more.
pub fn sweep(conn: &Connection) -> Done<()> {
    conn.prepare_cached(sql!("tally", "sweep"))?.execute([])?;
    Ok(())
}
