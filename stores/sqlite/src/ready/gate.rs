//! Gates: all ready jobs of one queue, kind and set of budgets are held back by
//! the same things, so a claim looks at the first of each.
//!
//! A gate is a row, found by what it stands for. It is awake while jobs of it may
//! be ready: whoever makes one ready wakes it, and a claim that has met many empty
//! ones puts them to sleep. So a claim steps over no gate but those of the queues
//! and kinds that it names, and over few of them in vain.

use rusqlite::{Connection, OptionalExtension, Row, params};
use windlass_core::id::BudgetName;
use windlass_core::job::JobSpec;
use windlass_core::store::ClaimRequest;

use crate::fail::Done;
use crate::rows::head::signed;
use crate::rows::row::{parse, text};
use crate::rows::row_write::opt_budgets;
use crate::run::many::numbers;
use crate::run::tx::Tx;

/// So many empty gates a claim may meet and leave as they are: what runs empty is often filled again at once.
const EMPTY_MAX: usize = 64;

/// The number of a job's gate, which is made if it is new.
/// Which epoch does not hold back its jobs is part of what it stands for: 0 for any other gate.
pub fn of(tx: &Tx<'_>, spec: &JobSpec, epoch: u64) -> Done<i64> {
    let budgets = opt_budgets(&spec.budgets)?.unwrap_or_default();
    let (queue, kind) = (spec.queue.as_str(), spec.kind.as_str());
    let mut find = tx.sql(sql!("gate", "find"))?;
    if let Some(number) =
        find.query_row(params![queue, kind, budgets, signed(epoch)?], |row| row.get(0)).optional()?
    {
        return Ok(number);
    }
    tx.sql(sql!("gate", "insert"))?.execute(params![queue, kind, budgets, signed(epoch)?])?;
    Ok(tx.conn.last_insert_rowid())
}

/// A job of a gate becomes ready.
pub fn wake(tx: &Tx<'_>, gate: i64) -> Done<()> {
    tx.sql(sql!("gate", "wake"))?.execute(params![gate])?;
    Ok(())
}

/// These were found to have no ready job. When they are many, they sleep until they have one.
pub fn sleep(tx: &Tx<'_>, empty: Vec<i64>) -> Done<()> {
    if empty.len() > EMPTY_MAX {
        tx.sql(sql!("gate", "sleep"))?.execute(params![numbers(empty)])?;
    }
    Ok(())
}

/// A gate that may have ready jobs.
#[derive(Debug)]
pub struct Awake {
    /// Its number.
    pub number: i64,
    /// The budgets that its jobs name.
    pub budgets: Vec<BudgetName>,
    /// The epoch that does not hold back its jobs, if there is one.
    pub epoch: u64,
}

impl Awake {
    fn read(row: &Row<'_>) -> Done<Self> {
        let budgets = text(row, 1)?;
        Ok(Self {
            number: row.get(0)?,
            budgets: if budgets.is_empty() { Vec::new() } else { parse(budgets)? },
            epoch: row.get::<_, i64>(2)?.cast_unsigned(),
        })
    }
}

/// The gates of a queue that may have ready jobs of the kinds that a claim asks for.
pub fn awake(conn: &Connection, queue: &str, request: &ClaimRequest) -> Done<Vec<Awake>> {
    let Some(kinds) = &request.kinds else { return all_awake(conn, queue) };
    let mut select = conn.prepare_cached(sql!("gate", "awake_of_kind"))?;
    let mut found = Vec::new();
    for (at, kind) in kinds.iter().enumerate() {
        if kinds[..at].contains(kind) {
            continue;
        }
        let mut rows = select.query(params![queue, kind.as_str()])?;
        while let Some(row) = rows.next()? {
            found.push(Awake::read(row)?);
        }
    }
    Ok(found)
}

/// The gates of a queue that may have ready jobs.
pub fn all_awake(conn: &Connection, queue: &str) -> Done<Vec<Awake>> {
    let mut select = conn.prepare_cached(sql!("gate", "awake"))?;
    let mut rows = select.query(params![queue])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(Awake::read(row)?);
    }
    Ok(found)
}

/// How many gates of a queue may have ready jobs, counted up to two.
pub fn count_awake(conn: &Connection, queue: &str) -> Done<u32> {
    let mut select = conn.prepare_cached(sql!("gate", "awake_count"))?;
    Ok(select.query_row(params![queue], |row| row.get(0))?)
}

/// Forgets some gates of queues that have no jobs any more, final ones neither; answers how many.
pub fn sweep(tx: &mut Tx<'_>, most: usize) -> Done<usize> {
    Ok(tx.sql(sql!("gate", "sweep"))?.execute(params![most.cast_signed()])?)
}
