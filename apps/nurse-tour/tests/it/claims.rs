//! What a claim and the sweep read: the messages that they take, and not those that wait.

use std::sync::Arc;

use uuid::Uuid;
use windlass_engine::core::id::{QueueName, WorkerName};
use windlass_engine::core::store::{ClaimRequest, Source};
use windlass_nurse_tour::mapping::QUEUE;
use windlass_postgres::adopted::AdoptedTable;
use windlass_testkit::eventually::eventually;

use crate::inside::table;
use crate::scene::Scene;

async fn claim(table: &AdoptedTable, limit: u32) -> Vec<String> {
    let request = ClaimRequest {
        request_id: Uuid::from_u128(1),
        worker: WorkerName::new("w").unwrap(),
        queues: vec![QueueName::new(QUEUE).unwrap()],
        kinds: None,
        limit,
        lease_ms: None,
    };
    #[derive(serde::Deserialize)]
    struct Row {
        message_sid: String,
    }
    let leases = table.claim(request).await.unwrap().leases;
    leases.iter().map(|leased| leased.job.spec.payload.read::<Row>().unwrap().message_sid).collect()
}

/// Messages that were read so far, by whatever way.
async fn read(scene: &Scene) -> i64 {
    scene
        .count("SELECT coalesce(idx_tup_fetch, 0) + seq_tup_read FROM pg_stat_user_tables WHERE relname = 'whatsapp_inbound_messages'")
        .await
}

/// Six thousand messages are held by others or wait for their next try, all of
/// them older than those that may be claimed. One claim is counted, and a program makes many: so this one is inside.
#[tokio::test(flavor = "multi_thread")]
async fn messages_that_wait_are_not_read() {
    let scene = Scene::new().await;
    scene
        .sql(
            "INSERT INTO whatsapp_inbound_messages (message_sid, agency_id, message_type, processing_status, retry_count, received_at, \
             locked_by, locked_until, next_attempt_at) \
             SELECT 'SM' || n, 'agency-1', 'voice', CASE WHEN n > 6000 THEN 'READY' WHEN n % 2 = 0 THEN 'PROCESSING' ELSE 'RETRY' END, \
             1, to_char(now() AT TIME ZONE 'UTC' + n * interval '1 ms', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"'), 'other', \
             CASE WHEN n % 2 = 0 THEN (now() + interval '1 hour')::text END, CASE WHEN n <= 6000 THEN (now() + interval '1 hour')::text END \
             FROM generate_series(1, 6010) n",
        )
        .await;
    scene.sql("VACUUM ANALYZE whatsapp_inbound_messages").await;
    let table = table(&scene, None).await;
    let before = read(&scene).await;
    assert_eq!(claim(&table, 5).await, ["SM6001", "SM6002", "SM6003", "SM6004", "SM6005"]);
    assert!(table.expire().await.unwrap().jobs.is_empty());
    // A connection that ends says what it has read.
    drop(Arc::into_inner(table));
    let told = async || Some(read(&scene).await - before).filter(|read| *read >= 5);
    let read = eventually("the statistics are told", told).await;
    // Five are found and written; the sweep looks at 256 locks for the next that runs out, of which it may pass
    // some messages without one, and so does whoever watches the table.
    assert!(read <= 2_000, "{read} messages were read to claim 5");
}

/// The oldest first, by the moment and not by the letters.
#[tokio::test(flavor = "multi_thread")]
async fn the_oldest_first_in_whatever_form() {
    let scene = Scene::new().await;
    for (sid, received_at) in [
        ("SM1", "2026-01-19T12:00:00+02:00"),
        ("SM2", "2026-01-19 10:30:00"),
        ("SM3", "2026-01-19T10:15:00.000Z"),
        ("SM4", "20260119T104500Z"),
        // Behind the others it could wait for ever.
        ("SM5", "yesterday"),
    ] {
        scene.message(sid).await;
        let set = "UPDATE whatsapp_inbound_messages SET received_at = $1 WHERE message_sid = $2";
        scene.client.execute(set, &[&received_at, &sid]).await.unwrap();
    }
    let running = scene.start().await;
    running.until_said("Claimed").await;
    let said = running.said();
    let claimed = said.lines().find(|line| line.contains("Claimed")).unwrap();
    assert!(claimed.contains("messageSids=\"SM5 SM1 SM3 SM2 SM4\""), "{claimed}");
    running.stop().await;
}
