//! What workers write beside settlements, and what they say of themselves.

use std::collections::{HashMap, HashSet};

use tokio_postgres::types::Type;
use uuid::Uuid;
use windlass_core::id::{JobId, Kind, QueueName, WorkerName};
use windlass_core::query::WorkerStatus;
use windlass_core::step::STEPS_MAX;
use windlass_core::store::{LeaseRef, ProgressWrite, RenewAnswer, StepWrite, WorkerBeat, Written};
use windlass_core::time::Time;

use crate::error::Fault;
use crate::store::PostgresStore;

/// Leases as columns.
pub(crate) fn lease_columns<'a>(leases: impl Iterator<Item = &'a LeaseRef>) -> (Vec<Uuid>, Vec<i64>) {
    leases.map(|lease| (lease.job_id.0, lease.fence as i64)).unzip()
}

impl PostgresStore {
    pub(crate) async fn renew_once(&self, leases: &[LeaseRef]) -> Result<RenewAnswer, Fault> {
        let (ids, fences) = lease_columns(leases.iter());
        let rows = self
            .reserved_link()
            .await?
            .rows(
                sql!("lease", "renew"),
                &[(&self.given_now(), Type::INT8), (&ids, Type::UUID_ARRAY), (&fences, Type::INT8_ARRAY)],
            )
            .await?;
        let mut held: HashMap<(Uuid, i64), (bool, Option<u64>)> = HashMap::with_capacity(rows.len());
        let mut answer = RenewAnswer::default();
        for row in &rows {
            let Some(id) = row.try_get::<_, Option<Uuid>>(0)? else {
                answer.instance = row.try_get(4)?;
                continue;
            };
            let still_ms: Option<i64> = row.try_get(3)?;
            let still_ms = still_ms.and_then(|ms| u64::try_from(ms).ok()).filter(|ms| *ms > 0);
            held.insert((id, row.try_get(1)?), (row.try_get(2)?, still_ms));
        }
        for lease in leases {
            match held.get(&(lease.job_id.0, lease.fence as i64)) {
                None => answer.lost.push(lease.job_id),
                Some((cancel_requested, still_ms)) => {
                    answer.renewed.push(lease.job_id);
                    if *cancel_requested {
                        answer.cancel_requested.push(lease.job_id);
                    }
                    answer.still.extend(still_ms.map(|ms| (lease.job_id, ms)));
                }
            }
        }
        Ok(answer)
    }

    pub(crate) async fn cancels_once(&self, leases: &[LeaseRef]) -> Result<Vec<JobId>, Fault> {
        let (ids, fences) = lease_columns(leases.iter());
        let params: [crate::link::Param<'_>; 2] = [(&ids, Type::UUID_ARRAY), (&fences, Type::INT8_ARRAY)];
        let rows = self.reserved_link().await?.rows(sql!("lease", "cancels"), &params).await?;
        rows.iter().map(|row| Ok(JobId(row.try_get(0)?))).collect()
    }

    pub(crate) async fn store_steps_once(&self, steps: &[StepWrite]) -> Result<Vec<Written>, Fault> {
        let (ids, fences) = lease_columns(steps.iter().map(|step| &step.lease));
        let names: Vec<&str> = steps.iter().map(|step| step.name.as_str()).collect();
        let outputs: Vec<&str> = steps.iter().map(|step| step.output.as_str()).collect();
        let rows = self
            .reserved_link()
            .await?
            .rows(
                sql!("step", "store"),
                &[
                    (&self.given_now(), Type::INT8),
                    (&(STEPS_MAX as i32), Type::INT4),
                    (&ids, Type::UUID_ARRAY),
                    (&fences, Type::INT8_ARRAY),
                    (&names, Type::TEXT_ARRAY),
                    (&outputs, Type::TEXT_ARRAY),
                ],
            )
            .await?;
        let written = |row: &tokio_postgres::Row| match row.try_get::<_, i16>(0)? {
            0 => Ok(Written::Done),
            1 => Ok(Written::Lost),
            _ => Ok(Written::TooManySteps),
        };
        rows.iter().map(written).collect()
    }

    pub(crate) async fn progress_once(&self, reports: &[ProgressWrite]) -> Result<Vec<Written>, Fault> {
        let (ids, fences) = lease_columns(reports.iter().map(|report| &report.lease));
        let progress: Vec<&str> = reports.iter().map(|report| report.progress.as_str()).collect();
        let rows = self
            .reserved_link()
            .await?
            .rows(
                sql!("lease", "progress"),
                &[
                    (&self.given_now(), Type::INT8),
                    (&ids, Type::UUID_ARRAY),
                    (&fences, Type::INT8_ARRAY),
                    (&progress, Type::TEXT_ARRAY),
                ],
            )
            .await?;
        let mut held: HashSet<(Uuid, i64)> = HashSet::with_capacity(rows.len());
        for row in &rows {
            held.insert((row.try_get(0)?, row.try_get(1)?));
        }
        let written = |report: &ProgressWrite| {
            let LeaseRef { job_id: JobId(id), fence, ticket: _ } = &report.lease;
            if held.contains(&(*id, *fence as i64)) { Written::Done } else { Written::Lost }
        };
        Ok(reports.iter().map(written).collect())
    }

    pub(crate) async fn beat_once(&self, beat: &WorkerBeat) -> Result<(), Fault> {
        let WorkerBeat { name, queues, kinds, slots, running, version, host } = beat;
        let queues: Vec<&str> = queues.iter().map(|queue| queue.as_str()).collect();
        let kinds: Option<Vec<&str>> =
            kinds.as_ref().map(|kinds| kinds.iter().map(|kind| kind.as_str()).collect());
        self.reserved_link()
            .await?
            .rows(
                sql!("worker", "save"),
                &[
                    (&self.given_now(), Type::INT8),
                    (&name.as_str(), Type::TEXT),
                    (&queues, Type::TEXT_ARRAY),
                    (&kinds, Type::TEXT_ARRAY),
                    (&i64::from(*slots), Type::INT8),
                    (&i64::from(*running), Type::INT8),
                    (version, Type::TEXT),
                    (host, Type::TEXT),
                ],
            )
            .await?;
        Ok(())
    }

    pub(crate) async fn workers_once(&self) -> Result<Vec<WorkerStatus>, Fault> {
        let rows = self.link().await?.rows(sql!("worker", "all"), &[]).await?;
        rows.iter().map(read_worker).collect()
    }

    pub(crate) async fn forget_worker_once(&self, name: &WorkerName) -> Result<(), Fault> {
        let params: [crate::link::Param<'_>; 1] = [(&name.as_str(), Type::TEXT)];
        self.link().await?.rows(sql!("worker", "delete"), &params).await?;
        Ok(())
    }
}

pub(crate) fn read_worker(row: &tokio_postgres::Row) -> Result<WorkerStatus, Fault> {
    let unreadable = |why| Fault::unreadable("a worker", why);
    let queues: Vec<&str> = row.try_get(1)?;
    let kinds: Option<Vec<&str>> = row.try_get(2)?;
    let kinds = kinds.map(|kinds| kinds.iter().map(Kind::new).collect::<Result<_, _>>());
    Ok(WorkerStatus {
        name: WorkerName::new(row.try_get::<_, &str>(0)?).map_err(unreadable)?,
        queues: queues.iter().map(QueueName::new).collect::<Result<_, _>>().map_err(unreadable)?,
        kinds: kinds.transpose().map_err(unreadable)?,
        slots: row.try_get::<_, i64>(3)? as u32,
        running: row.try_get::<_, i64>(4)? as u32,
        started_at: Time::from_ms(row.try_get(5)?),
        seen_at: Time::from_ms(row.try_get(6)?),
        version: row.try_get(7)?,
        host: row.try_get(8)?,
    })
}
