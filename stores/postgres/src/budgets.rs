//! Budgets. A claim spends in the database; everything else is decided by
//! `core` on the locked row.

use tokio_postgres::Row;
use tokio_postgres::types::Type;
use windlass_core::book::admin::{budget_status, spend};
use windlass_core::id::BudgetName;
use windlass_core::policy::budget::{Budget, BudgetPolicy};
use windlass_core::store::{BudgetStatus, Spent};
use windlass_core::time::Time;
use windlass_core::wake::Work;

use crate::error::Fault;
use crate::find::now;
use crate::store::PostgresStore;

impl PostgresStore {
    pub(crate) async fn budgets_once(&self) -> Result<Vec<BudgetStatus>, Fault> {
        let link = self.link().await?;
        let now = now(&link, self.given_now()).await?;
        let all: Option<Vec<&str>> = None;
        let rows = link.rows(include_str!("../sql/budgets.sql"), &[(&all, Type::TEXT_ARRAY)]).await?;
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
        self.link().await?.rows(include_str!("../sql/put_budget.sql"), &params).await?;
        self.wake.work(Work::Anywhere);
        Ok(())
    }

    pub(crate) async fn delete_budget_once(&self, name: &BudgetName) -> Result<bool, Fault> {
        let params: [crate::link::Param<'_>; 1] = [(&name.as_str(), Type::TEXT)];
        let gone = self.link().await?.rows(include_str!("../sql/delete_budget.sql"), &params).await?;
        if !gone.is_empty() {
            self.wake.work(Work::Anywhere);
        }
        Ok(!gone.is_empty())
    }

    pub(crate) async fn cool_down_once(&self, name: &BudgetName, for_ms: u64) -> Result<(), Fault> {
        let for_ms = i64::try_from(for_ms).unwrap_or(i64::MAX).min(Time::MAX.ms());
        let params: [crate::link::Param<'_>; 3] =
            [(&self.given_now(), Type::INT8), (&name.as_str(), Type::TEXT), (&for_ms, Type::INT8)];
        self.reserved_link().await?.rows(include_str!("../sql/cool_down.sql"), &params).await?;
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
        let locked =
            link.rows(include_str!("../sql/lock_budget.sql"), &[(&name.as_str(), Type::TEXT)]).await?;
        let Some(row) = locked.first() else {
            link.commit().await?;
            return Ok(Spent::Granted);
        };
        let (mut budget, _) = read_budget(row)?;
        // The time is read under the lock, so that it does not run behind what was spent.
        let now = now(&link, self.given_now()).await?;
        let answer = spend(&mut budget, amount, now);
        if answer == Spent::Granted {
            let second = to_json(&budget.second)?;
            let minute = to_json(&budget.minute)?;
            let day = to_json(&budget.day)?;
            let params: [crate::link::Param<'_>; 4] = [
                (&name.as_str(), Type::TEXT),
                (&second, Type::TEXT),
                (&minute, Type::TEXT),
                (&day, Type::TEXT),
            ];
            link.rows(include_str!("../sql/save_budget.sql"), &params).await?;
        }
        link.commit().await?;
        Ok(answer)
    }
}

/// Reads a budget and how many running jobs name it.
pub(crate) fn read_budget(row: &Row) -> Result<(Budget, u32), Fault> {
    let unreadable = |why: &dyn std::fmt::Display| Fault::unreadable("a budget", why);
    let bound = |at: usize| Ok::<_, Fault>(row.try_get::<_, Option<i64>>(at)?.map(|n| n as u32));
    let name = BudgetName::new(row.try_get::<_, &str>(0)?).map_err(|why| unreadable(&why))?;
    let window = |at: usize| serde_json::from_str(row.try_get(at)?).map_err(|why| unreadable(&why));
    let policy =
        BudgetPolicy { slots: bound(1)?, per_second: bound(2)?, per_minute: bound(3)?, per_day: bound(4)? };
    let budget = Budget {
        name,
        policy,
        cooling_until: row.try_get::<_, Option<i64>>(5)?.map(Time::from_ms),
        second: window(6)?,
        minute: window(7)?,
        day: window(8)?,
    };
    Ok((budget, row.try_get::<_, i64>(9)? as u32))
}

fn to_json<T: serde::Serialize>(window: &T) -> Result<String, Fault> {
    serde_json::to_string(window).map_err(|why| Fault::unreadable("a budget", why))
}
