//! The last crashes as one record beside the jobs, with the position of the events up to which they are known.

use serde::{Deserialize, Serialize};
use windlass_engine::core::error::StoreError;
use windlass_engine::core::event::Position;
use windlass_engine::core::id::{RecordKey, ShelfName};
use windlass_engine::core::json::Json;
use windlass_engine::core::record::{IfRev, Keep, Put, RECORD_BYTES_MAX, Record, RecordWrite, Records};
use windlass_engine::core::store::Store;

use super::{Crash, Crashes};

/// Where it lies.
const SHELF: &str = "windlass.crashes";
const KEY: &str = "last";
/// How long it is of use when nothing happens any more.
const KEEP_MS: u64 = 30 * 24 * 3_600_000;
/// A position that has moved by this many events is worth a write, since whoever starts reads what is behind it.
const MOVED: u64 = 1_000;

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

/// The record as it is, if there is one.
pub async fn record(records: &dyn Records) -> Result<Option<Record>, StoreError> {
    Ok(records.read(ShelfName::new(SHELF)?, vec![RecordKey::new(KEY)?]).await?.pop().flatten())
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

    /// The write that keeps them, with the position up to which it does. What another server has kept is learned on the way.
    pub fn to_keep(&mut self, there: Option<&Record>) -> Result<(RecordWrite, Option<Position>), StoreError> {
        let known = there.and_then(|record| record.value.read::<Kept>().ok());
        for crash in known.into_iter().flat_map(|kept| kept.crashes) {
            self.add(crash);
        }
        self.changed = false;
        let put = Put {
            value: Json::from_value("crashes", &self.as_kept(), RECORD_BYTES_MAX)?,
            sort: 0,
            label: None,
            keep: Keep::ForMs(KEEP_MS),
        };
        let write = RecordWrite {
            shelf: ShelfName::new(SHELF)?,
            key: RecordKey::new(KEY)?,
            if_rev: there.map_or(IfRev::Absent, |record| IfRev::Is(record.rev)),
            put: Some(put),
        };
        Ok((write, self.position))
    }

    /// They are kept up to a position.
    pub fn kept(&mut self, position: Option<Position>) {
        self.kept = position;
    }

    /// What was to be kept is not.
    pub fn not_kept(&mut self) {
        self.changed = true;
    }

    fn as_kept(&self) -> Kept {
        let mut crashes: Vec<Crash> = self.known.values().cloned().collect();
        crashes.sort_by(|one, other| (other.at, &other.worker).cmp(&(one.at, &one.worker)));
        Kept { position: self.position.map(|position| position.to_string()), crashes }
    }

    /// Whether there is something to keep.
    pub fn is_due(&self) -> bool {
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
