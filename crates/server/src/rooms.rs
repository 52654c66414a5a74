//! Room for calls. What finishes work has room of its own and waits for its
//! turn; what submits or looks is refused when there is too much of it. A turn
//! is taken when the body is there, so that whoever sends slowly holds up
//! nobody but itself.

use tokio::sync::{Semaphore, SemaphorePermit};
use windlass_listen::BodyPool;

use crate::answer::Refusal;
use crate::calls::{Call, Size};
use crate::settings::Limits;

/// The rooms of a server.
pub(crate) struct Rooms {
    finishing: Room,
    others: Room,
}

/// Room for some of the calls.
pub(crate) struct Room {
    /// Memory for their bodies.
    pub bodies: BodyPool,
    /// Calls that are being worked on.
    calls: Semaphore,
    /// Those of them that write many jobs.
    batches: Semaphore,
    /// Whether a call waits when there is no turn.
    waits: bool,
}

/// A call's turn, given back when this is dropped.
pub(crate) struct Turn<'r> {
    _call: SemaphorePermit<'r>,
    _batch: Option<SemaphorePermit<'r>>,
}

impl Rooms {
    pub(crate) fn new(limits: &Limits) -> Self {
        let room = |bytes, batches, waits| Room {
            bodies: BodyPool::new(bytes),
            calls: Semaphore::new(limits.in_flight_max),
            batches: Semaphore::new(batches),
            waits,
        };
        Self {
            finishing: room(limits.finishing_bytes_max, limits.settlements_max, true),
            others: room(limits.bodies_bytes_max, limits.batches_max, false),
        }
    }

    /// Where a call belongs.
    pub(crate) fn of(&self, call: &Call) -> &Room {
        if call.finishes { &self.finishing } else { &self.others }
    }
}

impl Room {
    /// A turn for a call whose body is there.
    pub(crate) async fn turn(&self, call: &Call) -> Result<Turn<'_>, Refusal> {
        let _call = self.permit(&self.calls, "the server is busy; ask again in a second").await?;
        let batch = matches!(&call.body, Some((Size::Batch, _)));
        let _batch = if batch {
            Some(self.permit(&self.batches, "too many batches at once; ask again in a second").await?)
        } else {
            None
        };
        Ok(Turn { _call, _batch })
    }

    async fn permit<'r>(
        &'r self,
        permits: &'r Semaphore,
        busy: &'static str,
    ) -> Result<SemaphorePermit<'r>, Refusal> {
        let permit = if self.waits { permits.acquire().await.ok() } else { permits.try_acquire().ok() };
        permit.ok_or_else(|| Refusal::busy(busy))
    }
}
