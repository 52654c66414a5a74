//! Records: a batch is one statement, and one round trip.

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
use windlass_core::wake::Work;

use crate::enqueue::{self, Batch};
use crate::error::Fault;
use crate::link::{Link, Param};
use crate::store::PostgresStore;

/// How many expired records, and how many remembered batches, one statement deletes: each is a commit.
const PRUNE_ROWS_MAX: i32 = 1_000;
/// How many such statements one prune makes; the next prune goes on.
const PRUNE_TURNS_MAX: u32 = 1_000;

/// Writes as columns: one array per field.
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
    /// Writes a batch that was checked.
    pub(crate) async fn write_once(&self, batch: &RecordBatch) -> Result<BatchAnswer, Fault> {
        // What a worker writes has room of its own.
        let link = match &batch.lease {
            Some(lease) => {
                self.numbers.unpack(std::iter::once(lease));
                self.reserved_link().await?
            }
            None => self.link().await?,
        };
        let answer = write(&link, batch, self.given_now()).await?;
        if let BatchAnswer::Done { jobs, .. } = &answer
            && jobs.iter().any(|job| !job.deduplicated)
        {
            self.wake.work(Work::in_queues(batch.jobs.iter().map(|job| &job.spec.queue)));
        }
        Ok(answer)
    }

    pub(crate) async fn read_once(
        &self,
        shelf: &ShelfName,
        keys: &[RecordKey],
    ) -> Result<Vec<Option<Record>>, Fault> {
        let names: Vec<&str> = keys.iter().map(RecordKey::as_str).collect();
        let params: [Param<'_>; 3] =
            [(&shelf.as_str(), Type::TEXT), (&names, Type::TEXT_ARRAY), (&self.given_now(), Type::INT8)];
        let rows = self.link().await?.rows(include_str!("../sql/read_records.sql"), &params).await?;
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
            let row = link.row(include_str!("../sql/prune_records.sql"), &params).await?;
            if row.try_get::<_, i64>(0)? < i64::from(PRUNE_ROWS_MAX) {
                break;
            }
        }
        Ok(())
    }
}

async fn write(link: &Link, batch: &RecordBatch, now: Option<i64>) -> Result<BatchAnswer, Fault> {
    let RecordBatch { id, lease, writes, jobs } = batch;
    let columns = Writes::of(writes);
    let (job_id, fence) =
        lease.map(|lease| (lease.job_id.0, i64::try_from(lease.fence).unwrap_or(i64::MAX))).unzip();
    let values: [&(dyn ToSql + Sync); TYPES.len()] = [
        &now,
        id,
        &job_id,
        &fence,
        &columns.shelves,
        &columns.keys,
        &columns.ifs,
        &columns.values,
        &columns.sorts,
        &columns.labels,
        &columns.keeps,
        &columns.untils,
    ];
    let jobs = Batch::of(jobs);
    let jobs = enqueue::Values::of(&jobs, now, true);
    let params: Vec<Param<'_>> = values.into_iter().zip(TYPES).chain(jobs.columns()).collect();
    let row = link.row(include_str!("../sql/write_records.sql"), &params).await?;
    match row.try_get::<_, i32>(0)? {
        0 => {
            let (revs, jobs) = done(&row)?;
            Ok(BatchAnswer::Done { revs, jobs })
        }
        1 => {
            let (ord, rev): (i64, Option<i64>) = (row.try_get(1)?, row.try_get(2)?);
            Ok(BatchAnswer::Conflict { write: ord as usize - 1, rev: rev.map(i64::cast_unsigned) })
        }
        2 => Ok(BatchAnswer::LeaseLost),
        _ => {
            let (revs, jobs) = done(&row)?;
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
