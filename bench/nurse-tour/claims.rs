//! How long a claim takes, beside messages that are none of its business.

use std::sync::Arc;

use anyhow::bail;
use nurse_tour::mapping::{QUEUE, mapping};
use nurse_tour::schema::Types;
use nurse_tour::settings;
use uuid::Uuid;
use windlass_engine::core::id::{QueueName, WorkerName};
use windlass_engine::core::store::{ClaimRequest, Leased, Settlement, Source};
use windlass_engine::core::transition::Outcome;
use windlass_engine::world::monotonic_ns;
use windlass_postgres::adopted::AdoptedTable;
use windlass_postgres::{Options, pool_of};

use crate::place::Place;
use crate::spread::Spread;

/// Messages that others hold, all of them older than those that may be claimed.
const HELD: &str = "INSERT INTO whatsapp_inbound_messages (message_sid, agency_id, message_type, processing_status, locked_by, \
    locked_until, received_at) SELECT 'HELD' || n, 'agency-1', 'voice', 'PROCESSING', 'other', \
    to_char(now() AT TIME ZONE 'UTC' + interval '1 day', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"'), \
    to_char(now() AT TIME ZONE 'UTC' - n * interval '1 s', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"') FROM generate_series(1, $1::bigint) n";

const FINISHED: &str = "INSERT INTO whatsapp_inbound_messages (message_sid, agency_id, message_type, processing_status, current_stage, \
    received_at) SELECT 'OLD' || n, 'agency-1', 'voice', 'DONE', 'COMPLETED', \
    to_char(now() AT TIME ZONE 'UTC' - n * interval '1 s', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"') FROM generate_series(1, $1::bigint) n";

pub async fn claims(finished: i64, held: i64, count: i64) -> anyhow::Result<()> {
    let place = Place::new().await?;
    place.client.execute(FINISHED, &[&finished]).await?;
    place.messages(count * 10).await?;
    // What the million left to be written to the disk is none of a claim's business.
    place.client.batch_execute("CHECKPOINT").await?;
    let pool = pool_of(&place.database.url(), &Options::default())?;
    let mapping = mapping(&settings::Worker::default(), &Types::read(&pool).await?);
    let table: Arc<dyn Source> =
        AdoptedTable::open(&place.database.url(), Options::default(), mapping).await?;
    let times = measure(&*table, 0..count).await?;
    println!("{count} claims of 5 beside {finished} finished: {}", Spread(times));
    place.client.execute(HELD, &[&held]).await?;
    let times = measure(&*table, count..2 * count).await?;
    println!("{count} claims of 5 beside {finished} finished and {held} held: {}", Spread(times));
    Ok(())
}

/// The milliseconds that each claim took.
async fn measure(table: &dyn Source, numbers: std::ops::Range<i64>) -> anyhow::Result<Vec<f64>> {
    let mut times = Vec::new();
    for n in numbers {
        let request = ClaimRequest {
            request_id: Uuid::from_u128(n as u128 + 1),
            worker: WorkerName::new("bench")?,
            queues: vec![QueueName::new(QUEUE)?],
            kinds: None,
            limit: 5,
            lease_ms: None,
        };
        let began = monotonic_ns();
        let leases = table.claim(request).await?.leases;
        times.push((monotonic_ns() - began) as f64 / 1e6);
        if leases.len() != 5 {
            bail!("a claim gave {} messages", leases.len());
        }
        // Not measured.
        let end = |leased: &Leased| Settlement { lease: leased.lease_ref(), outcome: Outcome::DONE };
        table.settle(leases.iter().map(end).collect()).await?;
    }
    Ok(times)
}
