//! Budgets: what is spent of them is decided by `core`, on locked rows.

use serde::Deserialize;
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};
use windlass_core::book::admin::{budget_status, spend};
use windlass_core::id::BudgetName;
use windlass_core::policy::budget::{Budget, BudgetPolicy, Window};
use windlass_core::store::{BudgetStatus, Spent};
use windlass_core::time::Time;
use windlass_core::wake::Work;

use crate::error::Fault;
use crate::find::now;
use crate::link::{Link, Param};
use crate::store::PostgresStore;

/// What [`save`] asks, and what it is given.
pub(crate) const SAVE: &str = sql!("budget", "save");
pub(crate) const SAVE_TYPES: [Type; 4] =
    [Type::TEXT_ARRAY, Type::TEXT_ARRAY, Type::TEXT_ARRAY, Type::TEXT_ARRAY];

impl PostgresStore {
    pub(crate) async fn budgets_once(&self) -> Result<Vec<BudgetStatus>, Fault> {
        let link = self.link().await?;
        let now = now(&link, self.given_now()).await?;
        let all: Option<Vec<&str>> = None;
        let rows = link.rows(sql!("budget", "all"), &[(&all, Type::TEXT_ARRAY)]).await?;
        let status =
            |row| read_budget(row).map(|(budget, slots_used)| budget_status(budget, slots_used, now));
        rows.iter().map(status).collect()
    }

    pub(crate) async fn put_budget_once(&self, name: &BudgetName, policy: BudgetPolicy) -> Result<(), Fault> {
        let BudgetPolicy { slots, per_second, per_minute, per_day } = policy;
        let params: [crate::link::Param<'_>; 5] = [
            (&name.as_str(), Type::TEXT),
            (&slots.map(i64::from), Type::INT8),
            (&per_second.map(i64::from), Type::INT8),
            (&per_minute.map(i64::from), Type::INT8),
            (&per_day.map(i64::from), Type::INT8),
        ];
        self.link().await?.rows(sql!("budget", "put"), &params).await?;
        self.wake.work(Work::Anywhere);
        Ok(())
    }

    pub(crate) async fn delete_budget_once(&self, name: &BudgetName) -> Result<bool, Fault> {
        let params: [crate::link::Param<'_>; 1] = [(&name.as_str(), Type::TEXT)];
        let gone = self.link().await?.rows(sql!("budget", "delete"), &params).await?;
        if !gone.is_empty() {
            self.wake.work(Work::Anywhere);
        }
        Ok(!gone.is_empty())
    }

    pub(crate) async fn cool_down_once(&self, name: &BudgetName, for_ms: u64) -> Result<(), Fault> {
        let for_ms = i64::try_from(for_ms).unwrap_or(i64::MAX).min(Time::MAX.ms());
        let params: [crate::link::Param<'_>; 3] =
            [(&self.given_now(), Type::INT8), (&name.as_str(), Type::TEXT), (&for_ms, Type::INT8)];
        self.reserved_link().await?.rows(sql!("budget", "cool_down"), &params).await?;
        if for_ms == 0 {
            self.wake.work(Work::Anywhere);
        }
        Ok(())
    }

    pub(crate) async fn spend_once(&self, name: &BudgetName, amount: u32) -> Result<Spent, Fault> {
        let link = self.reserved_link().await?;
        link.begin().await?;
        // An epoch that begins with this call fills the window: before it is read, and in the order of all other calls.
        now(&link, self.given_now()).await?;
        let locked = link.rows(sql!("budget", "lock"), &[(&name.as_str(), Type::TEXT)]).await?;
        let Some(row) = locked.first() else {
            link.commit().await?;
            return Ok(Spent::Granted);
        };
        let (mut budget, _) = read_budget(row)?;
        // The time is read under the lock, so that it does not run behind what was spent.
        let now = now(&link, self.given_now()).await?;
        let answer = spend(&mut budget, amount, now);
        if answer == Spent::Granted {
            save(&link, &[budget]).await?;
        }
        link.commit().await?;
        Ok(answer)
    }
}

/// A row of the store: name, slots, bounds per second, minute and day, until when it cools down, what was spent in each
/// of these windows, and how many running jobs name it.
#[derive(Deserialize)]
pub(crate) struct BudgetRow(
    String,
    Option<u32>,
    Option<u32>,
    Option<u32>,
    Option<u32>,
    Option<i64>,
    Window,
    Window,
    Window,
    u32,
);

impl BudgetRow {
    /// The budget, and how many running jobs name it.
    pub(crate) fn read(self) -> Result<(Budget, u32), Fault> {
        let Self(name, slots, per_second, per_minute, per_day, cooling_ms, second, minute, day, slots_used) =
            self;
        let name = BudgetName::new(name).map_err(|why| Fault::unreadable("a budget", why))?;
        let policy = BudgetPolicy { slots, per_second, per_minute, per_day };
        let cooling_until = cooling_ms.map(Time::from_ms);
        Ok((Budget { name, policy, cooling_until, second, minute, day }, slots_used))
    }
}

/// Reads a budget and how many running jobs name it.
pub(crate) fn read_budget(row: &Row) -> Result<(Budget, u32), Fault> {
    let bound = |at: usize| Ok::<_, Fault>(row.try_get::<_, Option<i64>>(at)?.map(|n| n as u32));
    let window =
        |at: usize| serde_json::from_str(row.try_get(at)?).map_err(|why| Fault::unreadable("a budget", why));
    BudgetRow(
        row.try_get(0)?,
        bound(1)?,
        bound(2)?,
        bound(3)?,
        bound(4)?,
        row.try_get(5)?,
        window(6)?,
        window(7)?,
        window(8)?,
        row.try_get::<_, i64>(9)? as u32,
    )
    .read()
}

/// Writes what was spent of budgets whose rows are locked.
pub(crate) async fn save(link: &Link, spent: &[Budget]) -> Result<(), Fault> {
    let bounded = |budget: &&Budget| {
        let BudgetPolicy { slots: _, per_second, per_minute, per_day } = budget.policy;
        [per_second, per_minute, per_day].iter().any(Option::is_some)
    };
    let spent: Vec<&Budget> = spent.iter().filter(bounded).collect();
    if spent.is_empty() {
        return Ok(());
    }
    let windows = |of: fn(&Budget) -> &Window| {
        let text = |budget: &&Budget| serde_json::to_string(of(budget));
        spent
            .iter()
            .map(text)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|why| Fault::unreadable("a budget", why))
    };
    let names: Vec<&str> = spent.iter().map(|budget| budget.name.as_str()).collect();
    let (second, minute, day) = (windows(|b| &b.second)?, windows(|b| &b.minute)?, windows(|b| &b.day)?);
    let values: [&(dyn ToSql + Sync); SAVE_TYPES.len()] = [&names, &second, &minute, &day];
    let params: Vec<Param<'_>> = values.into_iter().zip(SAVE_TYPES).collect();
    link.rows(SAVE, &params).await.map(drop)
}
