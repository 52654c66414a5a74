//! Budgets: rows of JSON that the core computes with.

use rusqlite::{Connection, OptionalExtension, params};
use windlass_core::book::admin::{budget_status, spend as spend_of};
use windlass_core::id::BudgetName;
use windlass_core::policy::budget::{Budget, BudgetPolicy};
use windlass_core::store::{BudgetStatus, Spent};
use windlass_core::time::Time;

use crate::fail::Done;
use crate::rows::row::{parse, text};
use crate::rows::row_write::to_text;
use crate::rows::tally;
use crate::run::tx::Tx;

/// A budget that was defined.
pub fn load(conn: &Connection, name: &BudgetName) -> Done<Option<Budget>> {
    let mut select = conn.prepare_cached(sql!("budget", "load"))?;
    let body: Option<String> = select.query_row(params![name.as_str()], |row| row.get(0)).optional()?;
    body.as_deref().map(parse).transpose()
}

/// Writes a budget.
pub fn save(conn: &Connection, budget: &Budget) -> Done<()> {
    let mut save = conn.prepare_cached(sql!("budget", "save"))?;
    save.execute(params![budget.name.as_str(), to_text(budget)?])?;
    Ok(())
}

fn all(conn: &Connection) -> Done<Vec<Budget>> {
    let mut select = conn.prepare_cached(sql!("budget", "all"))?;
    let mut rows = select.query([])?;
    let mut budgets = Vec::new();
    while let Some(row) = rows.next()? {
        budgets.push(parse(text(row, 0)?)?);
    }
    Ok(budgets)
}

/// The budgets as they stand, by name.
pub fn list(conn: &Connection, now: Time) -> Done<Vec<BudgetStatus>> {
    let status = |budget: Budget| {
        let slots_used = tally::slots_used(conn, budget.name.as_str())?;
        Ok(budget_status(budget, slots_used, now))
    };
    all(conn)?.into_iter().map(status).collect()
}

/// Sets what a budget allows.
pub fn put(tx: &mut Tx<'_>, name: &BudgetName, policy: BudgetPolicy) -> Done<()> {
    let mut budget = load_or_new(tx, name)?;
    budget.set_policy(policy);
    tx.wake = true;
    save(tx.conn, &budget)
}

/// Takes a budget away; answers whether it was there.
pub fn delete(tx: &mut Tx<'_>, name: &BudgetName) -> Done<bool> {
    let deleted = tx.sql(sql!("budget", "delete"))?.execute(params![name.as_str()])? > 0;
    tx.wake |= deleted;
    Ok(deleted)
}

/// Lets a budget cool down.
pub fn cool_down(tx: &mut Tx<'_>, name: &BudgetName, for_ms: u64) -> Done<()> {
    let mut budget = load_or_new(tx, name)?;
    budget.cool_down_for(for_ms, tx.now);
    tx.wake |= for_ms == 0;
    save(tx.conn, &budget)
}

fn load_or_new(tx: &Tx<'_>, name: &BudgetName) -> Done<Budget> {
    Ok(load(tx.conn, name)?.unwrap_or_else(|| Budget::new(name.clone(), BudgetPolicy::default())))
}

/// Spends of a budget, if it allows that now.
pub fn spend(tx: &mut Tx<'_>, name: &BudgetName, amount: u32) -> Done<Spent> {
    let Some(mut budget) = load(tx.conn, name)? else { return Ok(Spent::Granted) };
    let spent = spend_of(&mut budget, amount, tx.now);
    if spent == Spent::Granted {
        save(tx.conn, &budget)?;
    }
    Ok(spent)
}

/// Takes what short windows allow for spent, of all budgets: an epoch begins.
pub fn fill(conn: &Connection, lossy: bool, now: Time) -> Done<()> {
    for mut budget in all(conn)? {
        budget.fill(lossy, now);
        save(conn, &budget)?;
    }
    Ok(())
}

/// Follows a step of the store's clock.
pub fn shift_all(tx: &mut Tx<'_>, ms: i64) -> Done<()> {
    for mut budget in all(tx.conn)? {
        budget.shift(ms);
        save(tx.conn, &budget)?;
    }
    Ok(())
}
