//! Events: what happened, one record for all jobs of a queue that a commit moved the same way.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Invalid, StoreError};
use crate::id::{JobId, QueueName};
use crate::time::Time;

/// What happened to a job. "Queued again" has five causes that an operator
/// must tell apart, so each has its own word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// Accepted.
    Enqueued,
    /// A worker took it.
    Claimed,
    /// Done.
    Completed,
    /// The attempt failed; another follows.
    Retrying,
    /// Over without success.
    Failed,
    /// The lease ran out; another attempt follows.
    Crashed,
    /// The worker gave it back (shutdown); the attempt does not count.
    Released,
    /// The handler asked to go on later; the attempt does not count.
    Parked,
    /// Somebody asked a running job to stop.
    CancelRequested,
    /// Ended because somebody asked for it.
    Canceled,
    /// Somebody started a new life of a final job.
    Retried,
    /// Somebody made a job due that was for later.
    MadeDue,
    /// Somebody took it out of the store.
    Deleted,
    /// An operator did something; the event says who and what ([`Event::action`]). What it did to jobs is told beside it.
    Acted,
}

impl What {
    /// All of them.
    pub const ALL: [What; 14] = [
        Self::Enqueued,
        Self::Claimed,
        Self::Completed,
        Self::Retrying,
        Self::Failed,
        Self::Crashed,
        Self::Released,
        Self::Parked,
        Self::CancelRequested,
        Self::Canceled,
        Self::Retried,
        Self::MadeDue,
        Self::Deleted,
        Self::Acted,
    ];

    /// The word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Enqueued => "enqueued",
            Self::Claimed => "claimed",
            Self::Completed => "completed",
            Self::Retrying => "retrying",
            Self::Failed => "failed",
            Self::Crashed => "crashed",
            Self::Released => "released",
            Self::Parked => "parked",
            Self::CancelRequested => "cancel_requested",
            Self::Canceled => "canceled",
            Self::Retried => "retried",
            Self::MadeDue => "made_due",
            Self::Deleted => "deleted",
            Self::Acted => "acted",
        }
    }

    /// The number under which stores keep it.
    pub fn code(self) -> i16 {
        self as i16
    }

    /// The event of a stored number.
    pub fn from_code(code: i16) -> Option<Self> {
        usize::try_from(code).ok().and_then(|at| Self::ALL.get(at).copied())
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A place in the stream of events of one epoch of a store. Events are numbered
/// without gaps, so that whoever goes on from a position sees when some were pruned meanwhile.
/// The default is before the first of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Position {
    /// The epoch: [`crate::epoch::Epoch::tag`].
    pub epoch: u32,
    /// The number of the event, from 1.
    pub place: u64,
}

impl Position {
    /// Whether this is the next after `other`.
    pub fn follows(self, other: Self) -> bool {
        self.epoch == other.epoch && self.place == other.place + 1
    }

    /// Whether whoever is at `other` has heard this.
    pub fn is_behind(self, other: Self) -> bool {
        self.epoch == other.epoch && self.place <= other.place
    }

    /// Where to go on from `since` in a store whose epoch is tagged `epoch`; from the oldest event when nothing is said.
    /// Refuses a position of another epoch, with `begin`, where this one begins; and one that is beyond the `newest` event:
    /// a disk that came back as it was some time ago has the same epoch, and numbers what happens now as it did before.
    pub fn read(since: Option<Self>, epoch: u32, begin: u64, newest: u64) -> Result<u64, StoreError> {
        match since.filter(|since| *since != Self::default()) {
            None => Ok(0),
            Some(since) if since.epoch == epoch && since.place <= newest => Ok(since.place),
            Some(_) => Err(StoreError::AnotherEpoch(Self { epoch, place: begin })),
        }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}-{}", self.epoch, self.place)
    }
}

impl FromStr for Position {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let refuse = || Invalid::new("position", format!("{text:?} is not a position in the events"));
        let (epoch, place) = text.split_once('-').ok_or_else(refuse)?;
        // Positions of versions before this one began with another number, in decimal: they are of another epoch.
        let epoch = if epoch.len() == 8 {
            u32::from_str_radix(epoch, 16).ok()
        } else {
            epoch.parse::<i64>().ok().filter(|number| *number >= 0).map(|_| 0)
        };
        let place = place.parse::<u64>().ok().filter(|place| i64::try_from(*place).is_ok());
        epoch.zip(place).map(|(epoch, place)| Self { epoch, place }).ok_or_else(refuse)
    }
}

/// What an operator did. It names things, and holds nothing of their content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Action {
    /// Who: the name of the token.
    pub by: String,
    /// What: the name of the call.
    pub call: String,
    /// To what: the path.
    pub on: String,
}

impl Action {
    /// The most bytes that each of its parts may have.
    pub const PART_BYTES_MAX: usize = 512;

    /// Refuses what no store could hold.
    pub fn checked(self) -> Result<Self, Invalid> {
        for (field, part) in [("by", &self.by), ("call", &self.call), ("on", &self.on)] {
            if part.len() > Self::PART_BYTES_MAX || part.chars().any(char::is_control) {
                let max = Self::PART_BYTES_MAX;
                return Err(Invalid::new(
                    field,
                    format!("must be at most {max} bytes without control characters"),
                ));
            }
        }
        Ok(self)
    }

    fn bytes(&self) -> usize {
        self.by.len() + self.call.len() + self.on.len()
    }
}

/// One thing that happened, in one commit, to one or more jobs of a queue; or what an operator did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Its place; ask for events since it to go on from here.
    #[serde(with = "position_text")]
    pub position: Position,
    /// When, by the store's clock.
    pub at: Time,
    /// What.
    pub what: What,
    /// The queue of the jobs. Of an action it is the default one, and says nothing.
    pub queue: QueueName,
    /// The jobs, in the order in which they were moved; none of an action.
    pub jobs: Vec<JobId>,
    /// With [`What::Acted`]: who did what.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<Action>,
}

impl Event {
    /// What an event without jobs has of bytes, about, when it is written as JSON; and each of its jobs.
    pub const BYTES: usize = 320;
    /// Of a job.
    pub const JOB_BYTES: usize = 40;

    /// How many bytes an event has, about, when it is written as JSON.
    pub fn bytes(&self) -> usize {
        Self::BYTES + Self::JOB_BYTES * self.jobs.len() + self.action.as_ref().map_or(0, Action::bytes)
    }
}

/// How many of these events fit into a page: [`crate::store::EVENTS_BYTES_MAX`], and at least one.
pub fn fitting<'a>(events: impl Iterator<Item = &'a Event>) -> usize {
    let mut bytes = 0;
    let fits = |(at, event): &(usize, &Event)| {
        bytes += event.bytes();
        *at == 0 || bytes <= crate::store::EVENTS_BYTES_MAX
    };
    events.enumerate().take_while(fits).count()
}

mod position_text {
    use super::Position;
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(position: &Position, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(position)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Position, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn event(jobs: usize) -> Event {
        Event {
            position: Position::default(),
            at: Time::from_ms(0),
            what: What::Enqueued,
            queue: QueueName::default(),
            jobs: vec![JobId(Uuid::nil()); jobs],
            action: None,
        }
    }

    #[test]
    fn a_page_has_so_many_bytes_and_at_least_one_event() {
        let all = crate::store::EVENTS_BYTES_MAX / Event::JOB_BYTES;
        for (jobs, fit) in
            [(vec![], 0), (vec![all + 1, 1], 1), (vec![1, all, 1], 1), (vec![all / 2, all / 3, all], 2)]
        {
            let events: Vec<Event> = jobs.iter().map(|jobs| event(*jobs)).collect();
            assert_eq!(fitting(events.iter()), fit, "{jobs:?}");
        }
    }
}
