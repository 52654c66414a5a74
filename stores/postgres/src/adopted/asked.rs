//! Which claims were asked before.

use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, PoisonError};

use uuid::Uuid;

/// How many are remembered; a worker asks again at once, or never.
const ASKED_MAX: usize = 1_024;

/// The newest requests of this program.
#[derive(Default)]
pub(crate) struct Asked(Mutex<(HashSet<Uuid>, VecDeque<Uuid>)>);

impl Asked {
    /// Notes a request. Answers whether it was noted before: then the rows that
    /// it was given are still there, and it must not be given others.
    pub(crate) fn again(&self, request: Uuid) -> bool {
        let mut asked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (known, order) = &mut *asked;
        if !known.insert(request) {
            return true;
        }
        order.push_back(request);
        if order.len() > ASKED_MAX
            && let Some(oldest) = order.pop_front()
        {
            known.remove(&oldest);
        }
        false
    }
}
