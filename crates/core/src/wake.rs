//! Who is to be told of new work, and where it is.
//!
//! Telling is a hint and nothing more: whoever waits for work also asks from
//! time to time, so a store may say too much, and may stay silent.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::id::QueueName;

/// Where there may be something to do that was not there before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Work {
    /// In any queue.
    Anywhere,
    /// In these queues, and in no others.
    In(BTreeSet<QueueName>),
}

impl Work {
    /// In these queues.
    pub fn in_queues<'a>(queues: impl IntoIterator<Item = &'a QueueName>) -> Self {
        Self::In(queues.into_iter().cloned().collect())
    }

    /// Whether it concerns somebody who waits for these queues.
    pub fn concerns(&self, queues: &[QueueName]) -> bool {
        match self {
            Self::Anywhere => true,
            Self::In(fresh) => queues.iter().any(|queue| fresh.contains(queue)),
        }
    }

    /// There is other work as well.
    pub fn add(&mut self, other: Self) {
        match (&mut *self, other) {
            (Self::In(queues), Self::In(more)) => queues.extend(more),
            (_, Self::Anywhere) => *self = Self::Anywhere,
            (Self::Anywhere, Self::In(_)) => {}
        }
    }
}

/// What is registered, each until its [`Registration`] is dropped. Clones are the same list.
pub struct Registered<T: ?Sized>(Arc<Mutex<Entries<T>>>);

struct Entries<T: ?Sized> {
    next: u64,
    by_number: BTreeMap<u64, Arc<T>>,
}

impl<T: ?Sized> Default for Registered<T> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Entries { next: 0, by_number: BTreeMap::new() })))
    }
}

impl<T: ?Sized> Clone for Registered<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: ?Sized + Send + Sync + 'static> Registered<T> {
    /// Adds one.
    pub fn add(&self, item: Arc<T>) -> Registration {
        let mut entries = lock(&self.0);
        let number = entries.next;
        entries.next += 1;
        entries.by_number.insert(number, item);
        Registration(Some(Box::new(Entry { entries: Arc::downgrade(&self.0), number })))
    }

    /// All of them, in the order in which they came. They are called outside of the lock: one may add another.
    pub fn all(&self) -> Vec<Arc<T>> {
        lock(&self.0).by_number.values().cloned().collect()
    }
}

fn lock<T: ?Sized>(entries: &Mutex<Entries<T>>) -> MutexGuard<'_, Entries<T>> {
    entries.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What was registered is taken back when this is dropped: it is not called again, and let go of.
#[must_use = "what was registered is taken back at once"]
pub struct Registration(Option<Box<dyn Send + Sync>>);

impl Registration {
    /// Of something that is never called.
    pub fn none() -> Self {
        Self(None)
    }
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Registration").field(&self.0.is_some()).finish()
    }
}

struct Entry<T: ?Sized> {
    entries: Weak<Mutex<Entries<T>>>,
    number: u64,
}

impl<T: ?Sized> Drop for Entry<T> {
    fn drop(&mut self) {
        let Some(entries) = self.entries.upgrade() else { return };
        let gone = lock(&entries).by_number.remove(&self.number);
        // Outside of the lock: what goes may hold registrations of its own.
        drop(gone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queues(names: &[&str]) -> Vec<QueueName> {
        names.iter().map(|name| QueueName::new(*name).unwrap()).collect()
    }

    #[test]
    fn work_concerns_whoever_waits_for_one_of_its_queues() {
        let mut work = Work::in_queues(&queues(&["a", "b"]));
        assert!(work.concerns(&queues(&["x", "b"])));
        assert!(!work.concerns(&queues(&["x", "y"])));
        work.add(Work::in_queues(&queues(&["x"])));
        assert!(work.concerns(&queues(&["x", "y"])));
        work.add(Work::Anywhere);
        work.add(Work::in_queues(&queues(&["a"])));
        assert_eq!(work, Work::Anywhere);
    }

    #[test]
    fn a_registration_is_taken_back_when_it_is_dropped() {
        let list: Registered<u32> = Registered::default();
        let (one, two) = (list.add(Arc::new(1)), list.clone().add(Arc::new(2)));
        drop(one);
        let three = list.add(Arc::new(3));
        assert_eq!(list.all(), [Arc::new(2), Arc::new(3)]);
        drop(two);
        assert_eq!(list.all(), [Arc::new(3)]);
        drop(list);
        drop(three);
    }
}
