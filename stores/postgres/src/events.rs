//! Events, numbered in an order that everybody can follow.
//!
//! Whoever writes an event cannot know its place: another that began later may
//! commit sooner. So events are written without one, and whoever reads them first
//! numbers those that are committed (`windlass.follow_1`), under a lock. A number is told only
//! once it is durable.

use tokio_postgres::types::Type;
use uuid::Uuid;
use windlass_core::epoch::Epoch;
use windlass_core::event::{Action, Event, Position, What};
use windlass_core::id::{JobId, QueueName};
use windlass_core::store::{EVENTS_BYTES_MAX, EVENTS_MAX};
use windlass_core::time::Time;

use crate::error::Fault;
use crate::link::{Link, Param};
use crate::store::PostgresStore;

/// How many events are numbered at once.
const FOLLOW_MAX: i32 = 2_000;

/// Where the numbered events begin and end.
struct Followed {
    numbered: i64,
    newest: u64,
    oldest: u64,
    epoch: u32,
}

impl PostgresStore {
    pub(crate) async fn events_once(&self, since: Option<Position>, limit: u32) -> Result<Vec<Event>, Fault> {
        let link = self.link().await?;
        let Followed { oldest, newest, epoch, .. } = follow(&link, self.given_now()).await?;
        let place = Position::read(since, epoch, oldest.saturating_sub(1), newest)?;
        if place >= newest {
            return Ok(Vec::new());
        }
        let params: [Param<'_>; 5] = [
            (&i64::try_from(place).unwrap_or(i64::MAX), Type::INT8),
            (&i64::from(limit.min(EVENTS_MAX)), Type::INT8),
            (&(EVENTS_BYTES_MAX as i64), Type::INT8),
            (&(Event::BYTES as i64), Type::INT8),
            (&(Event::JOB_BYTES as i64), Type::INT8),
        ];
        let rows = link.rows(sql!("event", "list"), &params).await?;
        rows.iter().map(|row| read_event(row, epoch)).collect()
    }

    pub(crate) async fn act_once(&self, action: &Action) -> Result<(), Fault> {
        let action = serde_json::to_string(action).map_err(|why| Fault::unreadable("an action", why))?;
        let queue = QueueName::default();
        let params: [Param<'_>; 3] =
            [(&self.given_now(), Type::INT8), (&queue.as_str(), Type::TEXT), (&action, Type::TEXT)];
        self.link().await?.rows(sql!("event", "act"), &params).await?;
        Ok(())
    }

    pub(crate) async fn events_end_once(&self) -> Result<Position, Fault> {
        let link = self.link().await?;
        loop {
            let Followed { numbered, newest, oldest: _, epoch } = follow(&link, self.given_now()).await?;
            if numbered < i64::from(FOLLOW_MAX) {
                return Ok(Position { epoch, place: newest });
            }
        }
    }
}

async fn follow(link: &Link, now: Option<i64>) -> Result<Followed, Fault> {
    let params: [Param<'_>; 2] = [(&now, Type::INT8), (&FOLLOW_MAX, Type::INT4)];
    let row = link.row(sql!("event", "follow"), &params).await?;
    let instance: Uuid = row.try_get(3)?;
    Ok(Followed {
        numbered: row.try_get(0)?,
        newest: row.try_get::<_, i64>(1)? as u64,
        oldest: row.try_get::<_, i64>(2)? as u64,
        epoch: Epoch::first(instance).tag(),
    })
}

fn read_event(row: &tokio_postgres::Row, epoch: u32) -> Result<Event, Fault> {
    let code: i16 = row.try_get(2)?;
    let action: Option<&str> = row.try_get(5)?;
    let action =
        action.map(serde_json::from_str).transpose().map_err(|why| Fault::unreadable("an event", why))?;
    let what = if action.is_some() { Some(What::Acted) } else { What::from_code(code) };
    let jobs: Vec<Uuid> = row.try_get(4)?;
    Ok(Event {
        position: Position { epoch, place: row.try_get::<_, i64>(0)? as u64 },
        at: Time::from_ms(row.try_get(1)?),
        what: what.ok_or_else(|| Fault::unreadable("an event", format!("it is {code}")))?,
        queue: QueueName::new(row.try_get::<_, &str>(3)?)
            .map_err(|why| Fault::unreadable("an event", why))?,
        jobs: jobs.into_iter().map(JobId).collect(),
        action,
    })
}
