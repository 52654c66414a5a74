//! Writes that are one commit.

use std::fmt::Display;
use std::time::Duration;

use futures::future::BoxFuture;
use serde::Serialize;
use windlass_core::error::Invalid;
use windlass_core::id::{Label, RecordKey};
use windlass_core::json::Json;
use windlass_core::record::{BatchAnswer, IfRev, Keep, Put, RECORD_BYTES_MAX, RecordBatch, RecordWrite};
use windlass_core::store::Enqueued;
use windlass_core::time::Time;

use super::{Shelf, ShelfError};
use crate::client::Client;
use crate::context::Context;
use crate::request::JobRequest;
use crate::world::{Ids, new_id};

/// Writes of records on any shelves of one store, and jobs: all of it is
/// stored, or nothing is.
///
/// Nothing is checked before the end: a key that is too long is the error of
/// [`Batch::commit`].
pub struct Batch {
    client: Client,
    batch: RecordBatch,
    under: Option<Context>,
    /// The first thing that cannot be.
    wrong: Option<Invalid>,
}

/// What a batch did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    /// The revision of each write, in the order in which they were said; of a delete, too.
    pub revs: Vec<u64>,
    /// What became of the jobs, in the order in which they were said.
    pub jobs: Vec<Enqueued>,
}

impl Batch {
    pub(crate) fn new(client: &Client) -> Self {
        let batch = RecordBatch::new(new_id(client.world()).0);
        Self { client: client.clone(), batch, under: None, wrong: None }
    }

    /// Under the lease of an attempt: nothing is written when it has lost its lease, and a store that is away
    /// for a moment is waited for as long as the lease lasts.
    pub fn under<S>(mut self, ctx: &Context<S>) -> Self {
        self.batch.lease = Some(ctx.lease());
        self.under = Some(ctx.without_state());
        self
    }

    /// Writes a record, whatever is there, unless the options say otherwise.
    pub fn put<T: Serialize>(&mut self, shelf: &Shelf<T>, key: impl Display, value: &T) -> PutOptions<'_> {
        let value = Json::from_value("value", value, RECORD_BYTES_MAX);
        let put = value.map(|value| Put { value, sort: 0, label: None, keep: Keep::Forever });
        PutOptions(self.write(shelf, key.to_string(), put.map(Some)))
    }

    /// Deletes a record, which need not be there, unless the options say otherwise.
    pub fn delete<T>(&mut self, shelf: &Shelf<T>, key: impl Display) -> WriteOptions<'_> {
        self.write(shelf, key.to_string(), Ok(None))
    }

    /// Enqueues a job.
    pub fn enqueue<O>(&mut self, job: impl Into<JobRequest<O>>) -> &mut Self {
        match job.into().build_with(&mut Ids::new(self.client.world())) {
            Ok(job) => self.batch.jobs.push(job),
            Err(invalid) => self.refuse(invalid),
        }
        self
    }

    /// How many records it writes or deletes.
    pub fn len(&self) -> usize {
        self.batch.writes.len()
    }

    /// Whether it does nothing.
    pub fn is_empty(&self) -> bool {
        self.batch.writes.is_empty() && self.batch.jobs.is_empty()
    }

    /// Writes it, all or nothing; it is durable when this returns.
    pub fn commit(self) -> BoxFuture<'static, Result<Committed, ShelfError>> {
        Box::pin(self.written())
    }

    async fn written(self) -> Result<Committed, ShelfError> {
        let Self { client, batch, under, wrong } = self;
        if let Some(invalid) = wrong {
            return Err(invalid.into());
        }
        if batch.writes.is_empty() && batch.jobs.is_empty() {
            return Ok(Committed { revs: Vec::new(), jobs: Vec::new() });
        }
        let write = || {
            let (store, batch) = (client.store().clone(), batch.clone());
            async move { store.records()?.write(batch).await }
        };
        let answer = match &under {
            None => write().await?,
            // Asked again with the same id: what was written already is not written twice.
            Some(ctx) => ctx.ask(write).await.ok_or(ShelfError::LeaseLost)??,
        };
        match answer {
            BatchAnswer::Done { revs, jobs } => Ok(Committed { revs, jobs }),
            BatchAnswer::LeaseLost => Err(ShelfError::LeaseLost),
            BatchAnswer::Conflict { write, rev } => {
                let RecordWrite { shelf, key, .. } = batch.writes[write].clone();
                Err(ShelfError::Conflict { shelf, key, rev })
            }
        }
    }

    fn write<T>(
        &mut self,
        shelf: &Shelf<T>,
        key: String,
        put: Result<Option<Put>, Invalid>,
    ) -> WriteOptions<'_> {
        let write = (|| {
            let (shelf, key) = (shelf.name()?, RecordKey::new(key)?);
            Ok(RecordWrite { shelf, key, if_rev: IfRev::Any, put: put? })
        })();
        let at = match write {
            Ok(write) => {
                self.batch.writes.push(write);
                Some(self.batch.writes.len() - 1)
            }
            Err(invalid) => {
                self.refuse(invalid);
                None
            }
        };
        WriteOptions { batch: self, at }
    }

    fn refuse(&mut self, invalid: Invalid) {
        self.wrong.get_or_insert(invalid);
    }
}

/// What else can be said of a write.
pub struct WriteOptions<'b> {
    batch: &'b mut Batch,
    /// Which write; none when it cannot be.
    at: Option<usize>,
}

impl WriteOptions<'_> {
    /// Only if the record has this revision.
    pub fn if_rev(self, rev: u64) -> Self {
        self.provided(IfRev::Is(rev))
    }

    fn provided(mut self, if_rev: IfRev) -> Self {
        if let Some(write) = self.write() {
            write.if_rev = if_rev;
        }
        self
    }

    fn write(&mut self) -> Option<&mut RecordWrite> {
        self.at.and_then(|at| self.batch.batch.writes.get_mut(at))
    }
}

/// What else can be said of a record that is written.
pub struct PutOptions<'b>(WriteOptions<'b>);

impl PutOptions<'_> {
    /// Only if the record has this revision.
    pub fn if_rev(self, rev: u64) -> Self {
        Self(self.0.provided(IfRev::Is(rev)))
    }

    /// Only if there is no such record.
    pub fn if_absent(self) -> Self {
        Self(self.0.provided(IfRev::Absent))
    }

    /// Its place in the order of the shelf; 0 when nothing is said.
    pub fn sort(self, sort: i64) -> Self {
        self.with(|put| put.sort = sort)
    }

    /// Marks it with a label: records of one label are found and counted together.
    pub fn label(self, label: impl Display) -> Self {
        match Label::new(label.to_string()) {
            Ok(label) => self.with(|put| put.label = Some(label)),
            Err(invalid) => {
                self.0.batch.refuse(invalid);
                self
            }
        }
    }

    /// It is there for so long and then no more, by the store's clock.
    pub fn keep(self, time: Duration) -> Self {
        let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.kept(Keep::ForMs(ms))
    }

    /// It is there until this moment.
    pub fn keep_until(self, at: Time) -> Self {
        self.kept(Keep::Until(at))
    }

    pub(super) fn kept(self, keep: Keep) -> Self {
        self.with(|put| put.keep = keep)
    }

    fn with(mut self, set: impl FnOnce(&mut Put)) -> Self {
        if let Some(put) = self.0.write().and_then(|write| write.put.as_mut()) {
            set(put);
        }
        self
    }
}
