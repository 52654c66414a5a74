//! Enqueueing, as columns: one array per field.

use std::collections::HashSet;

use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{GenericClient, Row};
use uuid::Uuid;
use windlass_core::error::StoreError;
use windlass_core::id::JobId;
use windlass_core::job::{JobSpec, NewJob, Start};
use windlass_core::store::{ClaimAnswer, Enqueued, check_jobs};
use windlass_core::time::Time;
use windlass_core::wake::Work;

use crate::error::Fault;
use crate::link::{Link, Param};
use crate::wake::note_of;

/// New jobs as columns.
#[derive(Default)]
pub(crate) struct Batch<'a> {
    ids: Vec<Uuid>,
    kinds: Vec<&'a str>,
    queues: Vec<&'a str>,
    payloads: Vec<&'a str>,
    priorities: Vec<i16>,
    keys: Vec<Option<&'a str>>,
    dedupe_keys: Vec<Option<&'a str>>,
    budgets: Vec<Option<String>>,
    retries: Vec<Option<String>>,
    timeouts: Vec<Option<i64>>,
    metas: Vec<Option<&'a str>>,
    run_at: Vec<Option<i64>>,
    delays: Vec<Option<i64>>,
}

/// A column that may be left out when there is nothing in it.
pub(crate) fn if_any<T>(column: &[Option<T>]) -> Option<&[Option<T>]> {
    column.iter().any(Option::is_some).then_some(column)
}

/// Parts the names of budgets; names hold no control characters.
const UNIT_SEPARATOR: &str = "\u{1f}";

impl<'a> Batch<'a> {
    pub(crate) fn of(jobs: &'a [NewJob]) -> Self {
        let mut batch = Self::default();
        match jobs {
            // The first stands for all.
            [first, others @ ..] if others.iter().all(|other| alike(first, other)) => {
                batch.add(first);
                batch.ids.extend(others.iter().map(|job| job.id.0));
                batch.payloads.extend(others.iter().map(|job| job.spec.payload.as_str()));
            }
            _ => jobs.iter().for_each(|job| batch.add(job)),
        }
        batch
    }

    /// Whether a claim gave all of them.
    pub(crate) fn is_among(&self, claimed: &ClaimAnswer) -> bool {
        let given: HashSet<Uuid> = claimed.leases.iter().map(|leased| leased.job.id.0).collect();
        self.ids.iter().all(|id| given.contains(id))
    }

    fn add(&mut self, NewJob { id, spec, start }: &'a NewJob) {
        let JobSpec { kind, queue, payload, priority, key, dedupe_key, budgets, retry, timeout_ms, meta } =
            spec;
        self.ids.push(id.0);
        self.kinds.push(kind.as_str());
        self.queues.push(queue.as_str());
        self.payloads.push(payload.as_str());
        self.priorities.push(*priority);
        self.keys.push(key.as_ref().map(|key| key.as_str()));
        self.dedupe_keys.push(dedupe_key.as_ref().map(|key| key.as_str()));
        let names: Vec<&str> = budgets.iter().map(|name| name.as_str()).collect();
        self.budgets.push((!names.is_empty()).then(|| names.join(UNIT_SEPARATOR)));
        self.retries.push(retry.as_ref().and_then(|rule| serde_json::to_string(rule).ok()));
        self.timeouts.push(timeout_ms.map(|ms| ms as i64));
        self.metas.push(meta.as_ref().map(|meta| meta.as_str()));
        let (run_at, delay) = match *start {
            Start::Now => (None, None),
            Start::At(at) => (Some(at.ms()), None),
            Start::AfterMs(ms) => (None, Some(i64::try_from(ms).unwrap_or(i64::MAX).min(Time::MAX.ms()))),
        };
        self.run_at.push(run_at);
        self.delays.push(delay);
    }
}

/// Whether jobs differ in id and payload only, and have nothing that would make them wait.
fn alike(a: &NewJob, b: &NewJob) -> bool {
    let JobSpec {
        kind,
        queue,
        payload: _,
        priority,
        key: _,
        dedupe_key: _,
        budgets,
        retry,
        timeout_ms,
        meta,
    } = &a.spec;
    let plain = |job: &NewJob| {
        job.spec.key.is_none() && job.spec.dedupe_key.is_none() && matches!(job.start, Start::Now)
    };
    plain(a)
        && plain(b)
        && (kind, queue, priority) == (&b.spec.kind, &b.spec.queue, &b.spec.priority)
        && (budgets, retry, timeout_ms, meta)
            == (&b.spec.budgets, &b.spec.retry, &b.spec.timeout_ms, &b.spec.meta)
}

pub(crate) const SQL: &str = sql!("job", "enqueue");
/// What [`SQL`] is given.
pub(crate) const TYPES: [Type; 15] = [
    Type::INT8,
    Type::BOOL,
    Type::UUID_ARRAY,
    Type::TEXT_ARRAY,
    Type::TEXT_ARRAY,
    Type::TEXT_ARRAY,
    Type::INT2_ARRAY,
    Type::TEXT_ARRAY,
    Type::TEXT_ARRAY,
    Type::TEXT_ARRAY,
    Type::TEXT_ARRAY,
    Type::INT8_ARRAY,
    Type::TEXT_ARRAY,
    Type::INT8_ARRAY,
    Type::INT8_ARRAY,
];

/// What [`SQL`] is given, column by column; those with nothing in them are left out.
pub(crate) struct Values<'b> {
    now: Option<i64>,
    strict: bool,
    batch: &'b Batch<'b>,
    keys: Option<&'b [Option<&'b str>]>,
    dedupe_keys: Option<&'b [Option<&'b str>]>,
    budgets: Option<&'b [Option<String>]>,
    retries: Option<&'b [Option<String>]>,
    timeouts: Option<&'b [Option<i64>]>,
    metas: Option<&'b [Option<&'b str>]>,
    run_at: Option<&'b [Option<i64>]>,
    delays: Option<&'b [Option<i64>]>,
}

impl<'b> Values<'b> {
    pub(crate) fn of(batch: &'b Batch<'b>, now: Option<i64>, strict: bool) -> Self {
        Self {
            now,
            strict,
            batch,
            keys: if_any(&batch.keys),
            dedupe_keys: if_any(&batch.dedupe_keys),
            budgets: if_any(&batch.budgets),
            retries: if_any(&batch.retries),
            timeouts: if_any(&batch.timeouts),
            metas: if_any(&batch.metas),
            run_at: if_any(&batch.run_at),
            delays: if_any(&batch.delays),
        }
    }

    fn params(&self) -> Vec<Param<'_>> {
        let first: [&(dyn ToSql + Sync); 2] = [&self.now, &self.strict];
        first.into_iter().zip(TYPES).chain(self.columns()).collect()
    }

    /// The jobs themselves.
    pub(crate) fn columns(&self) -> impl Iterator<Item = Param<'_>> {
        let values: [&(dyn ToSql + Sync); TYPES.len() - 2] = [
            &self.batch.ids,
            &self.batch.kinds,
            &self.batch.queues,
            &self.batch.payloads,
            &self.batch.priorities,
            &self.keys,
            &self.dedupe_keys,
            &self.budgets,
            &self.retries,
            &self.timeouts,
            &self.metas,
            &self.run_at,
            &self.delays,
        ];
        values.into_iter().zip(TYPES.into_iter().skip(2))
    }

    /// What became of the batch: no row says that all of it is new.
    fn read(&self, rows: &[Row]) -> Result<Vec<Enqueued>, Fault> {
        if rows.is_empty() {
            let new = |id: &Uuid| Enqueued { id: JobId(*id), deduplicated: false };
            return Ok(self.batch.ids.iter().map(new).collect());
        }
        rows.iter()
            .map(|row| Ok(Enqueued { id: JobId(row.try_get(0)?), deduplicated: row.try_get(1)? }))
            .collect()
    }
}

/// Accepts a batch. `strict` refuses an id that is there with another content.
pub(crate) async fn insert(
    link: &Link,
    batch: &Batch<'_>,
    now: Option<i64>,
    strict: bool,
) -> Result<Vec<Enqueued>, Fault> {
    if batch.ids.is_empty() {
        return Ok(Vec::new());
    }
    let values = Values::of(batch, now, strict);
    let rows = link.rows(SQL, &values.params()).await?;
    values.read(&rows)
}

/// Accepts jobs, all or none, inside a transaction of the caller's own: they
/// are there if it commits, and were never there if it does not.
///
/// `client` is a transaction (or a connection inside of one) of tokio-postgres
/// to the database of a store that was opened before. A refusal (an id that is
/// there with another content) is an error of the transaction, as any other of
/// Postgres: it has to be rolled back.
pub async fn enqueue_in(client: &impl GenericClient, jobs: &[NewJob]) -> Result<Vec<Enqueued>, StoreError> {
    const CALL: &str = "SELECT pg_notify('windlass_work', $1)";
    check_jobs(jobs)?;
    if jobs.is_empty() {
        return Ok(Vec::new());
    }
    let batch = Batch::of(jobs);
    let values = Values::of(&batch, None, true);
    let asked = async {
        let rows = client.query_typed(SQL, &values.params()).await?;
        // Heard when the transaction has committed.
        let work = Work::in_queues(jobs.iter().map(|job| &job.spec.queue));
        client.query_typed(CALL, &[(&note_of("", &work), Type::TEXT)]).await?;
        values.read(&rows)
    };
    asked.await.map_err(|fault| match fault {
        Fault::Failed(error) => error,
        // Nothing can be asked again in a transaction that has failed.
        Fault::Collided(why) => StoreError::Unavailable(why),
        Fault::TooMuch(_) => StoreError::Broken("an enqueue was answered as a claim".into()),
    })
}
