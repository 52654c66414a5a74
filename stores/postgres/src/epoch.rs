//! The epoch of the store: what it is, and the settings of the next.

use tokio_postgres::types::Type;
use uuid::Uuid;
use windlass_core::epoch::Epoch;
use windlass_core::store::EpochStatus;
use windlass_core::time::Time;

use crate::error::Fault;
use crate::link::{Link, Param};
use crate::store::PostgresStore;

/// What a program says of the epochs of its store; what it does not say stays as it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct EpochSettings {
    /// A promotion loses nothing.
    pub(crate) synchronous: Option<bool>,
    /// The longest that an epoch holds back anything.
    pub(crate) pause_ms_max: Option<u32>,
}

/// The epoch, and until when it holds back jobs of a queue.
pub(crate) struct EpochNow {
    pub(crate) epoch: Epoch,
    pub(crate) pause_until: Option<Time>,
    paused_until: Option<Time>,
}

/// Begins the first epoch, or the next, and takes the settings.
pub(crate) async fn configure(link: &Link, settings: EpochSettings, now: Option<i64>) -> Result<(), Fault> {
    let EpochSettings { synchronous, pause_ms_max } = settings;
    let params: [Param<'_>; 3] =
        [(&now, Type::INT8), (&synchronous, Type::BOOL), (&pause_ms_max.map(i64::from), Type::INT8)];
    link.rows(sql!("epoch", "configure"), &params).await?;
    Ok(())
}

/// The epoch as it is at `now`.
pub(crate) async fn epoch(link: &Link, queue: &str, now: Time) -> Result<EpochNow, Fault> {
    let params: [Param<'_>; 2] = [(&queue, Type::TEXT), (&now.ms(), Type::INT8)];
    let row = link.row(sql!("epoch", "load"), &params).await?;
    let epoch = Epoch {
        number: row.try_get::<_, i64>(0)? as u64,
        instance: row.try_get::<_, Uuid>(1)?,
        floor: row.try_get::<_, i64>(2)? as u64,
        began_at: Time::from_ms(row.try_get(3)?),
        first_seq: row.try_get::<_, i64>(4)? as u64,
        lossy: row.try_get(5)?,
    };
    let moment = |at: Option<i64>| at.map(Time::from_ms);
    Ok(EpochNow { epoch, pause_until: moment(row.try_get(6)?), paused_until: moment(row.try_get(7)?) })
}

impl PostgresStore {
    pub(crate) async fn epoch_once(&self) -> Result<EpochStatus, Fault> {
        let link = self.link().await?;
        let now = crate::find::now(&link, self.given_now()).await?;
        let EpochNow { epoch, pause_until: _, paused_until } = epoch(&link, "", now).await?;
        Ok(EpochStatus { epoch, paused_until })
    }
}
