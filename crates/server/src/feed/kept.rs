//! The history as records beside the jobs, so that charts outlive a restart and servers of one store show the same.
//!
//! A record holds ten minutes, and the position of the events up to which they are counted: a server that starts reads them,
//! counts on from the newest position, and writes what has changed once a minute and at its end. On a store that keeps no
//! records the history begins with the server.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use windlass_engine::core::error::StoreError;
use windlass_engine::core::event::Position;
use windlass_engine::core::id::{RecordKey, ShelfName};
use windlass_engine::core::json::Json;
use windlass_engine::core::record::{
    BatchAnswer, IfRev, Keep, Order, Put, READ_MAX, RECORD_BYTES_MAX, Record, RecordBatch, RecordWrite,
    Records, Scan, ScanCursor,
};
use windlass_engine::core::store::{EVENTS_KEPT, EVENTS_MAX};
use windlass_engine::world::new_id;

use super::crashes;
use super::history::{BLOCK_MINUTES, Block, History, MINUTES, oldest_block};
use crate::api::Api;

/// The shelf.
const SHELF: &str = "windlass.history";
/// How often it is written down.
const EVERY_MS: u64 = 60_000;
/// How long a record is of use.
const KEEP_MS: u64 = (MINUTES + 2 * BLOCK_MINUTES) as u64 * 60_000;
/// How long the end of a server waits for the store.
const END_MS: u64 = 1_000;
/// How often it is tried when another server writes the same.
const TRIES: usize = 3;

/// What a record says.
#[derive(Serialize, Deserialize)]
struct Kept {
    position: Option<String>,
    minutes: Block,
}

impl Kept {
    fn position(&self) -> Option<Position> {
        self.position.as_ref().and_then(|text| text.parse().ok())
    }
}

/// Writes down what has changed, for as long as it is let.
pub(crate) async fn keep(api: Arc<Api>) {
    loop {
        api.world.sleep_ms(EVERY_MS).await;
        write(&api).await;
        crashes::write(&api).await;
    }
}

/// Writes down what is left when the server ends.
pub(crate) async fn keep_rest(api: &Api) {
    let all = async {
        write(api).await;
        crashes::write(api).await;
    };
    tokio::select! {
        () = all => {}
        () = api.world.sleep_ms(END_MS) => tracing::warn!("the newest minutes of the charts are not kept: the store does not answer"),
    }
}

async fn write(api: &Api) {
    let changed = api.feed.lock().history.take_changed();
    let Ok(records) = api.store.records() else { return };
    if changed.is_empty() {
        return;
    }
    if let Err(error) = write_blocks(api, records, &changed).await {
        tracing::warn!(%error, "the newest minutes of the charts are not kept; trying again");
        api.feed.lock().history.put_back(changed);
    }
}

/// All blocks are one commit, so that the newest position is that of every record.
async fn write_blocks(api: &Api, records: &dyn Records, changed: &BTreeSet<i64>) -> Result<(), StoreError> {
    let now = api.store.now().await?;
    api.feed.lock().history.forget(now);
    let changed: Vec<i64> = changed.range(oldest_block(now)..).rev().take(READ_MAX).copied().collect();
    let keys: Vec<RecordKey> = changed.iter().map(|block| key_of(*block)).collect::<Result<_, _>>()?;
    for _ in 0..TRIES {
        let there = records.read(ShelfName::new(SHELF)?, keys.clone()).await?;
        // At one moment: an event that is counted in between would be behind the position, and in no record.
        let (position, counted) = {
            let feed = api.feed.lock();
            let counted: Vec<Block> = changed.iter().map(|block| feed.history.of_block(*block)).collect();
            (feed.history.position(), counted)
        };
        let mut batch = RecordBatch::new(new_id(&*api.world).0);
        for ((block, minutes), record) in changed.iter().zip(counted).zip(&there) {
            batch.writes.push(one(*block, minutes, position, record.as_ref())?);
        }
        if let BatchAnswer::Done { .. } = records.write(batch).await? {
            return Ok(());
        }
    }
    // Others write at the same time: the next minute is soon enough.
    api.feed.lock().history.put_back(changed.into_iter().collect());
    Ok(())
}

/// A block with what others have counted in it. What is counted here stays as it is: it goes on from its own position.
fn one(
    block: i64,
    mut minutes: Block,
    mut position: Option<Position>,
    there: Option<&Record>,
) -> Result<RecordWrite, StoreError> {
    if let Some(kept) = there.and_then(|record| record.value.read::<Kept>().ok()) {
        minutes.merge(&kept.minutes);
        position = further(kept.position(), position);
    }
    let kept = Kept { position: position.map(|position| position.to_string()), minutes };
    let value = Json::from_value("minutes", &kept, RECORD_BYTES_MAX)?;
    Ok(RecordWrite {
        shelf: ShelfName::new(SHELF)?,
        key: key_of(block)?,
        if_rev: there.map_or(IfRev::Absent, |record| IfRev::Is(record.rev)),
        put: Some(Put { value, sort: block, label: None, keep: Keep::ForMs(KEEP_MS) }),
    })
}

/// The further of two positions; of two epochs, that of the newer.
fn further(older: Option<Position>, newer: Option<Position>) -> Option<Position> {
    match (older, newer) {
        (Some(older), Some(newer)) if newer.is_behind(older) => Some(older),
        (older, newer) => newer.or(older),
    }
}

fn key_of(block: i64) -> Result<RecordKey, StoreError> {
    Ok(RecordKey::new(block.to_string())?)
}

/// What was kept, and what happened since, up to `end`, where the feed begins.
pub(super) async fn recalled(api: &Api, end: Position) -> Result<History, StoreError> {
    let mut history = History::default();
    if let Ok(records) = api.store.records() {
        let oldest = ScanCursor { at: oldest_block(api.store.now().await?), key: String::new() };
        let scan = Scan { order: Order::Sort, after: Some(oldest), ..Scan::of(ShelfName::new(SHELF)?) };
        let mut position = None;
        // A day has fewer blocks than a scan gives records.
        for record in records.scan(scan).await?.records {
            let Ok(kept) = record.value.read::<Kept>() else { continue };
            position = further(position, kept.position());
            history.learn(record.sort, &kept.minutes);
        }
        if let Some(position) = position {
            count_missed(api, &mut history, position, end).await?;
        }
    }
    history.go_on_at(end);
    Ok(history)
}

/// Counts what happened behind `since` and not behind `end`.
async fn count_missed(
    api: &Api,
    history: &mut History,
    mut since: Position,
    end: Position,
) -> Result<(), StoreError> {
    // So many are kept at most.
    for _ in 0..EVENTS_KEPT / u64::from(EVENTS_MAX) {
        let events = match api.store.events(Some(since), EVENTS_MAX).await {
            // What was counted in a history that was lost stays counted.
            Err(StoreError::AnotherEpoch(_)) => return Ok(()),
            events => events?,
        };
        for event in events.iter().filter(|event| event.position.is_behind(end)) {
            history.count(event);
        }
        match events.last() {
            Some(last) if last.position.is_behind(end) && last.position != end => since = last.position,
            _ => return Ok(()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use windlass_engine::core::id::{JobId, Kind, QueueName};
    use windlass_engine::core::job::{JobSpec, NewJob, Start};
    use windlass_engine::core::memory::MemoryStore;
    use windlass_engine::core::store::Store;
    use windlass_engine::core::time::Clock;
    use windlass_engine::world::{SimWorld, World};

    use super::super::{Span, read_on};
    use super::*;
    use crate::settings::Settings;

    const MINUTE_MS: u64 = 60_000;

    struct House {
        world: SimWorld,
        store: Arc<MemoryStore>,
        jobs: u128,
    }

    impl House {
        fn new() -> Self {
            let world = SimWorld::new(1);
            let store = Arc::new(MemoryStore::new(Arc::new(world.clone())));
            Self { world, store, jobs: 0 }
        }

        fn server(&self) -> Api {
            Api::new(self.store.clone(), Settings::default(), Arc::new(self.world.clone()) as Arc<dyn World>)
        }

        async fn enqueue(&mut self, jobs: usize) {
            for _ in 0..jobs {
                self.jobs += 1;
                let queue = QueueName::new("mail").unwrap();
                let spec = JobSpec::new(Kind::new("k").unwrap(), queue, Json::null());
                let id = JobId(uuid::Uuid::from_u128(self.jobs));
                self.store.enqueue(vec![NewJob { id, spec, start: Start::Now }]).await.unwrap();
            }
        }

        fn pass(&self, minutes: u64) {
            self.world.advance(minutes * MINUTE_MS);
        }
    }

    /// What a server shows of the last hour, its newest minutes.
    fn shown<const N: usize>(api: &Api, house: &House) -> [u64; N] {
        let now = house.world.wall();
        let hour = api.feed.rings(|rings| rings.history.points(None, Span::Hour, now));
        hour.enqueued[60 - N..].try_into().unwrap()
    }

    #[tokio::test]
    async fn charts_outlive_a_restart_and_know_what_nobody_saw() {
        let mut house = House::new();
        let (first, mut at) = (house.server(), None);
        read_on(&first, &mut at).await.unwrap();
        house.enqueue(3).await;
        house.pass(1);
        house.enqueue(2).await;
        read_on(&first, &mut at).await.unwrap();
        write(&first).await;
        drop(first);
        // Nobody is there.
        house.enqueue(1).await;
        house.pass(1);
        house.enqueue(4).await;
        let (second, mut at) = (house.server(), None);
        read_on(&second, &mut at).await.unwrap();
        house.pass(1);
        assert_eq!(shown(&second, &house), [0, 3, 3, 4]);
        let quarter = second.feed.rings(|rings| rings.throughput(house.world.wall()));
        let jobs: f64 = quarter.enqueued.iter().sum::<f64>() * quarter.step_seconds as f64;
        assert_eq!(jobs.round(), 10.0);
        // What is read again is not counted again, and is no event since the server started.
        read_on(&second, &mut at).await.unwrap();
        assert_eq!(shown(&second, &house), [0, 3, 3, 4]);
        assert!(second.feed.rings(|rings| rings.totals().is_empty()));
    }

    /// Two servers count the same events; one that is behind takes nothing back, and learns nothing that it would count again.
    #[tokio::test]
    async fn two_servers_of_a_store_count_every_job_once() {
        let mut house = House::new();
        let (ahead, behind) = (house.server(), house.server());
        let (mut at_ahead, mut at_behind) = (None, None);
        read_on(&ahead, &mut at_ahead).await.unwrap();
        read_on(&behind, &mut at_behind).await.unwrap();
        house.enqueue(2).await;
        read_on(&behind, &mut at_behind).await.unwrap();
        house.enqueue(3).await;
        read_on(&ahead, &mut at_ahead).await.unwrap();
        write(&ahead).await;
        write(&behind).await;
        read_on(&behind, &mut at_behind).await.unwrap();
        write(&behind).await;
        let third = house.server();
        read_on(&third, &mut None).await.unwrap();
        house.pass(1);
        for server in [&ahead, &behind, &third] {
            assert_eq!(shown(server, &house), [0, 5]);
        }
    }

    /// A store that was restored begins other positions: what was counted stays, and counting goes on.
    #[tokio::test]
    async fn another_epoch_is_no_end_of_the_charts() {
        let mut house = House::new();
        let (first, mut at) = (house.server(), None);
        read_on(&first, &mut at).await.unwrap();
        house.enqueue(2).await;
        read_on(&first, &mut at).await.unwrap();
        write(&first).await;
        house.store.book().turn(uuid::Uuid::from_u128(7 << 96), 1, true, house.world.wall());
        let (second, mut at) = (house.server(), None);
        read_on(&second, &mut at).await.unwrap();
        house.enqueue(1).await;
        read_on(&second, &mut at).await.unwrap();
        house.pass(1);
        assert_eq!(shown(&second, &house), [0, 3]);
    }
}
