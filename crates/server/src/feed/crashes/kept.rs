//! The last crashes as one record beside the jobs, with the position of the events up to which they are known.

use serde::{Deserialize, Serialize};
use windlass_engine::core::error::StoreError;
use windlass_engine::core::event::Position;
use windlass_engine::core::id::{RecordKey, ShelfName};
use windlass_engine::core::json::Json;
use windlass_engine::core::record::{
    BatchAnswer, IfRev, Keep, Put, RECORD_BYTES_MAX, Record, RecordBatch, RecordWrite, Records,
};
use windlass_engine::core::store::Store;
use windlass_engine::world::new_id;

use super::{Crash, Crashes};
use crate::api::Api;

/// Where it lies.
const SHELF: &str = "windlass.crashes";
const KEY: &str = "last";
/// How long it is of use when nothing happens any more.
const KEEP_MS: u64 = 30 * 24 * 3_600_000;
/// A position that has moved by this many events is worth a write, since whoever starts reads what is behind it.
const MOVED: u64 = 1_000;
/// How often it is tried when another server writes the same.
const TRIES: usize = 3;

/// What the record says.
#[derive(Serialize, Deserialize)]
pub(super) struct Kept {
    position: Option<String>,
    crashes: Vec<Crash>,
}

/// What is kept in a store; nothing on one that keeps no records.
pub(super) async fn read(store: &dyn Store) -> Result<Option<Kept>, StoreError> {
    let Ok(records) = store.records() else { return Ok(None) };
    Ok(record(records).await?.and_then(|record| record.value.read().ok()))
}

async fn record(records: &dyn Records) -> Result<Option<Record>, StoreError> {
    Ok(records.read(ShelfName::new(SHELF)?, vec![RecordKey::new(KEY)?]).await?.pop().flatten())
}

/// Writes down what has changed.
pub(in crate::feed) async fn write(api: &Api) {
    let Ok(records) = api.store.records() else { return };
    if !api.feed.crashes(|crashes| crashes.is_due()) {
        return;
    }
    if let Err(error) = write_on(api, records).await {
        tracing::warn!(%error, "the last crashes of workers are not kept; trying again");
    }
}

async fn write_on(api: &Api, records: &dyn Records) -> Result<(), StoreError> {
    for _ in 0..TRIES {
        let there = record(records).await?;
        // What another server has seen is learned on the way.
        let (kept, position) = api.feed.crashes(|crashes| {
            let known = there.as_ref().and_then(|record| record.value.read::<Kept>().ok());
            known.into_iter().flat_map(|kept| kept.crashes).for_each(|crash| {
                crashes.add(crash);
            });
            crashes.changed = false;
            (crashes.as_kept(), crashes.position)
        });
        let write = RecordWrite {
            shelf: ShelfName::new(SHELF)?,
            key: RecordKey::new(KEY)?,
            if_rev: there.as_ref().map_or(IfRev::Absent, |record| IfRev::Is(record.rev)),
            put: Some(Put {
                value: Json::from_value("crashes", &kept, RECORD_BYTES_MAX)?,
                sort: 0,
                label: None,
                keep: Keep::ForMs(KEEP_MS),
            }),
        };
        let mut batch = RecordBatch::new(new_id(&*api.world).0);
        batch.writes.push(write);
        let answer = records.write(batch).await;
        let done = matches!(answer, Ok(BatchAnswer::Done { .. }));
        api.feed.crashes(|crashes| match done {
            true => crashes.kept = position,
            false => crashes.changed = true,
        });
        if answer.map(|_| done)? {
            return Ok(());
        }
    }
    // Others write at the same time: the next minute is soon enough.
    Ok(())
}

impl Crashes {
    /// Learns what was kept.
    pub(super) fn learn(&mut self, kept: Kept) {
        let Kept { position, crashes } = kept;
        for crash in crashes {
            self.add(crash);
        }
        self.position = position.and_then(|text| text.parse().ok());
        self.kept = self.position;
    }

    fn as_kept(&self) -> Kept {
        let mut crashes: Vec<Crash> = self.known.values().cloned().collect();
        crashes.sort_by(|one, other| (other.at, &other.worker).cmp(&(one.at, &one.worker)));
        Kept { position: self.position.map(|position| position.to_string()), crashes }
    }

    /// Whether there is something to keep.
    fn is_due(&self) -> bool {
        self.changed || moved(self.kept, self.position)
    }
}

/// Whether a position has moved far enough to be kept. One that was never kept is, once there is anything behind it.
fn moved(kept: Option<Position>, position: Option<Position>) -> bool {
    match (kept, position) {
        (_, None) => false,
        (None, Some(position)) => position.place >= MOVED,
        (Some(kept), Some(position)) => {
            kept.epoch != position.epoch || position.place >= kept.place.saturating_add(MOVED)
        }
    }
}
