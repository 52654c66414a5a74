//! A lease as its holder names it, and its ticket: a hint, a few opaque bytes that a store makes at the claim and whose holder hands them back with
//! every write, so that the store finds what it needs without looking and without a memory of its own.
//!
//! It is never a right. A wrong, stale, foreign or forged one is as none: whose lease it is, is asked of the store's rows, in
//! the statement that writes. So two leases are the same whatever their tickets say, and a ticket is in no list, log or event.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

use crate::error::Invalid;
use crate::id::JobId;

/// A job and the fence with which a worker holds it: these are the lease. The ticket is a hint, and of no weight: two that differ
/// in it alone are the same.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct LeaseRef {
    /// The job.
    pub job_id: JobId,
    /// The fence of the claim.
    pub fence: u64,
    /// Where the store that gave it finds it. It is not stored with what was written.
    #[serde(skip)]
    pub ticket: Option<Ticket>,
}

impl LeaseRef {
    /// A lease of which no ticket is known: its store looks it up.
    pub fn new(job_id: JobId, fence: u64) -> Self {
        Self { job_id, fence, ticket: None }
    }

    /// What it is.
    fn parts(&self) -> (JobId, u64) {
        let Self { job_id, fence, ticket: _ } = self;
        (*job_id, *fence)
    }
}

impl PartialEq for LeaseRef {
    fn eq(&self, other: &Self) -> bool {
        self.parts() == other.parts()
    }
}

impl Eq for LeaseRef {}

impl PartialOrd for LeaseRef {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for LeaseRef {
    fn cmp(&self, other: &Self) -> Ordering {
        self.parts().cmp(&other.parts())
    }
}

impl Hash for LeaseRef {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.parts().hash(state);
    }
}

/// How many bytes a ticket has at most.
pub const TICKET_BYTES_MAX: usize = 48;
/// How many characters its text has at most.
pub const TICKET_CHARS_MAX: usize = 64;

/// Where a store finds a lease. Its text is base64url without padding.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Ticket {
    len: u8,
    bytes: [u8; TICKET_BYTES_MAX],
}

impl Ticket {
    /// The ticket with these bytes; none when there are none of them, or too many.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let len = u8::try_from(bytes.len()).ok().filter(|len| *len > 0)?;
        let mut all = [0; TICKET_BYTES_MAX];
        all.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(Self { len, bytes: all })
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&URL_SAFE_NO_PAD.encode(self.bytes()))
    }
}

/// Says nothing of what is in it: logs print leases.
impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ticket({} bytes)", self.len)
    }
}

impl FromStr for Ticket {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let read = || Self::new(&URL_SAFE_NO_PAD.decode(text).ok()?);
        let ticket = if text.len() <= TICKET_CHARS_MAX { read() } else { None };
        ticket.ok_or_else(|| Invalid::new("ticket", "must be what the claim gave, or be left out"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_read_as_it_was_written() {
        for len in 1..=TICKET_BYTES_MAX {
            let bytes: Vec<u8> = (0..len).map(|at| (at * 7 + 250) as u8).collect();
            let ticket = Ticket::new(&bytes).expect("as many as there may be");
            let text = ticket.to_string();
            assert!(text.len() <= TICKET_CHARS_MAX, "{text}");
            assert_eq!(text.parse::<Ticket>().expect("its own text").bytes(), bytes);
            assert!(!format!("{ticket:?}").contains(&text));
        }
    }

    #[test]
    fn what_is_no_ticket_is_refused() {
        assert!(Ticket::new(&[]).is_none() && Ticket::new(&[0; TICKET_BYTES_MAX + 1]).is_none());
        for text in ["", "a", "a b", "ab==", "a+b/", "\u{e4}\u{e4}", &"A".repeat(65), &"A".repeat(100_000)] {
            assert!(text.parse::<Ticket>().is_err(), "{text:.10}");
        }
    }
}
