//! Schedules: cron lines that enqueue jobs, each run once over all processes,
//! since a run's job has an id that follows from it.

use rusqlite::{Connection, OptionalExtension, params};
use windlass_core::id::ScheduleName;
use windlass_core::policy::schedule::{Schedule, SchedulePolicy};
use windlass_core::store::{Fired, FiredRun};
use windlass_core::time::Time;

use crate::fail::Done;
use crate::rows::row::{parse, text};
use crate::rows::row_write::to_text;
use crate::run::tx::Tx;
use crate::verbs::enqueue::{Accept, SameId};

/// The schedules, by name.
pub fn list(conn: &Connection) -> Done<Vec<Schedule>> {
    let mut select = conn.prepare_cached(sql!("schedule", "all"))?;
    let mut rows = select.query([])?;
    let mut schedules = Vec::new();
    while let Some(row) = rows.next()? {
        schedules.push(parse(text(row, 0)?)?);
    }
    Ok(schedules)
}

/// Sets a schedule. A new one begins now; one that is there goes on from where it is.
pub fn put(tx: &mut Tx<'_>, name: &ScheduleName, policy: &SchedulePolicy) -> Done<()> {
    let policy = policy.clone().checked()?;
    let mut select = tx.sql(sql!("schedule", "load"))?;
    let body: Option<String> = select.query_row(params![name.as_str()], |row| row.get(0)).optional()?;
    let schedule = match body {
        Some(body) => {
            let mut schedule: Schedule = parse(&body)?;
            schedule.change(policy, tx.now);
            schedule
        }
        None => Schedule::new(name.clone(), policy, tx.now),
    };
    save(tx, &schedule)
}

/// Takes a schedule away. Answers whether it was there.
pub fn delete(tx: &mut Tx<'_>, name: &ScheduleName) -> Done<bool> {
    let deleted = tx.sql(sql!("schedule", "delete"))?.execute(params![name.as_str()])?;
    Ok(deleted > 0)
}

/// Enqueues the jobs of all runs that are due. Schedules that are not due are neither read nor written.
pub fn fire(tx: &mut Tx<'_>) -> Done<Fired> {
    let mut fired = Fired::default();
    let mut accept = Accept::new(tx)?;
    for mut schedule in due(tx)? {
        for run in schedule.due(tx.now) {
            let enqueued = accept.one(tx, &schedule.job_for(run), SameId::IsTheJob)?;
            if !enqueued.deduplicated {
                schedule.last_run = Some(run);
                schedule.last_job = Some(enqueued.id);
            }
            fired.runs.push(FiredRun {
                schedule: schedule.name.clone(),
                run,
                job_id: enqueued.id,
                skipped: enqueued.deduplicated,
            });
        }
        if schedule.is_due(tx.now) {
            schedule.settle(tx.now);
        }
        save(tx, &schedule)?;
    }
    let mut next = tx.sql(sql!("schedule", "next"))?;
    let next_ms: Option<i64> = next.query_row([], |row| row.get(0))?;
    let next_due = next_ms.filter(|ms| *ms != NEVER_MS).map(Time::from_ms);
    fired.next_in_ms = next_due.map(|at| at.ms_since(tx.now));
    Ok(fired)
}

/// Those that may be due, by name.
fn due(tx: &Tx<'_>) -> Done<Vec<Schedule>> {
    let mut select = tx.sql(sql!("schedule", "due"))?;
    let mut rows = select.query(params![tx.now.ms()])?;
    let mut schedules = Vec::new();
    while let Some(row) = rows.next()? {
        schedules.push(parse(text(row, 0)?)?);
    }
    Ok(schedules)
}

/// When a schedule is due that is at rest, or whose line has no run any more.
const NEVER_MS: i64 = i64::MAX;

fn save(tx: &Tx<'_>, schedule: &Schedule) -> Done<()> {
    let mut save = tx.sql(sql!("schedule", "save"))?;
    let next_ms = schedule.next_due().map_or(NEVER_MS, Time::ms);
    save.execute(params![schedule.name.as_str(), to_text(schedule)?, next_ms])?;
    Ok(())
}
