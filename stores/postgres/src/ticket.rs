//! What the ticket of a lease says: the number of its job, so that a settlement need not have it looked up. It is a hint that
//! came back from outside: the statement that is given it compares it with what is stored.

use uuid::Uuid;
use windlass_core::ticket::Ticket;

/// The form of these tickets; another is as none.
const FORM: u8 = 3;
/// Form, tag of the instance, number of the job.
const BYTES: usize = 1 + 4 + 8;

/// Where a job stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Spot {
    /// Of which instance of the store this is: numbers of another may be somebody else's.
    pub(crate) tag: u32,
    /// The job's number.
    pub(crate) seq: i64,
}

/// What positions and tickets of an instance begin with: [`windlass_core::epoch::Epoch::tag`].
pub(crate) fn tag(instance: Uuid) -> u32 {
    instance.as_fields().0
}

impl Spot {
    /// Its ticket.
    pub(crate) fn ticket(self) -> Option<Ticket> {
        let Self { tag, seq } = self;
        let mut bytes = Vec::with_capacity(BYTES);
        bytes.push(FORM);
        bytes.extend(tag.to_be_bytes());
        bytes.extend(seq.to_be_bytes());
        Ticket::new(&bytes)
    }

    /// What a ticket says, if it is one of these.
    pub(crate) fn of(ticket: Ticket) -> Option<Self> {
        let (form, rest) = ticket.bytes().split_first()?;
        let (tag, rest) = rest.split_first_chunk()?;
        let seq = i64::from_be_bytes(rest.try_into().ok()?);
        (*form == FORM).then_some(Self { tag: u32::from_be_bytes(*tag), seq })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spot_is_read_as_it_was_written() {
        for seq in [0, 1, i64::MAX, -1] {
            let spot = Spot { tag: 0xfeed_beef, seq };
            assert_eq!(spot.ticket().and_then(Spot::of), Some(spot));
        }
    }

    #[test]
    fn what_is_of_another_form_is_none() {
        let spot = Spot { tag: 7, seq: 8 };
        let bytes = spot.ticket().expect("it fits").bytes().to_vec();
        let read = |bytes: &[u8]| Ticket::new(bytes).and_then(Spot::of);
        assert_eq!(read(&bytes), Some(spot));
        assert_eq!(read(&bytes[1..]), None);
        assert_eq!(read(&bytes[..BYTES - 1]), None);
        assert_eq!(read(&[&bytes[..], &[0]].concat()), None);
        assert_eq!(read(&[&[FORM + 1], &bytes[1..]].concat()), None);
    }
}
