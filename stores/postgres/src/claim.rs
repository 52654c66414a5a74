//! Claims. One that nothing but its own wish bounds is one statement, which picks by itself; one that limits, budgets or
//! crossed keys bound is picked by `core`, between two calls of one transaction ([`crate::survey`]).

use std::collections::HashMap;

use tokio_postgres::Row;
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
use crate::survey;
use crate::ticket::{Spot, tag};

pub(crate) const SQL: &str = sql!("claim", "plain");
const INSTANCE: usize = 2;
const BOUNDED: usize = 3;
/// Where the columns of the job begin, with its number; its rank is one of them.
const SEQ: usize = 4;
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
            match self.claim_by(&link, &request).await {
                // Never less than one, so this ends.
                Err(Fault::TooMuch(fit)) if fit < request.limit => request.limit = fit,
                claimed => return claimed,
            }
        }
    }

    /// By the way that the last claim of the same queues and kinds had to go, and by the other where that is not it.
    async fn claim_by(&self, link: &Link, request: &ClaimRequest) -> Result<ClaimAnswer, Fault> {
        if request.limit == 0 || !self.bounds.are_likely(request) {
            let claimed = claim(link, request, self.given_now()).await?;
            self.bounds.note(request, claimed.is_none());
            if let Some(answer) = claimed {
                return Ok(answer);
            }
        }
        let surveyed = survey::claim(link, request, self.given_now()).await?;
        match surveyed {
            Some((answer, bounded)) => {
                if let Some(bounded) = bounded {
                    self.bounds.note(request, bounded);
                }
                Ok(answer)
            }
            // It was answered before: that is not bounded by anything.
            None => claim(link, request, self.given_now()).await?.ok_or_else(|| {
                Fault::Collided("a request was forgotten while it was asked again".to_owned())
            }),
        }
    }
}

/// A claim in one statement; nothing when limits, budgets or crossed keys bound it, and then nothing was given.
pub(crate) async fn claim(
    link: &Link,
    request: &ClaimRequest,
    now: Option<i64>,
) -> Result<Option<ClaimAnswer>, Fault> {
    let rows = rows(link, SQL, request, now, &[]).await?;
    let bounded = rows.first().map(|row| row.try_get::<_, bool>(BOUNDED)).transpose()?.unwrap_or(false);
    if bounded { Ok(None) } else { answer(&rows).map(Some) }
}

/// Asks for a claim, with what else its statement is given.
pub(crate) async fn rows(
    link: &Link,
    sql: &str,
    request: &ClaimRequest,
    now: Option<i64>,
    more: &[Param<'_>],
) -> Result<Vec<Row>, Fault> {
    let ClaimRequest { request_id, worker, queues, kinds, limit, lease_ms } = request;
    let queues: Vec<&str> = queues.iter().map(|queue| queue.as_str()).collect();
    let kinds: Option<Vec<&str>> =
        kinds.as_ref().map(|kinds| kinds.iter().map(|kind| kind.as_str()).collect());
    let lease_ms = lease_ms.map(i64::from);
    let (asked, bytes_max) = (request.asked(), CLAIM_BYTES_MAX as i64);
    let (worker, limit, promote_max) = (worker.as_str(), *limit as i32, PROMOTE_MAX as i32);
    let values: [&(dyn ToSql + Sync); TYPES.len()] =
        [&now, request_id, &worker, &queues, &kinds, &limit, &lease_ms, &promote_max, &asked, &bytes_max];
    let mut params: Vec<Param<'_>> = values.into_iter().zip(TYPES).collect();
    params.extend(more.iter().cloned());
    link.rows(sql, &params).await
}

/// What a claim answered: its leases, in order.
pub(crate) fn answer(rows: &[Row]) -> Result<ClaimAnswer, Fault> {
    // A claim answers as it finds them.
    let mut found: Vec<((i64, i64), &Row)> = Vec::with_capacity(rows.len());
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
