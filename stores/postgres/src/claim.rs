//! Claims: one round trip, whatever limits and budgets there are.

use std::collections::HashMap;

use tokio_postgres::types::{ToSql, Type};
use windlass_core::book::claim::leased;
use windlass_core::id::QueueName;
use windlass_core::policy::queue::QueuePolicy;
use windlass_core::store::{ClaimAnswer, ClaimRequest, Leased, PROMOTE_MAX};
use windlass_core::time::Time;

use crate::error::Fault;
use crate::link::{Link, Param};
use crate::row::{Stored, read_job};
use crate::store::PostgresStore;

pub(crate) const SQL: &str = include_str!("../sql/claim.sql");
/// What [`SQL`] is given.
pub(crate) const TYPES: [Type; 8] = [
    Type::INT8,
    Type::UUID,
    Type::TEXT,
    Type::TEXT_ARRAY,
    Type::TEXT_ARRAY,
    Type::INT4,
    Type::INT8,
    Type::INT4,
];

impl PostgresStore {
    pub(crate) async fn claim_once(&self, request: &ClaimRequest) -> Result<ClaimAnswer, Fault> {
        let answer = claim(&self.link().await?, request, self.given_now()).await?;
        self.numbers.remember(&answer.leases);
        Ok(answer)
    }
}

pub(crate) async fn claim(
    link: &Link,
    request: &ClaimRequest,
    now: Option<i64>,
) -> Result<ClaimAnswer, Fault> {
    let ClaimRequest { request_id, worker, queues, kinds, limit, lease_ms } = request;
    let queues: Vec<&str> = queues.iter().map(|queue| queue.as_str()).collect();
    let kinds: Option<Vec<&str>> =
        kinds.as_ref().map(|kinds| kinds.iter().map(|kind| kind.as_str()).collect());
    let lease_ms = lease_ms.map(i64::from);
    let (worker, limit, promote_max) = (worker.as_str(), *limit as i32, PROMOTE_MAX as i32);
    let values: [&(dyn ToSql + Sync); TYPES.len()] =
        [&now, request_id, &worker, &queues, &kinds, &limit, &lease_ms, &promote_max];
    let params: Vec<Param<'_>> = values.into_iter().zip(TYPES).collect();
    answer(&link.rows(SQL, &params).await?)
}

fn answer(rows: &[tokio_postgres::Row]) -> Result<ClaimAnswer, Fault> {
    let mut leases = Vec::with_capacity(rows.len());
    let mut policies: HashMap<QueueName, QueuePolicy> = HashMap::new();
    for row in rows.iter().filter(|row| !matches!(row.try_get::<_, Option<i64>>(2), Ok(None))) {
        let stored = read_job(row, 2)?;
        if !policies.contains_key(&stored.job.spec.queue) {
            policies.insert(stored.job.spec.queue.clone(), stored.policy()?);
        }
        let Stored { job, policy: _ } = stored;
        let policy = &policies[&job.spec.queue];
        leases.push(leased(job, policy));
    }
    // A claim answers as it finds them.
    leases.sort_unstable_by_key(|lease: &Leased| (lease.job.rank, lease.job.seq));
    let header = match rows.first() {
        Some(row) => row.try_get::<_, Option<i64>>(1)?.zip(Some(row.try_get::<_, i64>(0)?)),
        None => None,
    };
    let next_due_in_ms = header.map(|(next, now)| Time::from_ms(next).ms_since(Time::from_ms(now)));
    Ok(ClaimAnswer { leases, next_due_in_ms })
}
