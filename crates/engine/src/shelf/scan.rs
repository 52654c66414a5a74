//! A page of a shelf.

use std::fmt::Display;
use std::future::{Future, IntoFuture};
use std::pin::Pin;

use serde::de::DeserializeOwned;
use windlass_core::error::Invalid;
use windlass_core::id::{Label, ShelfName};
use windlass_core::record::{Order, SCAN_MAX, Scan, ScanCursor};

use super::entry::{Entry, EntryPage};
use super::{Shelf, ShelfError};

/// A wish for records of a shelf: by key unless something else is said, and at
/// most [`SCAN_MAX`]. Awaited it gives one page; [`ScanRequest::all`] gives all.
#[derive(Debug)]
pub struct ScanRequest<'s, T> {
    shelf: &'s Shelf<T>,
    /// What was said so far, or the first thing that cannot be.
    scan: Result<Scan, Invalid>,
    /// Where to begin in the order by `sort`.
    from_sort: Option<i64>,
}

impl<'s, T> ScanRequest<'s, T> {
    pub(super) fn new(shelf: &'s Shelf<T>) -> Self {
        Self { shelf, scan: shelf.name().map(Scan::of), from_sort: None }
    }

    /// In the order of the keys, compared byte by byte.
    pub fn by_key(self) -> Self {
        self.order(Order::Key)
    }

    /// In the order of `sort`, and of the keys where that is equal.
    pub fn by_sort(self) -> Self {
        self.order(Order::Sort)
    }

    /// In the order of writing: what changed last comes last.
    ///
    /// Whoever remembers the `rev` of the last entry and goes on behind it ([`ScanRequest::after_rev`]) misses
    /// no write. Only the latest write of a record is found, and a delete is not.
    pub fn by_rev(self) -> Self {
        self.order(Order::Rev)
    }

    /// From the other end.
    pub fn descending(self) -> Self {
        self.with(Ok(()), |scan, ()| scan.descending = true)
    }

    /// Only keys that begin so; for the order by key.
    pub fn prefix(self, prefix: impl Display) -> Self {
        self.with(Ok(prefix.to_string()), |scan, prefix| scan.prefix = prefix)
    }

    /// Only records with this label.
    pub fn label(self, label: impl Display) -> Self {
        self.with(Label::new(label.to_string()), |scan, label| scan.label = Some(label))
    }

    /// How many at most in one page, up to [`SCAN_MAX`]. A page of large records may have fewer although there
    /// are more: [`EntryPage::next`] says whether.
    pub fn limit(self, limit: u32) -> Self {
        self.with(Ok(limit), |scan, limit| scan.limit = limit.min(SCAN_MAX))
    }

    /// Goes on where a page of the same scan ended.
    pub fn after(self, cursor: impl Into<Option<ScanCursor>>) -> Self {
        self.with(Ok(cursor.into()), |scan, cursor| scan.after = cursor)
    }

    /// In the order of writing, only what was written after this revision.
    pub fn after_rev(self, rev: u64) -> Self {
        let after = ScanCursor { at: i64::try_from(rev).unwrap_or(i64::MAX), key: String::new() };
        self.by_rev().after(after)
    }

    /// In the order of `sort`, begins with records of this `sort`: those with a lower one are left out, or
    /// with a higher one when it is descending.
    pub fn from_sort(mut self, sort: i64) -> Self {
        self.from_sort = Some(sort);
        self.by_sort()
    }

    fn order(self, order: Order) -> Self {
        self.with(Ok(()), |scan, ()| scan.order = order)
    }

    fn with<V>(mut self, value: Result<V, Invalid>, set: impl FnOnce(&mut Scan, V)) -> Self {
        match (&mut self.scan, value) {
            (Ok(scan), Ok(value)) => set(scan, value),
            (Ok(_), Err(invalid)) => self.scan = Err(invalid),
            (Err(_), _) => {}
        }
        self
    }

    /// The scan as a store takes it.
    fn built(self) -> Result<(&'s Shelf<T>, Scan), Invalid> {
        let Self { shelf, scan, from_sort } = self;
        let mut scan = scan?;
        if scan.after.is_none()
            && let Some(sort) = from_sort
        {
            // Before the first key of that sort: an empty one is before all. Seen from the other end that is
            // the place before the next sort, and there is none behind the last.
            let at = if scan.descending { sort.checked_add(1) } else { Some(sort) };
            scan.after = at.map(|at| ScanCursor { at, key: String::new() });
        }
        Ok((shelf, scan))
    }
}

impl<T: DeserializeOwned> ScanRequest<'_, T> {
    /// All of them, page by page. For shelves of which it is known that they fit into memory.
    pub async fn all(self) -> Result<Vec<Entry<T>>, ShelfError> {
        let (shelf, mut scan) = self.built()?;
        let mut entries = Vec::new();
        loop {
            let page = page(shelf, scan.clone()).await?;
            entries.extend(page.entries);
            match page.next {
                Some(next) => scan.after = Some(next),
                None => return Ok(entries),
            }
        }
    }
}

impl<'s, T: DeserializeOwned + Send + 's> IntoFuture for ScanRequest<'s, T> {
    type Output = Result<EntryPage<T>, ShelfError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 's>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let (shelf, scan) = self.built()?;
            page(shelf, scan).await
        })
    }
}

async fn page<T: DeserializeOwned>(shelf: &Shelf<T>, scan: Scan) -> Result<EntryPage<T>, ShelfError> {
    let name: ShelfName = scan.shelf.clone();
    let page = shelf.records()?.scan(scan).await?;
    let entries: Result<Vec<Entry<T>>, ShelfError> =
        page.records.into_iter().map(|record| Entry::read(&name, record)).collect();
    Ok(EntryPage { entries: entries?, next: page.next })
}
