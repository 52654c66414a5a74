//! Records: written in one commit with the jobs of their batch, each found again by its key.

use rusqlite::{Connection, OptionalExtension, Row, params};
use windlass_core::id::{Label, RecordKey, ShelfName};
use windlass_core::json::Json;
use windlass_core::record::{BatchAnswer, IfRev, Put, Record, RecordBatch, RecordWrite};
use windlass_core::time::Time;

use crate::fail::Done;
use crate::rows::head::signed;
use crate::rows::row::{opt_name, text};
use crate::run::tx::Tx;
use crate::verbs::{batches, enqueue, worker_writes};

/// Writes a batch that was checked, all or none. Mirrors `Book::write_records`.
pub fn write(tx: &mut Tx<'_>, batch: &RecordBatch) -> Done<BatchAnswer> {
    if let Some(answer) = batches::recall(tx, batch)? {
        return Ok(answer);
    }
    if let Some(lease) = batch.lease
        && !worker_writes::is_held(tx.conn, lease)?
    {
        return Ok(BatchAnswer::LeaseLost);
    }
    let mut before = Vec::with_capacity(batch.writes.len());
    for (at, write) in batch.writes.iter().enumerate() {
        let found = Before::load(tx, write)?;
        let rev = found.as_ref().and_then(|found| found.rev_at(tx.now));
        let fits = match write.if_rev {
            IfRev::Any => true,
            IfRev::Absent => rev.is_none(),
            IfRev::Is(wanted) => rev == Some(wanted),
        };
        if !fits {
            return Ok(BatchAnswer::Conflict { write: at, rev });
        }
        before.push(found);
    }
    let jobs = if batch.jobs.is_empty() { Vec::new() } else { enqueue::enqueue(tx, &batch.jobs)? };
    let mut revs = Vec::with_capacity(batch.writes.len());
    for (write, before) in batch.writes.iter().zip(before) {
        tx.head.next_rev += 1;
        revs.push(tx.head.next_rev);
        write_one(tx, write, before.as_ref())?;
    }
    batches::remember(tx, batch, &revs, &jobs)?;
    Ok(BatchAnswer::Done { revs, jobs })
}

/// A record as it was before a write; it may have expired.
struct Before {
    id: i64,
    rev: u64,
    sort: i64,
    expires_ms: Option<i64>,
    label: Option<String>,
}

impl Before {
    fn load(tx: &Tx<'_>, RecordWrite { shelf, key, .. }: &RecordWrite) -> Done<Option<Self>> {
        let mut select = tx.sql(sql!("record", "before"))?;
        let read = |row: &Row<'_>| {
            Ok(Self {
                id: row.get(0)?,
                rev: row.get::<_, i64>(1)?.cast_unsigned(),
                sort: row.get(2)?,
                expires_ms: row.get(3)?,
                label: row.get(4)?,
            })
        };
        Ok(select.query_row(params![shelf.as_str(), key.as_str()], read).optional()?)
    }

    /// Its revision, if it is there.
    fn rev_at(&self, now: Time) -> Option<u64> {
        self.expires_ms.is_none_or(|expires_ms| now.ms() < expires_ms).then_some(self.rev)
    }
}

fn write_one(tx: &Tx<'_>, write: &RecordWrite, before: Option<&Before>) -> Done<()> {
    let (rev, now_ms) = (signed(tx.head.next_rev)?, tx.now.ms());
    let Some(Put { value, sort, label, keep }) = &write.put else {
        if let Some(before) = before {
            tx.sql(sql!("record", "delete"))?.execute(params![before.id])?;
        }
        return Ok(());
    };
    let expires_ms = keep.expires_at(tx.now).map(Time::ms);
    let (value, label) = (value.as_str(), label.as_ref().map(Label::as_str));
    match before {
        None => tx.sql(sql!("record", "insert"))?.execute(params![
            write.shelf.as_str(),
            write.key.as_str(),
            sort,
            rev,
            now_ms,
            expires_ms,
            label,
            value,
        ])?,
        Some(before)
            if before.sort == *sort
                && before.expires_ms == expires_ms
                && before.label.as_deref() == label =>
        {
            tx.sql(sql!("record", "update_value"))?.execute(params![before.id, rev, now_ms, value])?
        }
        Some(before) => tx
            .sql(sql!("record", "update"))?
            .execute(params![before.id, rev, now_ms, value, sort, expires_ms, label])?,
    };
    Ok(())
}

/// Records by their keys, in the order asked.
pub fn read(
    conn: &Connection,
    shelf: &ShelfName,
    keys: &[RecordKey],
    now: Time,
) -> Done<Vec<Option<Record>>> {
    let mut select = conn.prepare_cached(sql!("record", "read"))?;
    let mut found = Vec::with_capacity(keys.len());
    for key in keys {
        let mut rows = select.query(params![shelf.as_str(), key.as_str(), now.ms()])?;
        found.push(rows.next()?.map(of_row).transpose()?);
    }
    Ok(found)
}

/// The codec of a record's row: every column is named here once.
pub fn of_row(row: &Row<'_>) -> Done<Record> {
    Ok(Record {
        key: RecordKey::new(text(row, 0)?)?,
        sort: row.get(1)?,
        rev: row.get::<_, i64>(2)?.cast_unsigned(),
        written_at: Time::from_ms(row.get(3)?),
        expires_at: row.get::<_, Option<i64>>(4)?.map(Time::from_ms),
        label: opt_name(row, 5)?,
        value: Json::trusted(text(row, 6)?),
    })
}

/// Deletes records that have expired, `most` at most; answers how many.
pub fn sweep(tx: &mut Tx<'_>, most: usize) -> Done<usize> {
    Ok(tx.sql(sql!("record", "sweep"))?.execute(params![tx.now.ms(), most.cast_signed()])?)
}
