//! Marks of locks that were seen near their end, for a table that has no room
//! for them: `windlass_core::lease` in the memory of one process.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A lock near its end, as a look has found it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) row_id: String,
    /// Its end in microseconds, or 0; a renewal changes it.
    pub(super) lock_us: i64,
}

/// The locks of the newest look, each with when it was first seen with that end, by the database's clock.
#[derive(Default)]
pub(super) struct Marks(Mutex<HashMap<String, Mark>>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mark {
    lock_us: i64,
    marked_ms: i64,
}

/// What to do after a look.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Looked {
    /// How many were marked.
    pub(super) marked: usize,
    /// Those that may be taken back, with when they were marked.
    pub(super) ripe: Vec<(Seen, i64)>,
    /// When the next of the others may be.
    pub(super) next_ms: Option<i64>,
}

impl Marks {
    /// Notes what a look at `now_ms` has found; what it has not found is not near its end any more. Looks of one
    /// process may overlap, so the moment of a mark never goes back.
    pub(super) fn look(&self, found: Vec<Seen>, now_ms: i64, wait_ms: i64) -> Looked {
        let mut marks = self.marks();
        let mut kept = HashMap::with_capacity(found.len());
        let mut looked = Looked::default();
        for seen in found {
            let before = marks.get(&seen.row_id).filter(|mark| mark.lock_us == seen.lock_us);
            // One older than two waits is none: the database may have been away since.
            let mark = before.copied().filter(|mark| now_ms - mark.marked_ms <= 2 * wait_ms);
            let mark = mark.unwrap_or_else(|| {
                looked.marked += 1;
                Mark { lock_us: seen.lock_us, marked_ms: now_ms }
            });
            kept.insert(seen.row_id.clone(), mark);
            let ripe_ms = (seen.lock_us + 999).div_euclid(1_000).max(mark.marked_ms + wait_ms);
            if ripe_ms <= now_ms {
                looked.ripe.push((seen, mark.marked_ms));
            } else {
                looked.next_ms = Some(looked.next_ms.map_or(ripe_ms, |next| next.min(ripe_ms)));
            }
        }
        *marks = kept;
        looked
    }

    fn marks(&self) -> MutexGuard<'_, HashMap<String, Mark>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(lock_ms: i64) -> Seen {
        Seen { row_id: "r".into(), lock_us: lock_ms * 1_000 }
    }

    /// What each look at a lock that ends at 30,000 finds: (when, its end, marked, ripe).
    fn check(looks: &[(i64, i64, usize, usize)]) {
        let marks = Marks::default();
        for (now_ms, end_ms, marked, ripe) in looks {
            let looked = marks.look(vec![seen(*end_ms)], *now_ms, 10_000);
            assert_eq!((looked.marked, looked.ripe.len()), (*marked, *ripe), "at {now_ms} of {looks:?}");
        }
    }

    #[test]
    fn a_lock_is_ripe_in_the_second_look() {
        check(&[(20_000, 30_000, 1, 0), (29_999, 30_000, 0, 0), (30_000, 30_000, 0, 1)]);
        check(&[
            (35_000, 30_000, 1, 0),
            (44_999, 30_000, 0, 0),
            (45_000, 30_000, 0, 1),
            (55_000, 30_000, 0, 1),
        ]);
    }

    #[test]
    fn an_old_mark_and_one_of_another_end_are_none() {
        check(&[(20_000, 30_000, 1, 0), (40_001, 30_000, 1, 0), (50_001, 30_000, 0, 1)]);
        check(&[(20_000, 30_000, 1, 0), (30_000, 50_000, 1, 0)]);
    }

    #[test]
    fn what_was_not_seen_is_forgotten() {
        let marks = Marks::default();
        marks.look(vec![seen(30_000)], 20_000, 10_000);
        assert_eq!(marks.look(vec![], 25_000, 10_000), Looked::default());
        assert_eq!(marks.look(vec![seen(30_000)], 30_000, 10_000).marked, 1);
    }
}
