//! What an operator meets when a setting is wrong or a provider has had enough.

use std::sync::Arc;

use windlass_engine::core::time::Clock;
use windlass_standins::{Fault, Gcs, OpenAi};
use windlass_testkit::eventually::eventually;

use crate::errors::{free_port, get};
use crate::inside::Inside;
use crate::scene::Scene;

/// Twelve messages, and a worker whose health can be asked.
async fn twelve() -> (Scene, u16) {
    let (mut scene, port) = (Scene::new().await, free_port());
    scene.set("WORKER_HTTP_LISTEN", &format!("127.0.0.1:{port}"));
    for n in 1..=12 {
        scene.message(&format!("SM{n}")).await;
    }
    (scene, port)
}

async fn stopped(scene: &Scene, port: u16, why: &str) {
    let told = async || {
        let status = scene.status().await;
        let stopped = status["stopped"].as_array().unwrap();
        stopped.iter().any(|one| one["worker"] == "worker_1" && one["why"] == why).then_some(())
    };
    eventually(&format!("status says {why}"), told).await;
    let health = get(port, "/health").await;
    assert!(health.starts_with("HTTP/1.1 503") && health.contains(why), "{health}");
    let ready = get(port, "/readyz").await;
    assert!(ready.starts_with("HTTP/1.1 503") && ready.contains(why), "{ready}");
    let used = "SELECT count(*) FROM whatsapp_inbound_messages WHERE retry_count > 0 AND processing_status <> 'PROCESSING' \
                OR processing_status IN ('FAILED', 'TRIAGE')";
    assert_eq!(scene.count(used).await, 0, "no message has lost a try");
}

async fn all_done(scene: &Scene) {
    let done =
        "SELECT count(*) FROM whatsapp_inbound_messages WHERE processing_status = 'DONE' AND retry_count = 0";
    eventually("all are done", async || (scene.count(done).await == 12).then_some(())).await;
}

/// A model that does not exist is found before a message is touched.
#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_does_not_exist() {
    for setting in ["ANALYSIS_MODEL", "TRANSCRIBE_MODEL"] {
        let (mut scene, port) = twelve().await;
        scene.set(setting, "unknown-model");
        let running = scene.start().await;
        stopped(&scene, port, "configuration openai.no_such_model status=404").await;
        assert_eq!(scene.openai.asked().len(), 0, "{setting}: nothing was paid for");
        running.stop().await;
        scene.set(setting, "gpt-4o");
        let running = scene.start().await;
        all_done(&scene).await;
        running.stop().await;
    }
}

/// A model that is taken away while the worker runs: nothing fails, and `resume` lets it go on.
#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_is_taken_away() {
    let (scene, port) = twelve().await;
    scene.openai.faults.always(Fault::Answer(OpenAi::error(
        404,
        "invalid_request_error",
        Some("model_not_found"),
    )));
    let running = scene.start().await;
    stopped(&scene, port, "configuration openai.no_such_model status=404").await;
    let held = "SELECT count(*) FROM whatsapp_inbound_messages WHERE processing_status = 'PROCESSING'";
    eventually("all are given back", async || (scene.count(held).await == 0).then_some(())).await;
    assert!(scene.openai.asked().len() <= 5, "no more than one batch has asked");
    scene.openai.faults.clear();
    assert_eq!(scene.resume().await, ["openai of worker_1"]);
    all_done(&scene).await;
    assert!(get(port, "/health").await.starts_with("HTTP/1.1 200"));
    assert!(get(port, "/readyz").await.starts_with("HTTP/1.1 200"));
    running.stop().await;
}

/// A mistyped bucket, and a bucket without credentials.
#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_that_is_not_there() {
    let (mut scene, port) = twelve().await;
    let gcs = Gcs::start().await;
    gcs.without_bucket(Some("bukcet-1"));
    scene.set("AUDIO_STORE_URL", "gs://bukcet-1/.private");
    scene.set("AUDIO_STORE_BASE_URL", &gcs.url());
    scene.set("AUDIO_STORE_TOKEN", &gcs.token());
    let running = scene.start().await;
    stopped(&scene, port, "configuration objects.no_such_bucket").await;
    assert_eq!(scene.twilio.asked().len(), 0, "it is found at the start");
    gcs.without_bucket(None);
    scene.resume().await;
    all_done(&scene).await;
    // Somebody deletes it while the worker runs.
    gcs.without_bucket(Some("bukcet-1"));
    scene.message("SM13").await;
    stopped(&scene, port, "configuration objects.no_such_bucket").await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_without_credentials() {
    let (mut scene, port) = twelve().await;
    scene.env.remove("AUDIO_STORE_URL");
    scene.set("DEFAULT_OBJECT_STORAGE_BUCKET_ID", "bucket-1");
    let running = scene.start().await;
    stopped(&scene, port, "configuration objects.no_credentials").await;
    running.stop().await;
}

/// A key file that is not there is said once, with the name of what names it.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_file_that_is_not_there() {
    let mut scene = Scene::new().await;
    scene.set("AUDIO_STORE_URL", "gs://bucket-1");
    scene.set("GOOGLE_APPLICATION_CREDENTIALS", "/nowhere/key.json");
    let output = scene.run(&[]).await;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    let count = said.matches("GOOGLE_APPLICATION_CREDENTIALS names a key file").count();
    assert_eq!(count, 1, "{said}");
}

/// A provider that wants to be left alone for a day is asked again after a quarter of an hour; `status` says so, and
/// `resume` lifts it.
#[tokio::test(flavor = "multi_thread")]
async fn a_cool_down_has_an_end() {
    let (scene, port) = twelve().await;
    let limit = OpenAi::error(429, "requests", Some("rate_limit_exceeded")).with("retry-after", "86400");
    scene.openai.faults.always(Fault::Answer(limit));
    let running = scene.start().await;
    let cooling = async || {
        let cooling = scene.status().await["cooling"][0].clone();
        cooling["why"].as_str().is_some_and(|why| why.contains("429")).then_some(cooling)
    };
    let cooling = eventually("it cools down", cooling).await;
    assert_eq!(
        (cooling["provider"].as_str(), cooling["why"].as_str()),
        (Some("openai"), Some("rate_limit openai.rate_limit status=429"))
    );
    assert!(cooling["for_s"].as_f64().is_some_and(|s| (600.0..=900.0).contains(&s)), "{cooling}");
    let rests =
        async || Some(get(port, "/health").await).filter(|said| said.contains("claiming rests: rate_limit"));
    let health = eventually("health says so", rests).await;
    assert!(health.starts_with("HTTP/1.1 200"), "{health}");
    let held = "SELECT count(*) FROM whatsapp_inbound_messages WHERE processing_status = 'PROCESSING'";
    eventually("all are given back", async || (scene.count(held).await == 0).then_some(())).await;
    scene.openai.faults.clear();
    assert_eq!(scene.resume().await, ["openai"]);
    all_done(&scene).await;
    running.stop().await;
}

/// When a cool-down is over, one message of the whole fleet tries first.
#[tokio::test(flavor = "multi_thread")]
async fn a_cool_down_is_tried_by_one() {
    let (scene, _) = twelve().await;
    scene
        .sql("INSERT INTO nurse_tour_cool_downs (name, until) VALUES ('openai', now() - interval '1 second')")
        .await;
    scene.openai.faults.push(Fault::HoldHead);
    let running = scene.start().await;
    eventually("one tries", async || (scene.openai.asked().len() == 1).then_some(())).await;
    // It had every chance to claim more: it looks at the table of messages again and again.
    let looked = "SELECT sum(calls)::bigint FROM (SELECT count(*) AS calls FROM nurse_tour_cool_downs WHERE trial_until > now()) s";
    assert_eq!(scene.count(looked).await, 1);
    let touched = "SELECT count(*) FROM whatsapp_inbound_messages WHERE processing_status <> 'READY'";
    assert_eq!(scene.count(touched).await, 1);
    scene.openai.faults.release();
    all_done(&scene).await;
    assert_eq!(scene.count("SELECT count(*) FROM nurse_tour_cool_downs").await, 0);
    running.stop().await;
}

/// What the operator has mended is found out without being told: on a clock that the test owns.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_resumes_by_itself() {
    let mut scene = Scene::new().await;
    let sim = windlass_engine::world::SimWorld::new(3);
    scene.message("SM1").await;
    let gcs = Gcs::start().await;
    gcs.without_bucket(Some("bucket-1"));
    scene.set("AUDIO_STORE_URL", "gs://bucket-1");
    scene.set("AUDIO_STORE_BASE_URL", &gcs.url());
    scene.set("AUDIO_STORE_TOKEN", &gcs.token());
    scene.set("WORKER_POLL_INTERVAL_MS", "1000");
    scene.set("WORKER_LOCK_DURATION_MINUTES", "10");
    let began_ms = sim.boot_ms();
    let running = Inside::start(&scene, Arc::new(sim.clone()), None).await;
    eventually("it was asked for", async || (gcs.probes() == 1).then_some(())).await;
    gcs.without_bucket(None);
    while scene.of("SM1", "processing_status").await.as_deref() == Some("READY") {
        assert!(sim.boot_ms() - began_ms < 30 * 60_000, "it did not resume within half an hour");
        sim.step(1_000).await;
    }
    // The work itself takes no time on this clock.
    let done = async || (scene.of("SM1", "processing_status").await? == "DONE").then_some(());
    eventually("it is done", done).await;
    assert!(sim.boot_ms() - began_ms >= 60_000, "it waited before it asked again");
    running.stop_in(&sim).await;
}

/// A message that is refused for its own sake, by a status that speaks of settings: the others do not wait for it; on
/// a clock that the test owns.
#[tokio::test(flavor = "multi_thread")]
async fn one_refused_message_holds_up_nobody() {
    let mut scene = Scene::new().await;
    let sim = windlass_engine::world::SimWorld::new(3);
    scene.set("WORKER_POLL_INTERVAL_MS", "1000");
    // Its time runs faster than what happens outside of it: no lock of a few seconds would hold.
    scene.set("WORKER_LOCK_DURATION_MINUTES", "10");
    for sid in ["SM1", "SM2", "SM3"] {
        scene.message(sid).await;
    }
    scene.twilio.forbid("MESM1");
    // The others come through only after the one was refused.
    scene.twilio.cdn.faults.always(Fault::HoldHead);
    let running = Inside::start(&scene, Arc::new(sim.clone()), None).await;
    let refused =
        "SELECT count(*) FROM nurse_tour_stops WHERE why = 'configuration twilio.configuration status=403'";
    let count = "SELECT count(*) FROM whatsapp_inbound_messages WHERE processing_status";
    // The work itself takes no time on this clock.
    let step = async || {
        if scene.count(&format!("{count} = 'PROCESSING'")).await == 0 {
            sim.step(1_000).await;
        }
    };
    eventually("the one is refused", async || {
        step().await;
        (scene.count(refused).await == 1).then_some(())
    })
    .await;
    scene.twilio.cdn.faults.clear();
    scene.twilio.cdn.faults.release();
    eventually("all are over", async || {
        step().await;
        (scene.count(&format!("{count} NOT IN ('DONE', 'FAILED')")).await == 0).then_some(())
    })
    .await;
    scene.is("SM1", "processing_status", "FAILED").await;
    scene.is("SM2", "processing_status", "DONE").await;
    scene.is("SM3", "processing_status", "DONE").await;
    running.stop_in(&sim).await;
}

/// A stopped worker that is killed leaves its row; one of the same name that starts well takes it away.
#[tokio::test(flavor = "multi_thread")]
async fn a_stop_of_a_life_before_is_over() {
    let (mut scene, port) = twelve().await;
    scene.set("ANALYSIS_MODEL", "unknown-model");
    let worker = scene.spawn("worker_1", &[]);
    stopped(&scene, port, "configuration openai.no_such_model status=404").await;
    worker.kill();
    assert_eq!(scene.status().await["stopped"].as_array().unwrap().len(), 1);
    scene.set("ANALYSIS_MODEL", "gpt-4o");
    let running = scene.start().await;
    all_done(&scene).await;
    assert_eq!(scene.status().await["stopped"], serde_json::json!([]));
    running.stop().await;
}

/// `resume` is of use as often as it is said.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_can_be_told_twice() {
    let (scene, port) = twelve().await;
    let refuse = || Fault::Answer(OpenAi::error(404, "invalid_request_error", Some("model_not_found")));
    scene.openai.faults.always(refuse());
    let running = scene.start().await;
    for _ in 0..3 {
        stopped(&scene, port, "configuration openai.no_such_model status=404").await;
        let before = scene.openai.asked().len();
        assert_eq!(scene.resume().await, ["openai of worker_1"]);
        let tried = async || (scene.openai.asked().len() > before).then_some(());
        eventually("it is tried again", tried).await;
    }
    scene.openai.faults.clear();
    stopped(&scene, port, "configuration openai.no_such_model status=404").await;
    scene.resume().await;
    all_done(&scene).await;
    running.stop().await;
}

/// A trial that failed is no reason to wait longer than the provider asked for.
#[tokio::test(flavor = "multi_thread")]
async fn a_failed_trial_leads_to_the_next() {
    let (scene, _) = twelve().await;
    let limit = OpenAi::error(429, "requests", Some("rate_limit_exceeded")).with("retry-after", "1");
    scene
        .sql("INSERT INTO nurse_tour_cool_downs (name, until) VALUES ('openai', now() - interval '1 second')")
        .await;
    scene.openai.faults.push(Fault::Answer(limit));
    let running = scene.start().await;
    eventually("the trial was refused", async || (!scene.openai.asked().is_empty()).then_some(())).await;
    let open = "SELECT count(*) FROM nurse_tour_cool_downs WHERE trial_until IS NULL";
    eventually("the next trial waits for nothing", async || (scene.count(open).await == 1).then_some(()))
        .await;
    all_done(&scene).await;
    running.stop().await;
}

/// The worker comes as a role that may write no document.
async fn without_insert(scene: &mut Scene) -> String {
    let role = format!("nurse_{}", scene.database_name());
    scene
        .sql(&format!(
            "CREATE ROLE {role} LOGIN; GRANT USAGE, CREATE ON SCHEMA public TO {role}; \
             GRANT ALL ON ALL TABLES IN SCHEMA public TO {role}; GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO {role}; \
             REVOKE INSERT ON pending_care_documentations FROM {role}"
        ))
        .await;
    scene.log_in_as(&role);
    role
}

/// A role that may not write: nothing is paid for in vain for long, and the operator is told.
#[tokio::test(flavor = "multi_thread")]
async fn a_role_without_the_right() {
    let (mut scene, port) = twelve().await;
    let role = without_insert(&mut scene).await;
    let running = scene.start().await;
    stopped(&scene, port, "configuration database.schema").await;
    scene.sql(&format!("GRANT INSERT ON pending_care_documentations TO {role}")).await;
    scene.resume().await;
    all_done(&scene).await;
    running.stop().await;
    scene.sql(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await;
}

/// What works in one stage says nothing of another: the claiming stays stopped while messages that are under way go
/// through the stages before, no message is blamed for it, and one that tries and does not come to the stage that was
/// refused leaves it to the next.
#[tokio::test(flavor = "multi_thread")]
async fn a_stage_that_works_opens_no_gate_of_another() {
    let (mut scene, port) = twelve().await;
    scene.set("WORKER_BATCH_SIZE", "4");
    scene.set("WORKER_CONCURRENCY", "4");
    let role = without_insert(&mut scene).await;
    // The first is at its last stage, the three others of the batch are at their first.
    scene
        .sql(
            "UPDATE whatsapp_inbound_messages SET current_stage = 'ANALYZED', media_blob_id = 'audio/agency-1/SM1.ogg', \
             transcript_text = 'said', analysis_json = '{\"patientId\": \"\", \"alerts\": []}' WHERE message_sid = 'SM1'",
        )
        .await;
    scene.twilio.cdn.faults.always(Fault::HoldHead);
    let running = scene.start().await;
    stopped(&scene, port, "configuration database.schema").await;
    scene.twilio.cdn.faults.clear();
    scene.twilio.cdn.faults.release();
    let refused = "SELECT count(*) FROM whatsapp_inbound_messages WHERE current_stage = 'ANALYZED' AND processing_status = 'RETRY'";
    scene.until("all four have come to their last stage", refused, 4).await;
    stopped(&scene, port, "configuration database.schema").await;
    assert!(!running.said().contains("Claiming goes on"), "{}", running.said());
    let claims = "SELECT count(*) FROM whatsapp_inbound_messages WHERE fence > 0";
    assert_eq!(scene.count(claims).await, 4, "nothing more was claimed");
    scene.sql(&format!("GRANT INSERT ON pending_care_documentations TO {role}")).await;
    // The one that tries, the oldest that was not refused, has its document already.
    scene
        .sql(
            "UPDATE whatsapp_inbound_messages SET current_stage = 'DOC_CREATED', document_id = 'pd_SM5', \
             media_blob_id = 'audio/agency-1/SM5.ogg', transcript_text = 'said', analysis_json = '{}', \
             received_at = '2020-01-01T00:00:00Z' WHERE message_sid = 'SM5'; \
             INSERT INTO pending_care_documentations (id, agency_id, message_sid) VALUES ('pd_SM5', 'agency-1', 'SM5')",
        )
        .await;
    assert_eq!(scene.resume().await, ["database of worker_1"]);
    all_done(&scene).await;
    running.stop().await;
    scene.sql(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await;
}
