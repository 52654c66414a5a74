//! Shelves: documents that a program keeps in the store, beside its jobs.
//!
//! A shelf has a name and holds values of one type under keys. What it does not
//! do is search by content: a record is found by its key, by its `sort`, by
//! its one label, or by when it was written.

mod batch;
mod entry;
mod error;
mod scan;
mod update;

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::marker::PhantomData;

use serde::Serialize;
use serde::de::DeserializeOwned;
use windlass_core::error::{Invalid, StoreError};
use windlass_core::id::{Label, RecordKey, ShelfName};
use windlass_core::record::{READ_MAX, Records};

use crate::client::Client;

pub use batch::{Batch, Committed, PutOptions, WriteOptions};
pub use entry::{Entry, EntryPage};
pub use error::ShelfError;
pub use scan::ScanRequest;
pub use update::{Change, Draft, UPDATE_TRIES_MAX, Update};

/// A named shelf of records, each a value of type `T` under a key. Cheap to clone.
///
/// Writes are gathered in a [`Batch`], which is one commit with the jobs that
/// it enqueues; [`Shelf::put`], [`Shelf::delete`] and [`Shelf::update`] are for
/// one record. What was written is read by whoever asks afterwards.
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use windlass_engine::{Client, Context, Failure, Job};
/// # use windlass_engine::testing::TestBench;
///
/// #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
/// struct Article {
///     title: String,
/// }
///
/// #[derive(Serialize, Deserialize)]
/// struct Fetch {
///     page: u32,
/// }
/// # impl Job for Fetch { const KIND: &'static str = "fetch"; type Output = (); }
///
/// // An article, where to go on, and the next job: all of it is stored, or nothing is.
/// async fn fetch(job: Fetch, ctx: Context<Client>) -> Result<(), Failure> {
///     let client = ctx.state();
///     let (articles, marks) = (client.shelf::<Article>("articles"), client.shelf::<u32>("marks"));
///
///     let mut batch = client.batch().under(&ctx);
///     let article = Article { title: format!("page {}", job.page) };
///     batch.put(&articles, job.page, &article).sort(i64::from(job.page)).label("new");
///     batch.put(&marks, "cursor", &job.page);
///     if job.page < 3 {
///         batch.enqueue(Fetch { page: job.page + 1 });
///     }
///     batch.commit().await?;
///     Ok(())
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let bench = TestBench::new();
/// # let client = bench.client.clone();
/// client.enqueue(Fetch { page: 1 }).await?;
/// # bench.worker().state(client.clone()).handle(fetch).run_until_idle().await?;
///
/// let articles = client.shelf::<Article>("articles");
/// assert_eq!(articles.get("1").await?.unwrap().value.title, "page 1");
/// let newest = articles.scan().by_sort().descending().label("new").limit(2).await?;
/// assert_eq!(newest.entries.iter().map(|entry| entry.sort).collect::<Vec<_>>(), [3, 2]);
///
/// // Reads, changes and writes, and begins again when somebody else was faster.
/// let marks = client.shelf::<u32>("marks");
/// marks.update("cursor", |old| old.map_or(0, |old| old.value) + 1).await?;
/// assert_eq!(marks.get("cursor").await?.unwrap().value, 4);
/// # Ok(())
/// # }
/// ```
pub struct Shelf<T> {
    client: Client,
    /// The name, or why it is none: an error of the first use.
    name: Result<ShelfName, Invalid>,
    value: PhantomData<fn() -> T>,
}

impl<T> Shelf<T> {
    pub(crate) fn new(client: &Client, name: &str) -> Self {
        Self { client: client.clone(), name: ShelfName::new(name), value: PhantomData }
    }

    fn name(&self) -> Result<ShelfName, Invalid> {
        self.name.clone()
    }

    fn records(&self) -> Result<&dyn Records, StoreError> {
        self.client.store().records()
    }

    /// How many records there are, by label, of those whose keys begin with `prefix`; `""` for all. It may
    /// read past every record of the shelf.
    pub async fn count(&self, prefix: &str) -> Result<Counts, ShelfError> {
        let counts = self.records()?.count(self.name()?, prefix.to_owned()).await?;
        Ok(Counts(counts.into_iter().collect()))
    }

    /// Deletes a record, whatever it says; it need not be there.
    pub async fn delete(&self, key: impl Display) -> Result<(), ShelfError> {
        let mut batch = self.client.batch();
        batch.delete(self, key);
        batch.commit().await.map(drop)
    }
}

impl<T: Serialize> Shelf<T> {
    /// Writes a record, whatever was there; answers its revision.
    pub async fn put(&self, key: impl Display, value: &T) -> Result<u64, ShelfError> {
        let mut batch = self.client.batch();
        batch.put(self, key, value);
        Ok(batch.commit().await?.revs.first().copied().unwrap_or_default())
    }
}

impl<T: DeserializeOwned> Shelf<T> {
    /// The record under a key, if there is one.
    pub async fn get(&self, key: impl Display) -> Result<Option<Entry<T>>, ShelfError> {
        Ok(self.get_many([key]).await?.pop().flatten())
    }

    /// The records under these keys, in the order asked; nothing for those that are not there. Of more than
    /// [`READ_MAX`] keys the store is asked several times.
    pub async fn get_many<K: Display>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Vec<Option<Entry<T>>>, ShelfError> {
        let keys: Result<Vec<RecordKey>, Invalid> =
            keys.into_iter().map(|key| RecordKey::new(key.to_string())).collect();
        let (name, keys) = (self.name()?, keys?);
        let mut found = Vec::with_capacity(keys.len());
        for keys in keys.chunks(READ_MAX) {
            let records = self.records()?.read(name.clone(), keys.to_vec()).await?;
            for record in records {
                found.push(record.map(|record| Entry::read(&name, record)).transpose()?);
            }
        }
        Ok(found)
    }

    /// A page of the shelf; say in which order, and await it.
    pub fn scan(&self) -> ScanRequest<'_, T> {
        ScanRequest::new(self)
    }
}

impl<T: Serialize + DeserializeOwned> Shelf<T> {
    /// Changes a record: `change` gets what is there and says what is to be. It is written if nobody has
    /// written meanwhile; otherwise it begins again, at most [`UPDATE_TRIES_MAX`] times, and then ends in
    /// [`ShelfError::Conflict`]. So `change` may be called several times, and should do nothing else.
    pub fn update<F, C>(&self, key: impl Display, change: F) -> Update<'_, T, F>
    where
        F: FnMut(Option<Entry<T>>) -> C,
        C: Into<Change<T>>,
    {
        Update::new(self, key.to_string(), change)
    }
}

impl<T> Clone for Shelf<T> {
    fn clone(&self) -> Self {
        Self { client: self.client.clone(), name: self.name.clone(), value: PhantomData }
    }
}

impl<T> fmt::Debug for Shelf<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { client: _, name, value: _ } = self;
        f.debug_tuple("Shelf").field(name).finish()
    }
}

/// How many records there are, by label.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Counts(BTreeMap<Option<Label>, u64>);

impl Counts {
    /// Of all of them.
    pub fn total(&self) -> u64 {
        self.0.values().sum()
    }

    /// Of those with this label.
    pub fn of(&self, label: &str) -> u64 {
        self.iter().find(|(found, _)| *found == Some(label)).map_or(0, |(_, count)| count)
    }

    /// Of those without a label.
    pub fn unlabeled(&self) -> u64 {
        self.0.get(&None).copied().unwrap_or_default()
    }

    /// Each label with its count; nothing for those without one.
    pub fn iter(&self) -> impl Iterator<Item = (Option<&str>, u64)> {
        self.0.iter().map(|(label, count)| (label.as_ref().map(Label::as_str), *count))
    }
}
