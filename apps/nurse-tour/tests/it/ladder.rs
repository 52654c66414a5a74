//! The ladder, on a clock that the test owns.

use std::sync::Arc;

use windlass_engine::core::time::{Clock, Time};
use windlass_engine::world::SimWorld;
use windlass_standins::Fault;

use crate::inside::Inside;
use crate::scene::Scene;

/// The first retry really comes after one minute, then 5, 15 and 30, each with
/// a little jitter, and after five tries the message has failed.
#[tokio::test(flavor = "multi_thread")]
async fn the_ladder_of_the_seed() {
    let sim = SimWorld::new(7);
    let mut scene = Scene::new().await;
    scene.openai.faults.always(Fault::Status(503, None));
    scene.set("WORKER_POLL_INTERVAL_MS", "1000");
    // Its time runs faster than what happens outside of it: no lock of a few seconds would hold.
    scene.set("WORKER_LOCK_DURATION_MINUTES", "10");
    scene.message("SM1").await;
    // The row says the database's time; the clock of this test is another one.
    scene.sql("UPDATE whatsapp_inbound_messages SET received_at = '2026-01-01T00:00:00Z'").await;
    let clock: Arc<dyn Clock> = Arc::new(sim.clone());
    let running = Inside::start(&scene, Arc::new(sim.clone()), Some(clock)).await;
    let mut waits = 0;
    for _ in 0..20_000 {
        match scene.of("SM1", "processing_status").await.as_deref() {
            Some("FAILED") => break,
            Some("RETRY") => {
                // Nothing happens until then: the time is let pass at once.
                let next: Time = scene.of("SM1", "next_attempt_at").await.unwrap().parse().unwrap();
                let wait_ms = next.ms_since(sim.wall());
                waits += u32::from(wait_ms > 0);
                sim.advance(wait_ms);
            }
            _ => {}
        }
        sim.step(1_000).await;
    }
    assert_eq!(waits, 4);
    running.stop_in(&sim).await;
    scene.is("SM1", "processing_status", "FAILED").await;
    scene.is("SM1", "retry_count", "5").await;
    scene.is("SM1", "failed_stage", "TRANSCRIBED").await;
    scene.is("SM1", "failed_reason", "transient openai.upstream status=503").await;
    let rows = scene
        .client
        .query(
            "SELECT outcome, extract(epoch FROM at - lag(at) OVER (ORDER BY seq))::float8 FROM nurse_tour_audit \
             WHERE outcome <> 'stage' ORDER BY seq",
            &[],
        )
        .await
        .unwrap();
    let outcomes: Vec<&str> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(outcomes, ["retry", "retry", "retry", "retry", "failed"]);
    for (row, minutes) in rows[1..].iter().zip([1.0, 5.0, 15.0, 30.0]) {
        let waited: f64 = row.get(1);
        // A fifth of jitter, and the time that the poll and the attempt took.
        let longest = minutes * 60.0 * 1.2 + 30.0;
        assert!((minutes * 60.0..longest).contains(&waited), "{minutes} min: {waited} s");
    }
    assert_eq!(scene.asked("transcriptions"), 5);
}
