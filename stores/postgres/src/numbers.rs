//! What is known of the jobs that were leased here, so that a settlement need not
//! have it looked up: their numbers, and which claim holds them open. What is
//! forgotten costs a look-up, no more.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use windlass_core::id::JobId;
use windlass_core::store::{LeaseRef, Leased, Settlement};

/// How many are remembered: more than workers of one process hold.
const NUMBERS_MAX: usize = 100_000;

/// The number of a part of what a claim gave. In one epoch it is never given twice; over a promotion that lost
/// commits it may be, and then the fence tells the two apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pack(pub(crate) i64);

#[derive(Clone, Copy)]
struct Number {
    seq: i64,
    fence: u64,
    keyed: bool,
    /// The claim that alone knows that the job runs.
    pack: Option<Pack>,
}

/// What is known of all the jobs of a settlement.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Known {
    /// Their numbers, in the order of the settlements; nothing when one is not known.
    pub(crate) seqs: Option<Vec<i64>>,
    /// Whether they have keys: the first of them, and mostly then all.
    pub(crate) keyed: bool,
    /// The claims that hold some of them open.
    pub(crate) packs: Vec<Pack>,
    /// Which of these holds a job, from 1, or 0.
    pub(crate) of: Vec<i32>,
}

#[derive(Default)]
pub(crate) struct Numbers {
    numbers: Mutex<HashMap<JobId, Number>>,
}

impl Numbers {
    fn lock(&self) -> MutexGuard<'_, HashMap<JobId, Number>> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers what a claim gave, with the part of it that holds each job open.
    pub(crate) fn remember(&self, leases: &[Leased], packs: &[Option<i64>]) {
        let mut numbers = self.lock();
        if numbers.len() + leases.len() > NUMBERS_MAX {
            numbers.clear();
        }
        for (Leased { job, .. }, pack) in leases.iter().zip(packs).take(NUMBERS_MAX) {
            let pack = pack.map(Pack);
            let number =
                Number { seq: job.seq as i64, fence: job.fence, keyed: job.spec.key.is_some(), pack };
            numbers.insert(job.id, number);
        }
    }

    /// Something was written of these jobs beside their claims.
    pub(crate) fn unpack<'a>(&self, leases: impl Iterator<Item = &'a LeaseRef>) {
        let mut numbers = self.lock();
        for lease in leases {
            if let Some(number) = numbers.get_mut(&lease.job_id) {
                number.pack = None;
            }
        }
    }

    /// Tells what is known of these jobs, and forgets it: they end now.
    pub(crate) fn take(&self, settlements: &[Settlement]) -> Known {
        let mut numbers = self.lock();
        let mut known = Known { of: Vec::with_capacity(settlements.len()), ..Known::default() };
        let mut seqs = Some(Vec::with_capacity(settlements.len()));
        let mut keyed = None;
        for Settlement { lease, .. } in settlements {
            let Some(number) = numbers.remove(&lease.job_id) else {
                seqs = None;
                continue;
            };
            keyed = keyed.or(Some(number.keyed));
            let pack = number.pack.filter(|_| lease.fence == number.fence);
            let of = pack.map_or(0, |pack| known.number(pack));
            known.of.push(of);
            if let Some(seqs) = &mut seqs {
                seqs.push(number.seq);
            }
        }
        known.keyed = keyed.unwrap_or(false);
        match seqs {
            Some(seqs) => known.seqs = Some(seqs),
            None => (known.packs, known.of) = (Vec::new(), Vec::new()),
        }
        known
    }
}

impl Known {
    /// The number of a claim among those that hold jobs open, from 1.
    fn number(&mut self, pack: Pack) -> i32 {
        // Those that end together mostly began together.
        let at = self.packs.iter().rposition(|known| *known == pack).unwrap_or_else(|| {
            self.packs.push(pack);
            self.packs.len() - 1
        });
        // No settlement has as many jobs as that has room for.
        i32::try_from(at + 1).unwrap_or(i32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;
    use windlass_core::transition::Outcome;

    use super::*;

    fn lease(id: u128) -> LeaseRef {
        LeaseRef { job_id: JobId(Uuid::from_u128(id)), fence: 1 }
    }

    fn ends(ids: &[u128]) -> Vec<Settlement> {
        ids.iter().map(|id| Settlement { lease: lease(*id), outcome: Outcome::DONE }).collect()
    }

    fn pack(number: i64) -> Pack {
        Pack(number)
    }

    /// Jobs with the claim that holds each open.
    fn known(jobs: &[(u128, Option<Pack>)]) -> Numbers {
        let numbers = Numbers::default();
        for (id, pack) in jobs {
            let number = Number { seq: *id as i64 * 10, fence: 1, keyed: *id == 2, pack: *pack };
            numbers.lock().insert(JobId(Uuid::from_u128(*id)), number);
        }
        numbers
    }

    #[test]
    fn numbers_are_told_in_the_order_asked_and_once() {
        let numbers = known(&[(1, None), (2, None), (3, Some(pack(7)))]);
        let told = numbers.take(&ends(&[2, 1]));
        assert_eq!(told, Known { seqs: Some(vec![20, 10]), keyed: true, packs: vec![], of: vec![0, 0] });
        let told = numbers.take(&ends(&[3, 1]));
        assert_eq!(told, Known::default(), "one of them is not known any more");
    }

    #[test]
    fn claims_are_numbered() {
        let numbers = known(&[(1, Some(pack(7))), (3, Some(pack(8))), (4, None), (5, Some(pack(7)))]);
        numbers.unpack([lease(4), lease(9)].iter());
        let told = numbers.take(&ends(&[1, 3, 4, 5]));
        assert_eq!((told.packs, told.of), (vec![pack(7), pack(8)], vec![1, 2, 0, 1]));
    }

    #[test]
    fn another_fence_is_not_what_the_claim_holds() {
        let numbers = known(&[(1, Some(pack(7)))]);
        let mut stale = ends(&[1]);
        stale[0].lease.fence = 2;
        let told = numbers.take(&stale);
        assert_eq!((told.packs, told.of), (vec![], vec![0]));
    }

    #[test]
    fn a_job_that_was_written_of_is_no_longer_open() {
        let numbers = known(&[(1, Some(pack(7)))]);
        numbers.unpack([lease(1)].iter());
        let told = numbers.take(&ends(&[1]));
        assert_eq!((told.packs, told.of), (vec![], vec![0]));
    }
}
