//! The sweep: rows that nobody holds any more, or that have no try left.

use tokio_postgres::types::Type;
use windlass_core::error::StoreError;
use windlass_core::id::{BudgetName, JobId};
use windlass_core::store::{EXPIRE_MAX, Expired};

use super::codec::job_id;
use super::source::AdoptedTable;
use super::write::ids;
use crate::error::Fault;
use crate::link::Param;

impl AdoptedTable {
    pub(super) async fn expire_once(&self) -> Result<Expired, Fault> {
        let now = self.connections.given_now();
        let (tries_max, limit) = (i64::from(self.mapping.tries_max), i64::from(EXPIRE_MAX));
        let link = self.connections.reserved_link().await?;
        let params: [Param<'_>; 3] = [(&now, Type::INT8), (&tries_max, Type::INT8), (&limit, Type::INT8)];
        let lost = ids(&link, &self.statements.expire, &params).await?;
        let closed = ids(&link, &self.statements.exhausted, &params).await?;
        for row in &closed {
            tracing::warn!(table = self.mapping.table, row, "closed a row that had no try left");
        }
        let jobs: Vec<JobId> = lost.iter().map(|row| job_id(&self.mapping.table, row)).collect();
        let next = link.row(&self.statements.next_expiry, &params[..1]).await?;
        let next_in_ms = next.try_get::<_, Option<i64>>(0)?.map(|ms| ms.max(0) as u64);
        Ok(Expired { jobs, next_in_ms })
    }

    pub(super) async fn cool_down_once(&self, budget: &BudgetName, for_ms: u64) -> Result<(), Fault> {
        let unsupported = StoreError::Unsupported("keep budgets: the mapping names no table for cool-downs");
        let sql = self.statements.cool_down.as_ref().ok_or(unsupported)?;
        let (now, name) = (self.connections.given_now(), budget.to_string());
        let for_ms = i64::try_from(for_ms).unwrap_or(i64::MAX / 2);
        let link = self.connections.reserved_link().await?;
        let params: [Param<'_>; 3] = [(&now, Type::INT8), (&name, Type::TEXT), (&for_ms, Type::INT8)];
        link.rows(sql, &params).await?;
        Ok(())
    }
}
