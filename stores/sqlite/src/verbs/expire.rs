//! Leases that have run out; and the moment at which the store follows a jump
//! of the wall clock.

use rusqlite::params;
use windlass_core::lease::{Lease, WAIT_MS};
use windlass_core::store::{EXPIRE_MAX, Expired};
use windlass_core::time::{Clock, Time};
use windlass_core::transition::{self, Expiry};

use crate::fail::Done;
use crate::rows::head::signed;
use crate::rows::row::{Stored, select_jobs};
use crate::rows::{due, epoch};
use crate::run::tx::Tx;
use crate::verbs::budgets;
use crate::verbs::settle::end_attempt;

/// Marks leases that are near their end and takes back those that have run out, in the order in which they
/// were to be looked at.
pub fn expire(tx: &mut Tx<'_>, clock: &dyn Clock) -> Done<Expired> {
    follow_wall_clock(tx, clock)?;
    let mut expired = Expired::default();
    for mut stored in to_look_at(tx)? {
        let queue = tx.queue(stored.job.spec.queue.as_str())?;
        match transition::expire(&mut stored.job, &queue.queue.policy, tx.now) {
            Some(Expiry::Taken(moved)) => {
                expired.jobs.push(stored.job.id);
                end_attempt(tx, &stored, moved)?;
            }
            Some(Expiry::Marked) => {
                expired.marked += 1;
                let mut mark = tx.sql(sql!("lease", "mark"))?;
                mark.execute(params![signed(stored.job.seq)?, tx.now.ms()])?;
            }
            None => {}
        }
    }
    expired.next_in_ms = next_look(tx)?.map(|at| at.ms_since(tx.now));
    Ok(expired)
}

fn to_look_at(tx: &Tx<'_>) -> Done<Vec<Stored>> {
    let mut select = tx.sql(select_jobs!("../../sql/jobs/look_due.sql"))?;
    let mut rows = select.query(params![tx.now.ms(), EXPIRE_MAX, WAIT_MS.start(), WAIT_MS.end()])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(Stored::read(row)?);
    }
    found.sort_by_key(|stored| (stored.job.lease().map(Lease::look_at), stored.job.seq));
    Ok(found)
}

fn next_look(tx: &Tx<'_>) -> Done<Option<Time>> {
    let mut select = tx.sql(sql!("lease", "look_next"))?;
    let next: Option<i64> = select.query_row(params![WAIT_MS.start(), WAIT_MS.end()], |row| row.get(0))?;
    Ok(next.map(Time::from_ms))
}

/// When the wall clock has jumped, the store's time steps after it, and leases
/// and budgets move along: no lease ends early, and none lives longer.
fn follow_wall_clock(tx: &mut Tx<'_>, clock: &dyn Clock) -> Done<()> {
    let Some(ms) = tx.head.timekeeper.drift_ms(clock) else { return Ok(()) };
    tracing::warn!(by_ms = ms, "the wall clock has jumped; the store follows, with its leases and budgets");
    let before = tx.now;
    tx.head.timekeeper = tx.head.timekeeper.stepped(ms);
    tx.now = tx.head.timekeeper.now(clock);
    tx.head.seen = tx.now;
    tx.sql(sql!("lease", "shift"))?.execute(params![ms, Time::MIN.ms(), Time::MAX.ms()])?;
    budgets::shift_all(tx, ms)?;
    epoch::shift(tx, ms)?;
    // What was due stays due.
    let shifted = tx.sql(sql!("due", "shift"))?.execute(params![tx.now.ms(), before.ms()])?;
    tx.sql(sql!("delayed", "shift"))?.execute(params![tx.now.ms(), before.ms()])?;
    tx.sql(sql!("record", "shift"))?.execute(params![tx.now.ms(), before.ms()])?;
    if shifted > 0 {
        due::recount(tx.conn)?;
        tx.due_counted = true;
    }
    tx.wake = true;
    tx.stepped = true;
    Ok(())
}
