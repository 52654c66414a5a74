//! Which row a lease is of. Nothing remembers it: the lease's ticket says it, or else it is looked up among the rows that are held.

use std::collections::HashMap;

use tokio_postgres::types::Type;
use windlass_core::id::JobId;
use windlass_core::store::LeaseRef;

use super::codec::job_id;
use super::source::AdoptedTable;
use super::ticket::Said;
use crate::error::Fault;
use crate::link::{Link, Param};

/// The row that a lease is of. Whether it is held by that lease, the row says.
#[derive(Debug, Clone)]
pub(super) struct Held {
    pub(super) row_id: String,
    pub(super) fence: i64,
    /// How long it was asked for, if that is known.
    pub(super) lease_ms: Option<i64>,
}

impl AdoptedTable {
    /// The rows of leases, in their order; nothing for one whose row is not known.
    pub(super) async fn held(
        &self,
        link: &Link,
        leases: impl Iterator<Item = &LeaseRef>,
    ) -> Result<Vec<Option<Held>>, Fault> {
        let leases: Vec<&LeaseRef> = leases.collect();
        let mut held: Vec<Option<Held>> = leases.iter().map(|lease| self.said(lease)).collect();
        let unknown = leases.iter().zip(&held).filter(|(_, held)| held.is_none());
        // A fence that no row can have is none.
        let fences: Vec<i64> = unknown.filter_map(|(lease, _)| i64::try_from(lease.fence).ok()).collect();
        if !fences.is_empty() {
            let found = self.find(link, &fences).await?;
            for (held, lease) in held.iter_mut().zip(&leases).filter(|(held, _)| held.is_none()) {
                *held = found.get(&(lease.job_id, lease.fence)).cloned();
            }
        }
        Ok(held)
    }

    fn said(&self, lease: &LeaseRef) -> Option<Held> {
        let Said { row_id, lease_ms } = Said::of(&self.mapping.table, lease)?;
        let fence = i64::try_from(lease.fence).ok()?;
        Some(Held { row_id, fence, lease_ms: Some(i64::from(lease_ms)) })
    }

    /// The rows that are held with one of these fences, by job and fence.
    async fn find(&self, link: &Link, fences: &[i64]) -> Result<HashMap<(JobId, u64), Held>, Fault> {
        let params: [Param<'_>; 1] = [(&fences, Type::INT8_ARRAY)];
        let rows = link.rows(&self.statements.find, &params).await?;
        let mut found = HashMap::with_capacity(rows.len());
        for row in rows {
            let (row_id, fence): (String, i64) = (row.try_get(0)?, row.try_get(1)?);
            let of = (job_id(&self.mapping.table, &row_id), fence as u64);
            found.insert(of, Held { row_id, fence, lease_ms: None });
        }
        Ok(found)
    }
}
