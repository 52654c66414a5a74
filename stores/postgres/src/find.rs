//! Questions: one job, a page of jobs, the reason why one is not running, the time.

use std::collections::BTreeMap;

use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;
use windlass_core::book::find::AHEAD_MAX;
use windlass_core::eligible::{BudgetNow, Explanation, QueueNow, explain, holds};
use windlass_core::id::{JobId, QueueName, WorkerName};
use windlass_core::job::Job;
use windlass_core::policy::budget::Budget;
use windlass_core::query::{Counted, Cursor, JobFilter, ListRequest, PAGE_MAX, Page, WORKER_ALIVE_MS};
use windlass_core::state::{State, StateName};
use windlass_core::store::Holder;
use windlass_core::time::Time;

use crate::budgets::read_budget;
use crate::epoch::{EpochNow, epoch};
use crate::error::Fault;
use crate::link::{Link, Param};
use crate::row::{Stored, read_job};
use crate::store::PostgresStore;
use crate::worker::read_worker;

/// How many jobs one question for a page looks at.
const LOOK_MAX: i64 = 20_000;

impl PostgresStore {
    pub(crate) async fn now_once(&self) -> Result<Time, Fault> {
        now(&self.link().await?, self.given_now()).await
    }

    pub(crate) async fn get_once(&self, id: JobId) -> Result<Option<Job>, Fault> {
        Ok(get(&self.link().await?, id).await?.map(|stored| stored.job))
    }

    pub(crate) async fn holders_once(&self, jobs: &[JobId]) -> Result<Vec<Holder>, Fault> {
        let ids: Vec<Uuid> = jobs.iter().map(|id| id.0).collect();
        let rows = self.link().await?.rows(sql!("job", "holders"), &[(&ids, Type::UUID_ARRAY)]).await?;
        rows.iter()
            .map(|row| {
                let worker: Option<&str> = row.try_get(2)?;
                Ok(Holder {
                    job_id: JobId(row.try_get(0)?),
                    queue: QueueName::new(row.try_get::<_, &str>(1)?)?,
                    worker: worker.map(WorkerName::new).transpose()?,
                })
            })
            .collect()
    }

    pub(crate) async fn list_once(&self, request: &ListRequest) -> Result<Page, Fault> {
        let limit = request.limit.clamp(1, PAGE_MAX) as usize;
        let before = request.after.map_or(i64::MAX, |cursor| i64::try_from(cursor.0).unwrap_or(i64::MAX));
        let link = self.link().await?;
        let floor = floor(&link, before).await?;
        let mut jobs = list(&link, &request.filter, floor.unwrap_or(i64::MIN), before, limit + 1).await?;
        let more = jobs.len() > limit;
        jobs.truncate(limit);
        let next = match floor {
            _ if more => jobs.last().map(|job| Cursor(job.seq)),
            Some(floor) => Some(Cursor(floor as u64)),
            None => None,
        };
        Ok(Page { jobs, next })
    }

    pub(crate) async fn count_jobs_once(&self, filter: &JobFilter) -> Result<Counted, Fault> {
        let link = self.link().await?;
        let floor = floor(&link, i64::MAX).await?;
        let sql = concat!(
            include_str!("../sql/jobs/count.sql"),
            include_str!("../sql/jobs/matching.sql"),
            " GROUP BY 1"
        );
        let rows = matching(&link, sql, filter, floor.unwrap_or(i64::MIN), i64::MAX, None).await?;
        let mut counted = Counted { more: floor.is_some(), ..Counted::default() };
        for row in rows {
            let state = StateName::from_code(row.try_get(0)?)
                .ok_or_else(|| Fault::unreadable("a job", "its state is none"))?;
            counted.add(state, row.try_get::<_, i64>(1)? as u64);
        }
        Ok(counted)
    }

    pub(crate) async fn explain_once(&self, id: JobId) -> Result<Option<Explanation>, Fault> {
        let link = self.link().await?;
        let now = now(&link, self.given_now()).await?;
        let Some(stored) = get(&link, id).await? else { return Ok(None) };
        let job = &stored.job;
        if job.state != State::Queued {
            return Ok(Some(explain(job, Vec::new(), 0, 0)));
        }
        let holds = held_by(&link, &stored, now).await?;
        let ahead = if holds.is_empty() { ahead(&link, job, now).await? } else { 0 };
        let workers = link.rows(sql!("worker", "all"), &[]).await?;
        let workers = workers.iter().map(read_worker).collect::<Result<Vec<_>, _>>()?;
        let alive = workers.iter().filter(|worker| now.ms_since(worker.seen_at) <= WORKER_ALIVE_MS);
        let fit = alive.filter(|worker| worker.claims(&job.spec)).count();
        Ok(Some(explain(job, holds, ahead, fit as u32)))
    }
}

/// Where a question that looks at the jobs before this one ends; nothing when it looks at all.
async fn floor(link: &Link, before: i64) -> Result<Option<i64>, Fault> {
    let params: [Param<'_>; 2] = [(&before, Type::INT8), (&(LOOK_MAX - 1), Type::INT8)];
    let rows = link.rows(sql!("job", "floor"), &params).await?;
    rows.first().map(|row| Ok(row.try_get(0)?)).transpose()
}

pub(crate) async fn now(link: &Link, given: Option<i64>) -> Result<Time, Fault> {
    let row = link.row(sql!("epoch", "begin"), &[(&given, Type::INT8)]).await?;
    Ok(Time::from_ms(row.try_get(0)?))
}

async fn get(link: &Link, id: JobId) -> Result<Option<Stored>, Fault> {
    let rows = link.rows(sql!("job", "get"), &[(&id.0, Type::UUID)]).await?;
    rows.first().map(|row| read_job(row, 0, None)).transpose()
}

async fn list(
    link: &Link,
    filter: &JobFilter,
    floor: i64,
    before: i64,
    limit: usize,
) -> Result<Vec<Job>, Fault> {
    let sql = concat!(
        include_str!("../sql/jobs/list.sql"),
        include_str!("../sql/jobs/matching.sql"),
        include_str!("../sql/jobs/page.sql")
    );
    let rows = matching(link, sql, filter, floor, before, Some(limit as i64)).await?;
    rows.iter().map(|row| Ok(read_job(row, 0, None)?.job)).collect()
}

/// The rows of a statement over the jobs from `floor` to `before` that a filter admits.
async fn matching(
    link: &Link,
    sql: &'static str,
    filter: &JobFilter,
    floor: i64,
    before: i64,
    limit: Option<i64>,
) -> Result<Vec<Row>, Fault> {
    let JobFilter { states, queue, kind, key, since, until, text } = filter;
    let states: Vec<i16> = states.iter().map(|state| state.code()).collect();
    let states = (!states.is_empty()).then_some(states);
    let queue = queue.as_ref().map(|queue| queue.as_str());
    let kind = kind.as_ref().map(|kind| kind.as_str());
    let key = key.as_ref().map(|key| key.as_str());
    let (since, until) = (since.map(Time::ms), until.map(Time::ms));
    let text = text.as_ref().map(|text| text.to_ascii_lowercase());
    let mut params: Vec<Param<'_>> = vec![
        (&floor, Type::INT8),
        (&before, Type::INT8),
        (&states, Type::INT2_ARRAY),
        (&queue, Type::TEXT),
        (&kind, Type::TEXT),
        (&key, Type::TEXT),
        (&since, Type::INT8),
        (&until, Type::INT8),
        (&text, Type::TEXT),
    ];
    if let Some(limit) = &limit {
        params.push((limit, Type::INT8));
    }
    link.rows(sql, &params).await
}

async fn held_by(
    link: &Link,
    stored: &Stored,
    now: Time,
) -> Result<Vec<windlass_core::eligible::Hold>, Fault> {
    let job = &stored.job;
    let policy = stored.policy()?;
    let key = job.spec.key.as_ref().map(|key| key.as_str());
    let params: [crate::link::Param<'_>; 2] = [(&job.spec.queue.as_str(), Type::TEXT), (&key, Type::TEXT)];
    let row = link.row(sql!("queue", "now"), &params).await?;
    let EpochNow { epoch, pause_until, .. } = epoch(link, job.spec.queue.as_str(), now).await?;
    let queue = QueueNow {
        policy: &policy,
        paused: row.try_get(0)?,
        running: row.try_get::<_, i64>(1)? as u32,
        key_holder: row.try_get::<_, Option<uuid::Uuid>>(2)?.map(JobId),
        pause: pause_until.map(|until| (&epoch, until)),
    };
    let names: Vec<&str> = job.spec.budgets.iter().map(|name| name.as_str()).collect();
    let rows = link.rows(sql!("budget", "all"), &[(&Some(names), Type::TEXT_ARRAY)]).await?;
    let budgets: Vec<(Budget, u32)> = rows.iter().map(read_budget).collect::<Result<_, _>>()?;
    let budgets: BTreeMap<_, _> = budgets
        .iter()
        .map(|(budget, slots_used)| (budget.name.clone(), BudgetNow { budget, slots_used: *slots_used }))
        .collect();
    Ok(holds(job, &queue, &budgets, now))
}

async fn ahead(link: &Link, job: &Job, now: Time) -> Result<u32, Fault> {
    let params: [crate::link::Param<'_>; 5] = [
        (&job.spec.queue.as_str(), Type::TEXT),
        (&now.ms(), Type::INT8),
        (&job.rank, Type::INT8),
        (&(job.seq as i64), Type::INT8),
        (&i64::from(AHEAD_MAX), Type::INT8),
    ];
    let row = link.row(sql!("job", "ahead"), &params).await?;
    Ok(row.try_get::<_, i64>(0)? as u32)
}
