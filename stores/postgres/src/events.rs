//! Events, in the order of their transactions.
//!
//! A reader sees only what was written by transactions older than every one
//! of its database that is still running, so that no position ever passes over one that commits
//! late. When something that is committed is hidden behind a running
//! transaction, the reader waits for it, but not for long.

use tokio_postgres::types::Type;
use uuid::Uuid;
use windlass_core::event::{Event, Position, What};
use windlass_core::id::{JobId, QueueName};
use windlass_core::store::{EVENTS_BYTES_MAX, EVENTS_MAX};
use windlass_core::time::Time;

use crate::error::Fault;
use crate::link::Link;
use crate::store::PostgresStore;

/// How often a reader looks again, a few milliseconds apart, when something is hidden.
const LOOKS_MAX: u32 = 20;

impl PostgresStore {
    pub(crate) async fn events_once(&self, since: Option<Position>, limit: u32) -> Result<Vec<Event>, Fault> {
        let since = since.unwrap_or_default();
        let link = self.link().await?;
        let horizon = horizon(&link).await?;
        let params: [crate::link::Param<'_>; 7] = [
            (&since.major.to_string(), Type::TEXT),
            (&i64::try_from(since.minor).unwrap_or(i64::MAX), Type::INT8),
            (&i64::from(limit.min(EVENTS_MAX)), Type::INT8),
            (&horizon, Type::TEXT),
            (&(EVENTS_BYTES_MAX as i64), Type::INT8),
            (&(Event::BYTES as i64), Type::INT8),
            (&(Event::JOB_BYTES as i64), Type::INT8),
        ];
        let rows = link.rows(include_str!("../sql/events.sql"), &params).await?;
        rows.iter().map(read_event).collect()
    }

    pub(crate) async fn events_end_once(&self) -> Result<Position, Fault> {
        let link = self.link().await?;
        let horizon = horizon(&link).await?;
        let rows = link.rows(include_str!("../sql/events_end.sql"), &[(&horizon, Type::TEXT)]).await?;
        rows.first().map_or(Ok(Position::default()), position)
    }
}

/// The transaction below which all is decided.
async fn horizon(link: &Link) -> Result<String, Fault> {
    let mut looks = 0;
    loop {
        let row = link.row(include_str!("../sql/events_horizon.sql"), &[]).await?;
        let horizon: String = row.try_get(0)?;
        let params: [crate::link::Param<'_>; 1] = [(&horizon, Type::TEXT)];
        let hidden = link.row(include_str!("../sql/events_hidden.sql"), &params).await?;
        looks += 1;
        if looks == LOOKS_MAX || !hidden.try_get::<_, bool>(0)? {
            return Ok(horizon);
        }
    }
}

fn position(row: &tokio_postgres::Row) -> Result<Position, Fault> {
    let major: &str = row.try_get(0)?;
    let major = major.parse().map_err(|why| Fault::unreadable("an event's position", why))?;
    Ok(Position { major, minor: row.try_get::<_, i64>(1)? as u64 })
}

fn read_event(row: &tokio_postgres::Row) -> Result<Event, Fault> {
    let what: i16 = row.try_get(3)?;
    let jobs: Vec<Uuid> = row.try_get(5)?;
    Ok(Event {
        position: position(row)?,
        at: Time::from_ms(row.try_get(2)?),
        what: What::from_code(what).ok_or_else(|| Fault::unreadable("an event", format!("it is {what}")))?,
        queue: QueueName::new(row.try_get::<_, &str>(4)?)
            .map_err(|why| Fault::unreadable("an event", why))?,
        jobs: jobs.into_iter().map(JobId).collect(),
    })
}
