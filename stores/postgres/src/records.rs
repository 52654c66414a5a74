//! Records: a batch is one statement.

use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};
use uuid::Uuid;
use windlass_core::id::{JobId, Label, RecordKey, ShelfName};
use windlass_core::json::Json;
use windlass_core::record::{
    BATCH_MEMORY_MS, BatchAnswer, IfRev, Keep, Put, Record, RecordBatch, RecordWrite,
};
use windlass_core::store::Enqueued;
use windlass_core::time::Time;

use crate::enqueue::{Batch, Values};
use crate::error::Fault;
use crate::link::{Link, Param};
use crate::store::PostgresStore;

/// How many expired records, and how many remembered batches, one statement deletes: each is a commit.
const PRUNE_ROWS_MAX: i32 = 1_000;
/// How many such statements one prune makes; the next prune goes on.
const PRUNE_TURNS_MAX: u32 = 1_000;

/// The statement that writes a batch, of [`Columns::params`].
pub(crate) const WRITE: &str = sql!("record", "write");
/// The statement that locks what several batches write, of their shelves and the jobs of their leases.
pub(crate) const LOCK: &str = sql!("batch", "lock");

/// A batch as columns: one array per field.
pub(crate) struct Columns<'a> {
    now: Option<i64>,
    id: Uuid,
    job_id: Option<Uuid>,
    fence: Option<i64>,
    writes: Writes<'a>,
    jobs: Values<'a>,
}

impl<'a> Columns<'a> {
    /// `jobs` are those of the batch.
    pub(crate) fn of(batch: &'a RecordBatch, jobs: &'a Batch<'a>, now: Option<i64>) -> Self {
        let RecordBatch { id, lease, writes, jobs: _ } = batch;
        let (job_id, fence) =
            lease.map(|lease| (lease.job_id.0, i64::try_from(lease.fence).unwrap_or(i64::MAX))).unzip();
        Self { now, id: *id, job_id, fence, writes: Writes::of(writes), jobs: Values::of(jobs, now, true) }
    }

    pub(crate) fn params(&self) -> Vec<Param<'_>> {
        let Self { now, id, job_id, fence, writes, jobs } = self;
        let values: [&(dyn ToSql + Sync); TYPES.len()] = [
            now,
            id,
            job_id,
            fence,
            &writes.shelves,
            &writes.keys,
            &writes.ifs,
            &writes.values,
            &writes.sorts,
            &writes.labels,
            &writes.keeps,
            &writes.untils,
        ];
        values.into_iter().zip(TYPES).chain(jobs.columns()).collect()
    }
}

/// Writes as columns.
#[derive(Default)]
struct Writes<'a> {
    shelves: Vec<&'a str>,
    keys: Vec<&'a str>,
    ifs: Vec<Option<i64>>,
    values: Vec<Option<&'a str>>,
    sorts: Vec<Option<i64>>,
    labels: Vec<Option<&'a str>>,
    keeps: Vec<Option<i64>>,
    untils: Vec<Option<i64>>,
}

const TYPES: [Type; 12] = [
    Type::INT8,
    Type::UUID,
    Type::UUID,
    Type::INT8,
    Type::TEXT_ARRAY,
    Type::TEXT_ARRAY,
    Type::INT8_ARRAY,
    Type::TEXT_ARRAY,
    Type::INT8_ARRAY,
    Type::TEXT_ARRAY,
    Type::INT8_ARRAY,
    Type::INT8_ARRAY,
];

impl<'a> Writes<'a> {
    fn of(writes: &'a [RecordWrite]) -> Self {
        let mut columns = Self::default();
        writes.iter().for_each(|write| columns.add(write));
        columns
    }

    fn add(&mut self, RecordWrite { shelf, key, if_rev, put }: &'a RecordWrite) {
        self.shelves.push(shelf.as_str());
        self.keys.push(key.as_str());
        self.ifs.push(match if_rev {
            IfRev::Any => None,
            // No revision is 0.
            IfRev::Absent => Some(0),
            IfRev::Is(rev) => Some(i64::try_from(*rev).ok().filter(|rev| *rev > 0).unwrap_or(i64::MAX)),
        });
        let (mut keep, mut until) = (None, None);
        if let Some(Put { keep: how_long, .. }) = put {
            match how_long {
                Keep::Forever => {}
                Keep::ForMs(ms) => {
                    keep = Some(i64::try_from(*ms).unwrap_or(i64::MAX).min(Time::MAX.ms()));
                }
                Keep::Until(at) => until = Some(at.ms()),
            }
        }
        self.values.push(put.as_ref().map(|put| put.value.as_str()));
        self.sorts.push(put.as_ref().map(|put| put.sort));
        self.labels.push(put.as_ref().and_then(|put| put.label.as_ref()).map(Label::as_str));
        self.keeps.push(keep);
        self.untils.push(until);
    }
}

impl PostgresStore {
    pub(crate) async fn read_once(
        &self,
        shelf: &ShelfName,
        keys: &[RecordKey],
    ) -> Result<Vec<Option<Record>>, Fault> {
        let names: Vec<&str> = keys.iter().map(RecordKey::as_str).collect();
        let params: [Param<'_>; 3] =
            [(&shelf.as_str(), Type::TEXT), (&names, Type::TEXT_ARRAY), (&self.given_now(), Type::INT8)];
        let rows = self.link().await?.rows(sql!("record", "read"), &params).await?;
        let mut found = vec![None; keys.len()];
        for row in &rows {
            let at = usize::try_from(row.try_get::<_, i64>(7)? - 1).unwrap_or(usize::MAX);
            if let Some(place) = found.get_mut(at) {
                *place = read_record(row)?;
            }
        }
        Ok(found)
    }

    /// Forgets batches and deletes expired records, some at a time.
    pub(crate) async fn prune_records(&self, link: &Link, now: i64) -> Result<(), Fault> {
        let params: [Param<'_>; 3] =
            [(&now, Type::INT8), (&BATCH_MEMORY_MS, Type::INT8), (&PRUNE_ROWS_MAX, Type::INT4)];
        for _ in 0..PRUNE_TURNS_MAX {
            let row = link.row(sql!("record", "sweep"), &params).await?;
            if row.try_get::<_, i64>(0)? < i64::from(PRUNE_ROWS_MAX) {
                break;
            }
        }
        Ok(())
    }
}

/// What became of a batch.
pub(crate) fn answer_of(batch: &RecordBatch, row: &Row) -> Result<BatchAnswer, Fault> {
    match row.try_get::<_, i32>(0)? {
        0 => {
            let (revs, jobs) = done(row)?;
            Ok(BatchAnswer::Done { revs, jobs })
        }
        1 => {
            let (ord, rev): (i64, Option<i64>) = (row.try_get(1)?, row.try_get(2)?);
            Ok(BatchAnswer::Conflict { write: ord as usize - 1, rev: rev.map(i64::cast_unsigned) })
        }
        2 => Ok(BatchAnswer::LeaseLost),
        _ => {
            let (revs, jobs) = done(row)?;
            Ok(batch.answered(revs, jobs)?)
        }
    }
}

fn done(row: &Row) -> Result<(Vec<u64>, Vec<Enqueued>), Fault> {
    let (revs, ids, there): (Vec<i64>, Vec<Uuid>, Vec<bool>) =
        (row.try_get(3)?, row.try_get(4)?, row.try_get(5)?);
    let jobs = ids.into_iter().zip(there);
    let jobs = jobs.map(|(id, deduplicated)| Enqueued { id: JobId(id), deduplicated }).collect();
    Ok((revs.into_iter().map(i64::cast_unsigned).collect(), jobs))
}

/// The codec of a record's row: every column is named here once. Nothing for one that came without its value.
pub(crate) fn read_record(row: &Row) -> Result<Option<Record>, Fault> {
    let unreadable = |why| Fault::unreadable("a record", why);
    let Some(value) = row.try_get::<_, Option<&str>>(6)? else { return Ok(None) };
    let label: Option<&str> = row.try_get(5)?;
    Ok(Some(Record {
        key: RecordKey::new(row.try_get::<_, &str>(0)?).map_err(unreadable)?,
        sort: row.try_get(1)?,
        rev: row.try_get::<_, i64>(2)?.cast_unsigned(),
        written_at: Time::from_ms(row.try_get(3)?),
        expires_at: row.try_get::<_, Option<i64>>(4)?.map(Time::from_ms),
        label: label.map(Label::new).transpose().map_err(unreadable)?,
        value: Json::trusted(value),
    }))
}
