//! The sweep: rows that nobody holds any more, or that have no try left.

use std::collections::HashSet;

use tokio_postgres::types::Type;
use windlass_core::error::StoreError;
use windlass_core::id::{BudgetName, JobId};
use windlass_core::lease::{near_end_ms, wait_ms};
use windlass_core::store::{EXPIRE_MAX, Expired};

use super::codec::job_id;
use super::marks::{Looked, Seen};
use super::source::AdoptedTable;
use super::write::ids;
use crate::error::Fault;
use crate::link::{Link, Param};

/// What a look has found.
struct Found {
    looked: Looked,
    now_ms: i64,
    /// When the next lock comes near its end.
    next_in_ms: Option<i64>,
    /// Whether a row waits for a try which it does not have.
    exhausted: bool,
}

impl AdoptedTable {
    pub(super) async fn expire_once(&self) -> Result<Expired, Fault> {
        // The lease that its claims ask for; who asks for another is waited for as long.
        let (wait_ms, near_ms) = (wait_ms(self.mapping.lease_ms), near_end_ms(self.mapping.lease_ms));
        let link = self.connections.reserved_link().await?;
        let Found { looked, now_ms, next_in_ms, exhausted } =
            self.look_at_locks(&link, near_ms, wait_ms).await?;
        let lost = match looked.ripe.is_empty() {
            true => Default::default(),
            false => self.take_back(&link, &looked.ripe, wait_ms).await?,
        };
        if !lost.is_empty() {
            self.given_back.notify_one();
        }
        if exhausted {
            self.close_exhausted(&link).await?;
        }
        let jobs: Vec<JobId> = lost.iter().map(|row| job_id(&self.mapping.table, row)).collect();
        let second = looked.next_ms.map(|at| at - now_ms);
        let next_in_ms = next_in_ms.into_iter().chain(second).min().map(|ms| ms.max(0) as u64);
        Ok(Expired { jobs, marked: looked.marked, next_in_ms })
    }

    /// Closes rows that wait for a try which they do not have.
    async fn close_exhausted(&self, link: &Link) -> Result<(), Fault> {
        let now = self.connections.given_now();
        let (tries_max, limit) = (i64::from(self.mapping.tries_max), i64::from(EXPIRE_MAX));
        let params: [Param<'_>; 3] = [(&now, Type::INT8), (&tries_max, Type::INT8), (&limit, Type::INT8)];
        for row in ids(link, &self.statements.exhausted, &params).await? {
            tracing::warn!(table = self.mapping.table, row, "closed a row that had no try left");
        }
        Ok(())
    }

    /// The first look: which locks are near their end, and when that was seen.
    async fn look_at_locks(&self, link: &Link, near_ms: i64, wait_ms: i64) -> Result<Found, Fault> {
        let (now, limit) = (self.connections.given_now(), i64::from(EXPIRE_MAX));
        let tries_max = i64::from(self.mapping.tries_max);
        let params: [Param<'_>; 4] =
            [(&now, Type::INT8), (&near_ms, Type::INT8), (&limit, Type::INT8), (&tries_max, Type::INT8)];
        let rows = link.rows(&self.statements.look, &params).await?;
        let mut seen = Vec::with_capacity(rows.len());
        for row in &rows {
            if let Some(row_id) = row.try_get(0)? {
                seen.push(Seen { row_id, lock_us: row.try_get(1)? });
            }
        }
        // There is always a row, since there is always a time.
        let (now_ms, next_in_ms, exhausted) = match rows.first() {
            Some(row) => (row.try_get(2)?, row.try_get(3)?, row.try_get(4)?),
            None => Default::default(),
        };
        let looked = self.marks.look(seen, now_ms, wait_ms);
        Ok(Found { looked, now_ms, next_in_ms, exhausted })
    }

    /// The second look: takes back what has not been renewed since the first.
    async fn take_back(
        &self,
        link: &Link,
        ripe: &[(Seen, i64)],
        wait_ms: i64,
    ) -> Result<HashSet<String>, Fault> {
        let (now, tries_max) = (self.connections.given_now(), i64::from(self.mapping.tries_max));
        let rows: Vec<&str> = ripe.iter().map(|(seen, _)| seen.row_id.as_str()).collect();
        let ends: Vec<i64> = ripe.iter().map(|(seen, _)| seen.lock_us).collect();
        let marks: Vec<i64> = ripe.iter().map(|(_, marked_ms)| *marked_ms).collect();
        let params: [Param<'_>; 6] = [
            (&now, Type::INT8),
            (&tries_max, Type::INT8),
            (&wait_ms, Type::INT8),
            (&rows, Type::TEXT_ARRAY),
            (&ends, Type::INT8_ARRAY),
            (&marks, Type::INT8_ARRAY),
        ];
        ids(link, &self.statements.expire, &params).await
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
