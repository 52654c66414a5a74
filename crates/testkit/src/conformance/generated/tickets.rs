//! The tickets that a store gave, handed back as they should be, and as nobody should: whatever is done with them, it must make
//! no difference.

use std::collections::HashMap;

use windlass_core::id::JobId;
use windlass_core::store::{LeaseRef, Leased};
use windlass_core::ticket::Ticket;

use super::op::Hint;
use super::pair::{Pair, newest};

/// The tickets that a store gave.
#[derive(Default)]
pub struct Tickets {
    /// All of them, in their order.
    given: Vec<Ticket>,
    /// The newest of each job.
    of: HashMap<JobId, Ticket>,
}

impl Tickets {
    /// Keeps what a claim of the store gave.
    pub fn keep(&mut self, leases: &[Leased]) {
        for leased in leases {
            self.given.extend(leased.ticket);
            self.of.extend(leased.ticket.map(|ticket| (leased.job.id, ticket)));
        }
    }

    /// The lease as it is named to the store; `at` is its place in the call.
    pub fn hand_back(&self, lease: LeaseRef, at: usize, hint: Hint) -> LeaseRef {
        let own = self.of.get(&lease.job_id).copied();
        let ticket = match hint {
            Hint::Own => own,
            Hint::Nothing => None,
            Hint::Other(back) => newest(&self.given, back + at).copied(),
            Hint::Some(every) => own.filter(|_| !(at + 1).is_multiple_of(usize::from(every))),
            Hint::Forged { byte, by } => own.and_then(|own| forged(own, byte, by)),
        };
        LeaseRef { ticket, ..lease }
    }
}

impl Pair {
    /// A lease as it is named to the store, with or without its ticket.
    pub fn hand_back(&self, lease: LeaseRef, at: usize) -> LeaseRef {
        self.tickets.hand_back(lease, at, self.hint)
    }
}

fn forged(ticket: Ticket, byte: usize, by: u8) -> Option<Ticket> {
    let mut bytes = ticket.bytes().to_vec();
    let byte = byte % bytes.len();
    bytes[byte] = bytes[byte].wrapping_add(by);
    Ticket::new(&bytes)
}
