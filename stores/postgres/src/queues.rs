//! Queues and retention.

use tokio_postgres::types::Type;
use windlass_core::id::QueueName;
use windlass_core::policy::queue::QueuePolicy;
use windlass_core::query::{QueueStatus, WORKER_FORGET_MS};
use windlass_core::store::{CLAIM_MEMORY_MS, EVENTS_KEPT, PRUNE_MAX, QueueDeletion};
use windlass_core::time::Time;
use windlass_core::wake::Work;

use crate::error::Fault;
use crate::link::{Link, Param};
use crate::row::read_policy;
use crate::store::PostgresStore;

impl PostgresStore {
    pub(crate) async fn queues_once(&self) -> Result<Vec<QueueStatus>, Fault> {
        self.queues_by(&self.link().await?).await
    }

    async fn queues_by(&self, link: &Link) -> Result<Vec<QueueStatus>, Fault> {
        let params: [Param<'_>; 1] = [(&self.given_now(), Type::INT8)];
        let rows = link.rows(sql!("queue", "all"), &params).await?;
        let status = |row: &tokio_postgres::Row| {
            let name: &str = row.try_get(0)?;
            Ok(QueueStatus {
                name: QueueName::new(name).map_err(|why| Fault::unreadable("a queue", why))?,
                policy: read_policy(row.try_get(1)?)?,
                paused: row.try_get(2)?,
                queued: row.try_get::<_, i64>(3)?.max(0) as u64,
                running: row.try_get::<_, i64>(4)?.max(0) as u64,
                oldest_due: row.try_get::<_, Option<i64>>(5)?.map(Time::from_ms),
            })
        };
        rows.iter().map(status).collect()
    }

    pub(crate) async fn put_queue_once(&self, name: &QueueName, policy: &QueuePolicy) -> Result<(), Fault> {
        let now = self.given_now();
        self.write_queue(sql!("queue", "put"), name, policy, false, &[(&now, Type::INT8)]).await
    }

    pub(crate) async fn pause_queue_once(&self, name: &QueueName, paused: bool) -> Result<(), Fault> {
        // The policy is only for a queue that nobody has configured yet.
        self.write_queue(sql!("queue", "pause"), name, &QueuePolicy::default(), paused, &[]).await
    }

    pub(crate) async fn delete_queue_once(&self, name: &QueueName) -> Result<QueueDeletion, Fault> {
        let link = self.link().await?;
        link.begin().await?;
        let params: [Param<'_>; 1] = [(&name.as_str(), Type::TEXT)];
        let there = !link.rows(sql!("queue", "lock"), &params).await?.is_empty();
        let status = self.queues_by(&link).await?.into_iter().find(|status| status.name == *name);
        let answer = match status.filter(|_| there) {
            None => QueueDeletion::NotFound,
            Some(QueueStatus { queued: 0, running: 0, .. }) => {
                link.rows(sql!("queue", "delete"), &params).await?;
                QueueDeletion::Deleted
            }
            Some(QueueStatus { queued, running, .. }) => QueueDeletion::InUse { queued, running },
        };
        link.commit().await?;
        if answer == QueueDeletion::Deleted {
            self.wake.work(Work::Anywhere);
        }
        Ok(answer)
    }

    async fn write_queue(
        &self,
        sql: &str,
        name: &QueueName,
        policy: &QueuePolicy,
        paused: bool,
        more: &[Param<'_>],
    ) -> Result<(), Fault> {
        let text = serde_json::to_string(policy).map_err(|why| Fault::unreadable("a queue's policy", why))?;
        let QueuePolicy {
            limit,
            ladder: _,
            max_attempts: _,
            lease_ms,
            on_crash: _,
            crashes_max: _,
            retention_days: _,
            finished_max,
            delete_finished,
            ageing_ms,
        } = policy;
        let bounded = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let all: [Param<'_>; 9] = [
            (&name.as_str(), Type::TEXT),
            (&text, Type::TEXT),
            (&paused, Type::BOOL),
            (&limit.map(i64::from), Type::INT8),
            (&i64::from(*lease_ms), Type::INT8),
            (&ageing_ms.map(bounded), Type::INT8),
            (delete_finished, Type::BOOL),
            (&policy.retention_ms(), Type::INT8),
            (&bounded(*finished_max), Type::INT8),
        ];
        self.link().await?.rows(sql, &[&all, more].concat()).await?;
        // More may run now, or again.
        self.wake.work(Work::Anywhere);
        Ok(())
    }

    pub(crate) async fn prune_once(&self) -> Result<u64, Fault> {
        let default = QueuePolicy::default();
        let link = self.link().await?;
        let now = crate::find::now(&link, self.given_now()).await?.ms();
        let rest: [Param<'_>; 4] = [
            (&now, Type::INT8),
            (&CLAIM_MEMORY_MS, Type::INT8),
            (&WORKER_FORGET_MS, Type::INT8),
            (&(EVENTS_KEPT as i64), Type::INT8),
        ];
        link.rows(sql!("past", "sweep"), &rest).await?;
        self.prune_records(&link, now).await?;
        let jobs: [Param<'_>; 4] = [
            (&now, Type::INT8),
            (&(PRUNE_MAX as i32), Type::INT4),
            (&default.retention_ms(), Type::INT8),
            (&(default.finished_max as i64), Type::INT8),
        ];
        let row = link.row(sql!("job", "sweep"), &jobs).await?;
        Ok(row.try_get::<_, i64>(0)? as u64)
    }
}
