//! Enqueueing inside a transaction of the caller's own.

use rusqlite::{Connection, Transaction};
use windlass_core::error::StoreError;
use windlass_core::job::NewJob;
use windlass_core::store::Enqueued;
use windlass_core::time::Clock;

use crate::disk::machine::MachineClock;
use crate::disk::migrate;
use crate::fail::{Done, Fail};
use crate::rows::head::Head;
use crate::run::tx::{Finished, Memory, Tx};
use crate::verbs::enqueue::enqueue;

/// Accepts jobs, all or none, inside `transaction`: they are there if it
/// commits, and were never there if it does not.
///
/// The transaction must be on the file of a store that was opened before (your
/// own tables live beside its). Begin it with
/// [`TransactionBehavior::Immediate`](rusqlite::TransactionBehavior::Immediate),
/// so that it cannot find out half-way that another is writing. Workers find
/// the jobs when they next ask: within a second.
pub fn enqueue_in(transaction: &Transaction<'_>, jobs: &[NewJob]) -> Result<Vec<Enqueued>, StoreError> {
    within(transaction, &MachineClock::new(), jobs).map_err(Fail::into_store_error)
}

/// In a savepoint: a batch that is refused leaves nothing behind in the caller's transaction.
fn within(conn: &Connection, clock: &dyn Clock, jobs: &[NewJob]) -> Done<Vec<Enqueued>> {
    migrate::require_newest(conn)?;
    conn.execute_batch("SAVEPOINT windlass_enqueue")?;
    let done = accept(conn, clock, jobs);
    let end = if done.is_ok() { "" } else { "ROLLBACK TO windlass_enqueue; " };
    conn.execute_batch(&format!("{end}RELEASE windlass_enqueue"))?;
    done
}

fn accept(conn: &Connection, clock: &dyn Clock, jobs: &[NewJob]) -> Done<Vec<Enqueued>> {
    let head = Head::load(conn, clock)?;
    let now = head.timekeeper.now(clock);
    let mut memory = Memory::default();
    memory.begin();
    let mut tx = Tx::new(conn, head, &mut memory, now);
    let enqueued = enqueue(&mut tx, jobs)?;
    let Finished { mut head, due, .. } = tx.finish()?;
    due.save(conn)?;
    head.save(conn)?;
    Ok(enqueued)
}
