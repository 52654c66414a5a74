//! The 26 weaknesses of the worker that came before, each as a test that it
//! would have failed. Number 16 is in `errors.rs`, 11 to 13 are in `people.rs`,
//! 19 is in `log.rs` of the app, 22 in `webhook.rs`.

use std::sync::Arc;

use async_trait::async_trait;
use windlass_engine::core::time::{Clock, Time};
use windlass_engine::world::{RealWorld, SimWorld, World};
use windlass_standins::{Fault, Server};
use windlass_testkit::eventually::eventually;

use crate::inside::Inside;
use crate::scene::Scene;

async fn scene() -> Scene {
    let scene = Scene::new().await;
    scene.message("SM1").await;
    scene
}

/// Waits until OpenAI was asked this often.
async fn asked(scene: &Scene, count: usize) {
    eventually("OpenAI is asked", async || (scene.openai.asked().len() >= count).then_some(())).await;
}

async fn becomes(scene: &Scene, sid: &str, status: &str) {
    let is = async || (scene.of(sid, "processing_status").await.as_deref() == Some(status)).then_some(());
    eventually(&format!("{sid} becomes {status}"), is).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn weakness_01_times_are_compared_as_times() {
    let scene = scene().await;
    for sid in ["SM2", "SM3"] {
        scene.message(sid).await;
    }
    // As text the first two are later than any moment in UTC, and the third is earlier.
    let sql = "UPDATE whatsapp_inbound_messages SET next_attempt_at = CASE message_sid \
               WHEN 'SM1' THEN to_char(now() AT TIME ZONE 'UTC' + interval '13 hours', 'YYYY-MM-DD\"T\"HH24:MI:SS') || '+14:00' \
               WHEN 'SM2' THEN '9 is not a moment' \
               ELSE to_char(now() AT TIME ZONE 'UTC' - interval '11 hours', 'YYYY-MM-DD HH24:MI:SS') || '-12:00' END";
    scene.sql(sql).await;
    let running = scene.start().await;
    becomes(&scene, "SM1", "DONE").await;
    becomes(&scene, "SM2", "DONE").await;
    scene.is("SM3", "processing_status", "READY").await;
    running.stop().await;
}

/// A world whose wall clock is two hours ahead.
struct Ahead(RealWorld);

impl Clock for Ahead {
    fn wall(&self) -> Time {
        self.0.wall().plus_ms(7_200_000)
    }

    fn boot_ms(&self) -> u64 {
        self.0.boot_ms()
    }

    fn boot_id(&self) -> uuid::Uuid {
        self.0.boot_id()
    }
}

#[async_trait]
impl World for Ahead {
    async fn sleep_ms(&self, ms: u64) {
        self.0.sleep_ms(ms).await;
    }

    fn chance(&self) -> u64 {
        self.0.chance()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn weakness_02_only_the_database_knows_the_time() {
    let scene = scene().await;
    scene.message("SM2").await;
    scene.sql("UPDATE whatsapp_inbound_messages SET next_attempt_at = (now() + interval '1 hour')::text WHERE message_sid = 'SM2'").await;
    scene.message("SM3").await;
    scene
        .sql(
            "UPDATE whatsapp_inbound_messages SET processing_status = 'PROCESSING', locked_by = 'other', \
         locked_until = (now() + interval '1 hour')::text WHERE message_sid = 'SM3'",
        )
        .await;
    let running = Inside::start(&scene, Arc::new(Ahead(RealWorld::new())), None).await;
    becomes(&scene, "SM1", "DONE").await;
    running.stop().await;
    scene.is("SM2", "processing_status", "READY").await;
    scene.is("SM3", "locked_by", "other").await;
    let skew = "SELECT count(*) FROM whatsapp_inbound_messages \
                WHERE message_sid = 'SM1' AND abs(extract(epoch FROM now() - nurse_tour_moment(processed_at))) < 60";
    assert_eq!(scene.count(skew).await, 1);
}

const EXPIRED: &str = "processing_status = 'PROCESSING', locked_by = 'gone', locked_until = (now() - interval '1 minute')::text";

#[tokio::test(flavor = "multi_thread")]
async fn weakness_03_expired_and_exhausted_is_closed() {
    let scene = scene().await;
    scene.sql(&format!("UPDATE whatsapp_inbound_messages SET {EXPIRED}, retry_count = 5")).await;
    scene.message("SM2").await;
    scene.sql("UPDATE whatsapp_inbound_messages SET retry_count = 7 WHERE message_sid = 'SM2'").await;
    scene.drain().await;
    scene.is("SM1", "processing_status", "FAILED").await;
    scene.is("SM2", "processing_status", "FAILED").await;
    let told = "SELECT count(*) FROM nurse_tour_audit WHERE outcome IN ('crashed', 'exhausted') AND to_status = 'FAILED'";
    assert_eq!(scene.count(told).await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn weakness_04_a_message_that_kills_its_worker_is_failed() {
    let scene = scene().await;
    scene
        .sql(&format!("UPDATE whatsapp_inbound_messages SET {EXPIRED}, retry_count = 2, crash_count = 2"))
        .await;
    scene.drain().await;
    scene.is("SM1", "processing_status", "FAILED").await;
    scene.is("SM1", "crash_count", "3").await;
    assert!(scene.openai.asked().is_empty() && scene.twilio.asked().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn weakness_05_deploys_cost_no_try() {
    let mut scene = scene().await;
    scene.set("WORKER_GRACE_SECONDS", "0.1");
    scene.set("WORKER_REQUEUE_SECONDS", "0");
    scene.openai.faults.always(Fault::HoldHead);
    for deploy in 1..=6 {
        let running = scene.start().await;
        asked(&scene, deploy).await;
        running.stop().await;
        scene.is("SM1", "processing_status", "RETRY").await;
        scene.is("SM1", "retry_count", "0").await;
    }
    scene.openai.faults.clear();
    scene.openai.faults.release();
    scene.drain().await;
    scene.is("SM1", "processing_status", "DONE").await;
    assert_eq!(scene.twilio.asked().len(), 1, "the audio was archived once");
}

#[tokio::test(flavor = "multi_thread")]
async fn weakness_06_a_killed_workers_message_is_taken_over() {
    let scene = scene().await;
    scene.sql(&format!("UPDATE whatsapp_inbound_messages SET {EXPIRED}, retry_count = 1")).await;
    scene.message("SM2").await;
    scene.sql("UPDATE whatsapp_inbound_messages SET processing_status = 'PROCESSING', locked_until = NULL WHERE message_sid = 'SM2'").await;
    scene.drain().await;
    scene.is("SM1", "processing_status", "DONE").await;
    scene.is("SM2", "processing_status", "DONE").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn weakness_07_a_lock_is_renewed_while_the_worker_lives() {
    let mut scene = scene().await;
    scene.set("WORKER_LOCK_DURATION_MINUTES", "0.02");
    scene.openai.faults.push(Fault::HoldHead);
    let one = scene.start().await;
    let two = scene.start_as("worker_2").await;
    asked(&scene, 1).await;
    let first = scene.of("SM1", "locked_until").await.unwrap();
    let renewed = async || scene.of("SM1", "locked_until").await.filter(|until| *until > first);
    let second = eventually("the lock is renewed", renewed).await;
    eventually("and again", async || scene.of("SM1", "locked_until").await.filter(|until| *until > second))
        .await;
    scene.openai.faults.release();
    becomes(&scene, "SM1", "DONE").await;
    one.stop().await;
    two.stop().await;
    let claims = "SELECT count(DISTINCT fence) FROM nurse_tour_audit";
    assert_eq!(scene.count(claims).await, 1, "nobody else has claimed it");
    assert_eq!((scene.asked("transcriptions"), scene.documents().await), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn weakness_08_a_worker_without_its_lease_stops_at_once() {
    let mut scene = scene().await;
    scene.set("WORKER_LOCK_DURATION_MINUTES", "0.05");
    scene.openai.faults.push(Fault::HoldHead);
    let running = scene.start().await;
    asked(&scene, 1).await;
    // Another worker has it now.
    scene.sql("UPDATE whatsapp_inbound_messages SET fence = fence + 1, locked_by = 'other', locked_until = (now() + interval '1 hour')::text").await;
    scene.openai.faults.release();
    let lost = async || (scene.openai.asked().len() == 1).then_some(());
    eventually("it stays with one call", lost).await;
    let summary = running.stop().await;
    assert_eq!((summary.claimed, summary.settled), (1, 0));
    scene.is("SM1", "processing_status", "PROCESSING").await;
    scene.is("SM1", "locked_by", "other").await;
    scene.is("SM1", "current_stage", "AUDIO_STORED").await;
    assert_eq!(scene.asked("completions"), 0, "no further call was made");
    let late = "SELECT count(*) FROM nurse_tour_audit WHERE to_stage = 'TRANSCRIBED'";
    assert_eq!(scene.count(late).await, 0, "and nothing more was written");
}

#[tokio::test(flavor = "multi_thread")]
async fn weakness_09_a_message_with_its_document_is_finished() {
    let scene = scene().await;
    scene
        .sql(&format!(
            "UPDATE whatsapp_inbound_messages SET {EXPIRED}, current_stage = 'DOC_CREATED', media_blob_id = 'audio/agency-1/SM1.ogg', \
             transcript_text = 't', analysis_json = '{{}}', document_id = 'pd_SM1'; \
             INSERT INTO pending_care_documentations (id, agency_id, message_sid) VALUES ('pd_SM1', 'agency-1', 'SM1')"
        ))
        .await;
    scene.drain().await;
    scene.is("SM1", "processing_status", "DONE").await;
    scene.is("SM1", "current_stage", "COMPLETED").await;
    assert!(scene.openai.asked().is_empty() && scene.twilio.asked().is_empty());
    assert_eq!(scene.documents().await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn weakness_10_no_count_is_a_count_of_none() {
    let scene = scene().await;
    scene.sql("UPDATE whatsapp_inbound_messages SET retry_count = NULL, current_stage = NULL").await;
    scene.drain().await;
    scene.is("SM1", "processing_status", "DONE").await;
    scene.is("SM1", "retry_count", "0").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn weakness_14_a_stage_is_a_proof() {
    let mut scene = scene().await;
    scene.set("WORKER_MAX_RETRIES", "2");
    scene.set("WORKER_RETRY_LADDER", "10ms");
    // Where the folder should be is a file.
    let blocked = scene.folder.path().join("audio/audio");
    std::fs::create_dir_all(scene.folder.path().join("audio")).unwrap();
    std::fs::write(&blocked, "in the way").unwrap();
    scene.drain().await;
    scene.is("SM1", "processing_status", "FAILED").await;
    scene.is("SM1", "current_stage", "RECEIVED").await;
    assert!(scene.openai.asked().is_empty(), "what is not archived is not transcribed");
    std::fs::remove_file(&blocked).unwrap();
    // The worker before said so without having done it.
    scene.message("SM2").await;
    scene.sql("UPDATE whatsapp_inbound_messages SET current_stage = 'TRANSCRIBED', transcript_text = 'said', media_blob_id = NULL WHERE message_sid = 'SM2'").await;
    scene.drain().await;
    scene.is("SM2", "processing_status", "DONE").await;
    scene.is("SM2", "media_blob_id", "audio/agency-1/SM2.ogg").await;
    scene.is("SM2", "transcript_text", "said").await;
    assert_eq!(scene.asked("transcriptions"), 0, "what was transcribed is not paid for again");
}

#[tokio::test(flavor = "multi_thread")]
async fn weakness_15_the_language_is_detected() {
    let mut scene = scene().await;
    scene.drain().await;
    scene.is("SM1", "transcript_language", "german").await;
    scene.set("TRANSCRIBE_LANGUAGE", "tr");
    scene.message("SM2").await;
    scene.drain().await;
    scene.is("SM2", "transcript_language", "tr").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn weakness_17_a_slow_note_holds_back_nobody() {
    let mut scene = scene().await;
    scene.set("WORKER_CONCURRENCY", "2");
    scene.set("WORKER_BATCH_SIZE", "2");
    scene.openai.faults.push(Fault::HoldHead);
    let running = scene.start().await;
    asked(&scene, 1).await;
    for n in 2..=7 {
        scene.message(&format!("SM{n}")).await;
    }
    for n in 2..=7 {
        becomes(&scene, &format!("SM{n}"), "DONE").await;
    }
    scene.is("SM1", "processing_status", "PROCESSING").await;
    scene.openai.faults.release();
    becomes(&scene, "SM1", "DONE").await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn weakness_18_nothing_waits_for_ever() {
    let mut scene = scene().await;
    scene.set("WORKER_RETRY_LADDER", "10ms");
    scene.set("WORKER_MAX_RETRIES", "2");
    scene.set("OPENAI_TIMEOUT_SECONDS", "0.1");
    scene.openai.faults.always(Fault::HoldHead);
    scene.drain().await;
    scene.is("SM1", "processing_status", "FAILED").await;
    scene.is("SM1", "failed_reason", "transient openai.timeout").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn weakness_20_shutdown_lets_stages_finish_and_writes_nothing_after() {
    let mut scene = scene().await;
    scene.set("WORKER_GRACE_SECONDS", "20");
    scene.openai.faults.push(Fault::HoldHead);
    let running = scene.start().await;
    asked(&scene, 1).await;
    running.tell().await;
    scene.openai.faults.release();
    running.ended().await;
    scene.is("SM1", "current_stage", "TRANSCRIBED").await;
    scene.is("SM1", "processing_status", "RETRY").await;
    scene.is("SM1", "retry_count", "0").await;
    assert_eq!(scene.of("SM1", "locked_by").await, None);
    assert_eq!(scene.asked("completions"), 0, "no new stage was begun");
    let minute = "SELECT count(*) FROM whatsapp_inbound_messages \
                  WHERE nurse_tour_moment(next_attempt_at) - now() BETWEEN interval '50 seconds' AND interval '61 seconds'";
    assert_eq!(scene.count(minute).await, 1, "requeued in one minute, as the seed says");
}

#[tokio::test(flavor = "multi_thread")]
async fn weakness_21_a_deploy_need_not_cost_a_minute() {
    let mut scene = scene().await;
    scene.set("WORKER_REQUEUE_SECONDS", "0");
    scene.set("WORKER_GRACE_SECONDS", "0.1");
    scene.openai.faults.push(Fault::HoldHead);
    let running = scene.start().await;
    asked(&scene, 1).await;
    running.stop().await;
    let due =
        "SELECT count(*) FROM whatsapp_inbound_messages WHERE nurse_tour_moment(next_attempt_at) <= now()";
    assert_eq!(scene.count(due).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn weakness_23_an_outage_is_not_an_answer() {
    let mut scene = Scene::new().await;
    scene.set("WORKER_MAX_RETRIES", "1");
    let running = scene.start().await;
    scene.sql("BEGIN").await;
    scene.message("SM1").await;
    scene.sql("UPDATE whatsapp_inbound_messages SET agency_id = NULL; ALTER TABLE patients RENAME TO patients_away; COMMIT").await;
    let told = "SELECT count(*) FROM nurse_tour_stops WHERE why = 'configuration database.42P01'";
    eventually("the claiming stops", async || (scene.count(told).await == 1).then_some(())).await;
    assert_eq!(scene.documents().await, 0, "nobody took it for a patient who is not there");
    becomes(&scene, "SM1", "RETRY").await;
    scene.is("SM1", "retry_count", "0").await;
    scene.sql("ALTER TABLE patients_away RENAME TO patients; DELETE FROM nurse_tour_stops").await;
    becomes(&scene, "SM1", "TRIAGE").await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn weakness_24_status_codes_decide_and_not_words() {
    let scene = scene().await;
    let words =
        windlass_standins::Answer::new(400, "text/plain", "503 429 rate limit timeout ECONNRESET ETIMEDOUT");
    scene.openai.faults.push(Fault::Answer(words));
    scene.drain().await;
    scene.is("SM1", "failed_reason", "permanent openai.permanent.none status=400").await;
    assert_eq!(scene.openai.asked().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn weakness_25_a_new_message_wakes_an_idle_worker() {
    let scene = Scene::new().await;
    // In this world no time passes: the worker never asks by itself a second time.
    let world = SimWorld::new(1);
    let running = Inside::start(&scene, Arc::new(world.clone()), None).await;
    for sid in ["SM1", "SM2", "SM3"] {
        scene.message(sid).await;
        becomes(&scene, sid, "DONE").await;
    }
    running.stop_in(&world).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn weakness_26_a_forged_address_gets_no_credentials() {
    let mut scene = Scene::new().await;
    let evil =
        Server::start(|_: &windlass_standins::Ask| windlass_standins::Answer::new(200, "audio/ogg", "OggS"))
            .await;
    // Even an origin that may be asked is not Twilio's.
    let allowed = format!("{},{}", scene.twilio.cdn.url(), evil.url());
    scene.set("WORKER_ALLOW_ORIGINS", &allowed);
    let path = "/2010-04-01/Accounts/AC00000000000000000000000000000000/Messages/SM1/Media/ME1";
    let forged = [
        format!("{}{path}", evil.url()),
        "http://169.254.169.254/latest/meta-data".into(),
        "file:///etc/passwd".into(),
    ];
    for (n, url) in forged.iter().enumerate() {
        let sid = format!("SM{n}");
        scene.message(&sid).await;
        let set = "UPDATE whatsapp_inbound_messages SET media_url = $1 WHERE message_sid = $2";
        scene.client.execute(set, &[url, &sid]).await.unwrap();
    }
    scene.drain().await;
    for n in 0..forged.len() {
        scene.is(&format!("SM{n}"), "processing_status", "FAILED").await;
        scene.is(&format!("SM{n}"), "failed_reason", "permanent twilio.not_ours").await;
    }
    assert!(evil.asked().is_empty(), "nothing at all was asked of it");
}
