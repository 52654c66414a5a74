//! Claims: one round trip, whatever limits and budgets there are.

use std::collections::HashMap;

use tokio_postgres::types::{ToSql, Type};
use uuid::Uuid;
use windlass_core::book::claim::leased;
use windlass_core::id::QueueName;
use windlass_core::policy::queue::QueuePolicy;
use windlass_core::store::{CLAIM_BYTES_MAX, ClaimAnswer, ClaimRequest, Leased, PROMOTE_MAX};
use windlass_core::time::Time;

use crate::error::Fault;
use crate::link::{Link, Param};
use crate::row::{Stored, read_job};
use crate::store::PostgresStore;
use crate::ticket::{Spot, tag};

pub(crate) const SQL: &str = include_str!("../sql/claim.sql");
const INSTANCE: usize = 2;
/// Where the columns of the job begin, with its number; its rank is one of them.
const SEQ: usize = 3;
const RANK: usize = SEQ + 12;
/// What [`SQL`] is given.
pub(crate) const TYPES: [Type; 10] = [
    Type::INT8,
    Type::UUID,
    Type::TEXT,
    Type::TEXT_ARRAY,
    Type::TEXT_ARRAY,
    Type::INT4,
    Type::INT8,
    Type::INT4,
    Type::TEXT,
    Type::INT8,
];

impl PostgresStore {
    pub(crate) async fn claim_once(&self, request: &ClaimRequest) -> Result<ClaimAnswer, Fault> {
        let link = self.link().await?;
        let mut request = request.clone();
        loop {
            match claim(&link, &request, self.given_now()).await {
                // Never less than one, so this ends.
                Err(Fault::TooMuch(fit)) if fit < request.limit => request.limit = fit,
                claimed => return claimed,
            }
        }
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
    let (asked, bytes_max) = (request.asked(), CLAIM_BYTES_MAX as i64);
    let (worker, limit, promote_max) = (worker.as_str(), *limit as i32, PROMOTE_MAX as i32);
    let values: [&(dyn ToSql + Sync); TYPES.len()] =
        [&now, request_id, &worker, &queues, &kinds, &limit, &lease_ms, &promote_max, &asked, &bytes_max];
    let params: Vec<Param<'_>> = values.into_iter().zip(TYPES).collect();
    answer(&link.rows(SQL, &params).await?)
}

fn answer(rows: &[tokio_postgres::Row]) -> Result<ClaimAnswer, Fault> {
    // A claim answers as it finds them.
    let mut found: Vec<((i64, i64), &tokio_postgres::Row)> = Vec::with_capacity(rows.len());
    for row in rows {
        if let Some(seq) = row.try_get::<_, Option<i64>>(SEQ)? {
            found.push(((row.try_get(RANK)?, seq), row));
        }
    }
    found.sort_unstable_by_key(|(place, _)| *place);
    let instance = rows.first().map(|row| row.try_get::<_, Uuid>(INSTANCE)).transpose()?;
    let mut leases: Vec<Leased> = Vec::with_capacity(found.len());
    let mut policies: HashMap<QueueName, QueuePolicy> = HashMap::new();
    for (_, row) in found {
        let stored = read_job(row, SEQ, leases.last().map(|before| &before.job))?;
        if !policies.contains_key(&stored.job.spec.queue) {
            policies.insert(stored.job.spec.queue.clone(), stored.policy()?);
        }
        let Stored { job, policy: _ } = stored;
        let policy = &policies[&job.spec.queue];
        let spot = instance.map(|instance| Spot { tag: tag(instance), seq: job.seq as i64 });
        leases.push(Leased { ticket: spot.and_then(Spot::ticket), ..leased(job, policy) });
    }
    let header = match rows.first() {
        Some(row) => row.try_get::<_, Option<i64>>(1)?.zip(Some(row.try_get::<_, i64>(0)?)),
        None => None,
    };
    let next_due_in_ms = header.map(|(next, now)| Time::from_ms(next).ms_since(Time::from_ms(now)));
    Ok(ClaimAnswer { leases, next_due_in_ms, instance })
}
