//! Claiming rows.

use tokio_postgres::Row;
use tokio_postgres::types::Type;
use windlass_core::error::Invalid;
use windlass_core::store::{ClaimAnswer, ClaimRequest, LeaseRef, Leased, Settlement};
use windlass_core::transition::Outcome;

use super::codec::Claimed;
use super::fence::request_digits;
use super::source::AdoptedTable;
use super::ticket::Said;
use crate::error::Fault;
use crate::link::{Link, Param};

impl AdoptedTable {
    pub(super) async fn claim_once(&self, request: &ClaimRequest) -> Result<ClaimAnswer, Fault> {
        let wanted = request.queues.contains(&self.mapping.queue)
            && request.kinds.as_ref().is_none_or(|kinds| kinds.contains(&self.mapping.kind));
        if !wanted {
            return Ok(ClaimAnswer::default());
        }
        // Without a fence column the owner is what makes a claim its own: the statement puts the fence into it, and the request.
        let (owner, request_id) = match self.mapping.fence {
            Some(_) => (request.worker.to_string(), request.request_id.simple().to_string()),
            None => (format!("{}#", request.worker), request_digits(request.request_id)),
        };
        let now = self.connections.given_now();
        let lease_ms = i64::from(request.lease_ms.unwrap_or(self.mapping.lease_ms));
        let link = self.connections.link().await?;
        if self.knows_requests() && self.asked.again(request.request_id) {
            let params: [Param<'_>; 4] = [
                (&now, Type::INT8),
                (&owner, Type::TEXT),
                (&request_id, Type::TEXT),
                (&lease_ms, Type::INT8),
            ];
            let before = link.rows(&self.statements.again, &params).await?;
            if !before.is_empty() {
                return self.answer(&link, request, &before).await;
            }
        }
        let (tries_max, limit) = (i64::from(self.mapping.tries_max), i64::from(request.limit));
        let mut params: Vec<Param<'_>> = vec![
            (&now, Type::INT8),
            (&tries_max, Type::INT8),
            (&limit, Type::INT8),
            (&owner, Type::TEXT),
            (&lease_ms, Type::INT8),
        ];
        if self.knows_requests() {
            params.push((&request_id, Type::TEXT));
        }
        let rows = link.rows(&self.statements.claim, &params).await?;
        self.answer(&link, request, &rows).await
    }

    /// Whether the table can tell which rows a request was given.
    fn knows_requests(&self) -> bool {
        self.mapping.fence.is_none() || self.mapping.request.is_some()
    }

    async fn answer(&self, link: &Link, request: &ClaimRequest, rows: &[Row]) -> Result<ClaimAnswer, Fault> {
        let lease_ms = request.lease_ms.unwrap_or(self.mapping.lease_ms);
        let mut leases = Vec::with_capacity(rows.len());
        let claimed: Result<Vec<Claimed>, Fault> = rows.iter().map(Claimed::read).collect();
        let mut claimed = claimed?;
        // UPDATE … RETURNING answers in any order.
        claimed.sort_by(|a, b| a.order().cmp(&b.order()));
        for claimed in claimed {
            let fence = claimed.fence;
            let ticket = Said { row_id: claimed.row_id.clone(), lease_ms }.ticket(fence);
            match claimed.job(&self.mapping, &request.worker, lease_ms) {
                Ok(job) => {
                    let retry_delay_ms = self.mapping.retry_rule().delay_ms(job.attempt);
                    leases.push(Leased { job, retry_delay_ms, ticket });
                }
                Err(refused) => {
                    let lease = LeaseRef { job_id: claimed.job_id(&self.mapping), fence, ticket };
                    self.refuse(link, lease, &claimed.row_id, &refused).await?;
                }
            }
        }
        Ok(ClaimAnswer { leases, next_due_in_ms: None, instance: None })
    }

    /// Fails a row that cannot be a job, so that it does not stand in the way.
    async fn refuse(&self, link: &Link, lease: LeaseRef, row: &str, refused: &Invalid) -> Result<(), Fault> {
        tracing::warn!(table = self.mapping.table, row, %refused, "a row was failed: it cannot be a job");
        let outcome = Outcome::Failed { error: refused.to_string() };
        self.settle_on(link, &[Settlement { lease, outcome }]).await?;
        Ok(())
    }
}
