//! What the ticket of a lease says: which row it is of, and how long it was asked for. It is a hint that came back from
//! outside: whether the row is still held by this lease, the row says, in the statement that writes.

use uuid::Uuid;
use windlass_core::store::LeaseRef;
use windlass_core::ticket::{TICKET_BYTES_MAX, Ticket};

use super::codec::job_id;

/// The form of these tickets; another is as none. (The store's own have 3, and had 1.)
const FORM: u8 = 2;
/// Form, check, length of the lease; the id of the row comes behind.
const HEAD_BYTES: usize = 1 + 4 + 4;

/// The namespace of the checks.
const NAMESPACE: Uuid = Uuid::from_u128(0x7769_6e64_6c61_5373_9c68_6164_6f70_7402);

/// What a ticket says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) row_id: String,
    pub(super) lease_ms: u32,
}

impl Said {
    /// The ticket of a lease with this fence; none when the row's id does not fit: then the row is found by its fence.
    pub(super) fn ticket(&self, fence: u64) -> Option<Ticket> {
        let Self { row_id, lease_ms } = self;
        if HEAD_BYTES + row_id.len() > TICKET_BYTES_MAX {
            return None;
        }
        let mut bytes = vec![FORM];
        bytes.extend(check(fence, *lease_ms));
        bytes.extend(lease_ms.to_be_bytes());
        bytes.extend(row_id.as_bytes());
        Ticket::new(&bytes)
    }

    /// What the ticket of a lease says, if it is one of these: of this table, of this job, and with nothing changed in it.
    pub(super) fn of(table: &str, lease: &LeaseRef) -> Option<Self> {
        let ticket = lease.ticket?;
        let (form, rest) = ticket.bytes().split_first()?;
        let (found, rest) = rest.split_first_chunk::<4>()?;
        let (lease_ms, row_id) = rest.split_first_chunk()?;
        let lease_ms = u32::from_be_bytes(*lease_ms);
        let row_id = String::from_utf8(row_id.to_vec()).ok()?;
        let is_whole = *form == FORM && *found == check(lease.fence, lease_ms);
        (is_whole && job_id(table, &row_id) == lease.job_id).then_some(Self { row_id, lease_ms })
    }
}

/// Tells a length that was changed on its way; the id of the row is told by that of the job.
fn check(fence: u64, lease_ms: u32) -> [u8; 4] {
    let said = [&fence.to_be_bytes()[..], &lease_ms.to_be_bytes()[..]].concat();
    Uuid::new_v5(&NAMESPACE, &said).as_fields().0.to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(row_id: &str, ticket: Option<Ticket>) -> LeaseRef {
        LeaseRef { ticket, ..LeaseRef::new(job_id("t", row_id), 7) }
    }

    #[test]
    fn a_ticket_is_read_as_it_was_written() {
        for row_id in
            ["1", "", "3f2a8a4e-8f0f-4f6c-9a3e-2b8c9d1e0f11", "SM0123456789abcdef0123456789abcdef", "\u{e4}"]
        {
            let said = Said { row_id: row_id.to_owned(), lease_ms: 30_000 };
            let ticket = said.ticket(7).expect("it fits");
            assert_eq!(Said::of("t", &lease(row_id, Some(ticket))), Some(said));
        }
        let long = Said { row_id: "x".repeat(TICKET_BYTES_MAX - HEAD_BYTES + 1), lease_ms: 1 };
        assert_eq!(long.ticket(7), None);
    }

    #[test]
    fn what_is_not_its_own_is_as_none() {
        let said = Said { row_id: "12".to_owned(), lease_ms: 30_000 };
        let ticket = said.ticket(7).expect("it fits");
        assert_eq!(Said::of("t", &lease("12", None)), None);
        assert_eq!(Said::of("t", &lease("13", Some(ticket))), None, "of another row");
        assert_eq!(Said::of("u", &lease("12", Some(ticket))), None, "of another table");
        let other = LeaseRef { fence: 8, ..lease("12", Some(ticket)) };
        assert_eq!(Said::of("t", &other), None, "of another claim");
        for at in 0..ticket.bytes().len() {
            let mut bytes = ticket.bytes().to_vec();
            bytes[at] ^= 1;
            assert_eq!(Said::of("t", &lease("12", Ticket::new(&bytes))), None, "byte {at}");
        }
    }
}
