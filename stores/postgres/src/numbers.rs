//! The numbers of the jobs that were leased here, so that a settlement need not
//! have them looked up by their ids. What is forgotten costs a look-up, no more.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use windlass_core::id::JobId;
use windlass_core::store::{Leased, Settlement};

/// How many are remembered: more than workers of one process hold.
const NUMBERS_MAX: usize = 100_000;

#[derive(Clone, Copy)]
struct Number {
    seq: i64,
    keyed: bool,
}

/// What is known of all the jobs of a settlement.
#[derive(Default)]
pub(crate) struct Known {
    /// Their numbers, in the order of the settlements; nothing when one is not known.
    pub(crate) seqs: Option<Vec<i64>>,
    /// Whether they have keys: the first of them, and mostly then all.
    pub(crate) keyed: bool,
}

#[derive(Default)]
pub(crate) struct Numbers {
    numbers: Mutex<HashMap<JobId, Number>>,
}

impl Numbers {
    fn lock(&self) -> MutexGuard<'_, HashMap<JobId, Number>> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn remember(&self, leases: &[Leased]) {
        let mut numbers = self.lock();
        if numbers.len() + leases.len() > NUMBERS_MAX {
            numbers.clear();
        }
        for Leased { job, .. } in leases.iter().take(NUMBERS_MAX) {
            let number = Number { seq: job.seq as i64, keyed: job.spec.key.is_some() };
            numbers.insert(job.id, number);
        }
    }

    /// Tells what is known of these jobs, and forgets it: they end now.
    pub(crate) fn take(&self, settlements: &[Settlement]) -> Known {
        let mut numbers = self.lock();
        let mut seqs = Some(Vec::with_capacity(settlements.len()));
        let mut keyed = None;
        for Settlement { lease, .. } in settlements {
            match numbers.remove(&lease.job_id) {
                Some(number) => {
                    keyed = keyed.or(Some(number.keyed));
                    seqs = seqs.map(|mut seqs| {
                        seqs.push(number.seq);
                        seqs
                    });
                }
                None => seqs = None,
            }
        }
        Known { seqs, keyed: keyed.unwrap_or(false) }
    }
}

#[cfg(test)]
mod tests {
    use windlass_core::store::LeaseRef;
    use windlass_core::transition::Outcome;

    use super::*;

    fn ends(ids: &[u128]) -> Vec<Settlement> {
        let lease = |id: &u128| LeaseRef { job_id: JobId(uuid::Uuid::from_u128(*id)), fence: 1 };
        ids.iter().map(|id| Settlement { lease: lease(id), outcome: Outcome::DONE }).collect()
    }

    fn known(ids: &[u128]) -> Numbers {
        let numbers = Numbers::default();
        for id in ids {
            let number = Number { seq: *id as i64 * 10, keyed: *id == 2 };
            numbers.lock().insert(JobId(uuid::Uuid::from_u128(*id)), number);
        }
        numbers
    }

    #[test]
    fn numbers_are_told_in_the_order_asked_and_once() {
        let numbers = known(&[1, 2, 3]);
        let told = numbers.take(&ends(&[2, 1]));
        assert_eq!((told.seqs, told.keyed), (Some(vec![20, 10]), true));
        let told = numbers.take(&ends(&[3, 1]));
        assert_eq!((told.seqs, told.keyed), (None, false), "one of them is not known any more");
    }
}
