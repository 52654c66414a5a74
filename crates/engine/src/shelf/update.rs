//! A record that is read, changed and written by its revision.

use std::fmt::Display;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use windlass_core::record::Keep;
use windlass_core::time::Time;

use super::entry::Entry;
use super::{Batch, Shelf, ShelfError};
use crate::context::Context;

/// How often an update begins before it gives up. Each time that it has to begin again, somebody else's write
/// of the same record was stored.
pub const UPDATE_TRIES_MAX: u32 = 64;

/// What becomes of a record. A plain value is one that is written, with the
/// sort, the label and the expiry that the record had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change<T> {
    /// It is written.
    Put(Draft<T>),
    /// It is deleted.
    Delete,
    /// It stays as it is.
    Leave,
}

/// What a record is to be; what is not said stays as it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft<T> {
    value: T,
    sort: Option<i64>,
    label: Option<Option<String>>,
    keep: Option<Keep>,
}

impl<T> Draft<T> {
    /// A record that says this.
    pub fn new(value: T) -> Self {
        Self { value, sort: None, label: None, keep: None }
    }

    /// Its place in the order of the shelf.
    pub fn sort(mut self, sort: i64) -> Self {
        self.sort = Some(sort);
        self
    }

    /// What it is marked with.
    pub fn label(mut self, label: impl Display) -> Self {
        self.label = Some(Some(label.to_string()));
        self
    }

    /// It is marked with nothing.
    pub fn no_label(mut self) -> Self {
        self.label = Some(None);
        self
    }

    /// It is there for so long and then no more, by the store's clock.
    pub fn keep(mut self, time: Duration) -> Self {
        self.keep = Some(Keep::ForMs(u64::try_from(time.as_millis()).unwrap_or(u64::MAX)));
        self
    }

    /// It is there until this moment.
    pub fn keep_until(mut self, at: Time) -> Self {
        self.keep = Some(Keep::Until(at));
        self
    }

    /// It is there until it is deleted.
    pub fn keep_forever(mut self) -> Self {
        self.keep = Some(Keep::Forever);
        self
    }
}

impl<T> From<T> for Draft<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

impl<T> From<T> for Change<T> {
    fn from(value: T) -> Self {
        Self::Put(Draft::new(value))
    }
}

impl<T> From<Draft<T>> for Change<T> {
    fn from(draft: Draft<T>) -> Self {
        Self::Put(draft)
    }
}

/// An update that is made when it is awaited; it gives what was written, if anything was.
pub struct Update<'s, T, F> {
    shelf: &'s Shelf<T>,
    key: String,
    change: F,
    under: Option<Context>,
}

impl<'s, T, F> Update<'s, T, F> {
    pub(super) fn new(shelf: &'s Shelf<T>, key: String, change: F) -> Self {
        Self { shelf, key, change, under: None }
    }

    /// Under the lease of an attempt: nothing is written when it has lost its lease.
    pub fn under<S>(mut self, ctx: &Context<S>) -> Self {
        self.under = Some(ctx.without_state());
        self
    }
}

impl<'s, T, F, C> IntoFuture for Update<'s, T, F>
where
    T: Serialize + DeserializeOwned + Send + 's,
    F: FnMut(Option<Entry<T>>) -> C + Send + 's,
    C: Into<Change<T>> + Send + 's,
{
    type Output = Result<Option<T>, ShelfError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 's>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let Self { shelf, key, mut change, under } = self;
            let mut tries = 0;
            loop {
                tries += 1;
                let made = once(shelf, &key, &mut change, under.as_ref()).await;
                match made {
                    Err(ShelfError::Conflict { .. }) if tries < UPDATE_TRIES_MAX => {}
                    made => return made,
                }
            }
        })
    }
}

/// Reads, changes and writes once.
async fn once<T, F, C>(
    shelf: &Shelf<T>,
    key: &str,
    change: &mut F,
    under: Option<&Context>,
) -> Result<Option<T>, ShelfError>
where
    T: Serialize + DeserializeOwned,
    F: FnMut(Option<Entry<T>>) -> C,
    C: Into<Change<T>>,
{
    let there = shelf.get(key).await?;
    let before = there.as_ref().map(Before::of);
    let mut batch = shelf.client.batch();
    if let Some(ctx) = under {
        batch = batch.under(ctx);
    }
    let wanted: Change<T> = change(there).into();
    let written = match (wanted, before) {
        (Change::Leave, _) | (Change::Delete, None) => None,
        (Change::Delete, Some(Before { rev, .. })) => {
            batch.delete(shelf, key).if_rev(rev);
            None
        }
        (Change::Put(draft), before) => Some(draft.add_to(&mut batch, shelf, key, before)),
    };
    batch.commit().await?;
    Ok(written)
}

/// Of a record that is to be changed, what stays unless something else is said.
struct Before {
    rev: u64,
    sort: i64,
    label: Option<String>,
    keep: Keep,
}

impl Before {
    fn of<T>(entry: &Entry<T>) -> Self {
        Self {
            rev: entry.rev,
            sort: entry.sort,
            label: entry.label.as_ref().map(ToString::to_string),
            keep: entry.expires_at.map_or(Keep::Forever, Keep::Until),
        }
    }
}

impl<T: Serialize> Draft<T> {
    /// Adds the write to a batch, provided that nobody has written since; gives what it writes.
    fn add_to(self, batch: &mut Batch, shelf: &Shelf<T>, key: &str, before: Option<Before>) -> T {
        let Self { value, sort, label, keep } = self;
        let put = batch.put(shelf, key, &value);
        let (put, was) = match before {
            None => (put.if_absent(), (0, None, Keep::Forever)),
            Some(Before { rev, sort, label, keep }) => (put.if_rev(rev), (sort, label, keep)),
        };
        let put = put.sort(sort.unwrap_or(was.0)).kept(keep.unwrap_or(was.2));
        if let Some(label) = label.unwrap_or(was.1) {
            put.label(label);
        }
        value
    }
}
