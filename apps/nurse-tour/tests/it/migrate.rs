//! The schema: what is missing is added, what is there stays.

use serde_json::json;

use crate::scene::{Scene, values};

/// The tables of the other application, as the seed's worker found them, with
/// a row in every state.
const ORIGINAL: &str = "
    CREATE TABLE whatsapp_inbound_messages (id serial, message_sid text NOT NULL UNIQUE, from_number text, agency_id text,
        message_type text, media_url text, media_blob_id text, current_stage text, status text, processing_status text,
        transcript_text text, analysis_json jsonb, failed_stage text, failed_reason text, retry_count integer,
        received_at text NOT NULL, processed_at timestamp with time zone, body text, profile_name text);
    CREATE TABLE pending_care_documentations (id varchar(64) PRIMARY KEY, phone_number text NOT NULL, patient_id text NOT NULL,
        patient_name text NOT NULL, service_date date NOT NULL, raw_content text NOT NULL, translated_content_de text,
        translated_content_en text, original_language text, kh_codes jsonb, structured_data json, alerts text,
        status text NOT NULL, agency_id text NOT NULL, created_at timestamp with time zone);
    INSERT INTO whatsapp_inbound_messages (message_sid, message_type, processing_status, current_stage, retry_count, received_at,
        agency_id, from_number, transcript_text, analysis_json, media_blob_id) VALUES
        ('SMready', 'voice', 'READY', NULL, NULL, '2026-01-19T10:00:00.000Z', 'agency-1', 'whatsapp:+49151', NULL, NULL, NULL),
        ('SMretry', 'voice', 'RETRY', 'AUDIO_STORED', 2, '2026-01-19T10:00:01.000Z', 'agency-1', 'whatsapp:+49151', NULL, NULL, NULL),
        ('SMstuck', 'voice', 'PROCESSING', 'TRANSCRIBED', 1, '2026-01-19T10:00:02.000Z', 'agency-1', '+49151', 'said', NULL, NULL),
        ('SMspent', 'voice', 'PROCESSING', 'RECEIVED', 5, '2026-01-19T10:00:03.000Z', 'agency-1', '+49151', NULL, NULL, NULL),
        ('SManalyzed', 'voice', 'RETRY', 'ANALYZED', 1, '2026-01-19T10:00:04.000Z', 'agency-1', NULL, 'said',
            '{\"patientId\": \"\", \"serviceDate\": \"2026-01-19\", \"alerts\": []}', '.private/audio/agency-1/SManalyzed.ogg'),
        ('SMdone', 'voice', 'DONE', 'COMPLETED', 0, '2026-01-19T10:00:05.000Z', 'agency-1', NULL, 'said', NULL, NULL),
        ('SMfailed', 'voice', 'FAILED', 'RECEIVED', 5, '2026-01-19T10:00:06.000Z', 'agency-1', NULL, NULL, NULL, NULL),
        ('SMtext', 'text', NULL, NULL, NULL, '2026-01-19T10:00:07.000Z', NULL, NULL, NULL, NULL, NULL)";

#[tokio::test(flavor = "multi_thread")]
async fn the_original_schema_with_rows_in_every_state() {
    let scene = Scene::bare().await;
    scene.sql(ORIGINAL).await;
    let (before, _) = scene.check().await;
    for column in ["locked_by", "locked_until", "next_attempt_at", "fence", "crash_count"] {
        let what = format!("the column {column} of whatsapp_inbound_messages");
        assert!(before.contains(&what), "{what}");
    }
    assert_eq!(scene.check().await.0, before, "looking changes nothing");
    assert_eq!(scene.migrate().await.len(), before.len());
    assert_eq!(scene.check().await, (vec![], vec![]));
    assert!(scene.migrate().await.is_empty(), "twice is as good as once");
    for sid in ["SMready", "SMretry", "SMstuck", "SMspent"] {
        let set = "UPDATE whatsapp_inbound_messages SET media_url = $1 WHERE message_sid = $2";
        scene.client.execute(set, &[&scene.twilio.media_url(sid, &format!("ME{sid}")), &sid]).await.unwrap();
    }
    scene.drain().await;
    for (sid, status) in [
        ("SMready", "DONE"),
        ("SMretry", "DONE"),
        ("SMstuck", "DONE"),
        ("SMspent", "FAILED"),
        ("SManalyzed", "DONE"),
        ("SMdone", "DONE"),
        ("SMfailed", "FAILED"),
    ] {
        scene.is(sid, "processing_status", status).await;
    }
    assert_eq!(scene.of("SMtext", "processing_status").await, None);
    assert_eq!(scene.of("SMdone", "fence").await.as_deref(), Some("0"), "what was done was left alone");
    assert_eq!(scene.documents().await, 4);
    assert_eq!(
        (scene.asked("transcriptions"), scene.asked("completions")),
        (2, 3),
        "stages that were there are not paid for"
    );
    scene.is("SMstuck", "media_blob_id", "audio/agency-1/SMstuck.ogg").await;
}

/// The other application may keep its times as times: they stay what they are.
#[tokio::test(flavor = "multi_thread")]
async fn times_that_are_no_text() {
    let scene = Scene::bare().await;
    scene
        .sql(
            "CREATE TABLE whatsapp_inbound_messages (message_sid text PRIMARY KEY, received_at timestamp, processed_at timestamp, \
             locked_until timestamp(3), next_attempt_at timestamptz); \
             CREATE TABLE pending_care_documentations (id text PRIMARY KEY, created_at timestamp)",
        )
        .await;
    // Nobody's session decides what a time without a zone means.
    scene
        .sql("DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET timezone = ''Asia/Tokyo''', current_database()); END $$")
        .await;
    scene.migrate().await;
    let insert = "INSERT INTO whatsapp_inbound_messages (message_sid, agency_id, message_type, media_url, processing_status, \
                  received_at, locked_until, next_attempt_at) SELECT sid, 'agency-1', 'voice', replace($1, 'SID', sid), status, \
                  now() AT TIME ZONE 'UTC', now() AT TIME ZONE 'UTC' + locked::interval, now() + next::interval \
                  FROM (VALUES ('SMready', 'READY', NULL, NULL), ('SMlater', 'RETRY', NULL, '1 hour'), ('SMdue', 'RETRY', NULL, '-1 second'), \
                  ('SMheld', 'PROCESSING', '1 hour', NULL), ('SMlost', 'PROCESSING', '-1 second', NULL)) v (sid, status, locked, next)";
    scene.client.execute(insert, &[&scene.twilio.media_url("SID", "MESID")]).await.unwrap();
    let running = scene.start().await;
    let done = "SELECT count(*) FROM whatsapp_inbound_messages WHERE processing_status = 'DONE'";
    scene.until("three are done", done, 3).await;
    running.stop().await;
    for (sid, status) in [("SMlater", "RETRY"), ("SMheld", "PROCESSING")] {
        scene.is(sid, "processing_status", status).await;
    }
    let filed = "SELECT count(*) FROM whatsapp_inbound_messages m JOIN pending_care_documentations d USING (message_sid) \
                 WHERE abs(extract(epoch FROM now() - m.processed_at AT TIME ZONE 'UTC')) < 60 \
                 AND abs(extract(epoch FROM now() - d.created_at AT TIME ZONE 'UTC')) < 60";
    assert_eq!(scene.count(filed).await, 3);
    let status = scene.status().await;
    assert_eq!((&status["in_flight"], &status["expired"]), (&json!(1), &json!(0)));
}

/// A function that another version of the worker left is put right.
#[tokio::test(flavor = "multi_thread")]
async fn an_old_function_is_replaced() {
    let scene = Scene::new().await;
    scene
        .sql(
            "CREATE OR REPLACE FUNCTION nurse_tour_announce() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$",
        )
        .await;
    let what = ["the trigger that announces new messages, as this version has it"];
    assert_eq!(scene.check().await.0, what);
    assert_eq!(scene.migrate().await, what);
    assert_eq!(scene.check().await, (vec![], vec![]));
}

/// What an operator sees and does.
#[tokio::test(flavor = "multi_thread")]
async fn status_and_retry() {
    let scene = Scene::bare().await;
    scene.sql(ORIGINAL).await;
    scene.migrate().await;
    scene.sql("UPDATE whatsapp_inbound_messages SET failed_reason = 'patient canary not found' WHERE message_sid = 'SMfailed'").await;
    let status = scene.status().await;
    let queue = status["queue"].as_array().unwrap();
    let count = |word: &str| {
        queue
            .iter()
            .filter(|one| one["status"] == word)
            .map(|one| one["count"].as_i64().unwrap())
            .sum::<i64>()
    };
    assert_eq!(["READY", "RETRY", "PROCESSING", "DONE", "FAILED"].map(count), [1, 2, 2, 1, 1]);
    assert_eq!((&status["in_flight"], &status["expired"]), (&json!(0), &json!(2)));
    assert!(status["oldest_waiting_s"].as_f64().is_some_and(|s| s > 1_000.0), "{status}");
    assert_eq!(status["failed"][0]["reason"], "other", "what another worker wrote is not shown");
    let retried = scene.run(&["retry", "SMfailed", "SMdone", "SMnobody", "--json"]).await;
    let answer = |sid: &str, word: &str| json!({"message_sid": sid, "answer": word});
    assert_eq!(
        values(&retried),
        [answer("SMfailed", "retried"), answer("SMdone", "not_over"), answer("SMnobody", "not_found")]
    );
    scene.is("SMfailed", "processing_status", "RETRY").await;
    scene.is("SMfailed", "retry_count", "0").await;
    scene.sql("UPDATE whatsapp_inbound_messages SET processing_status = 'FAILED' WHERE message_sid IN ('SMfailed', 'SMspent')").await;
    assert_eq!(scene.told(&["retry", "--all-failed"]).await, [json!({"retried": 2})]);
    assert_eq!(scene.count("SELECT count(*) FROM nurse_tour_audit WHERE outcome = 'retried'").await, 3);
}

/// Two documents of one message, as the worker before could make them, are for a person to decide.
#[tokio::test(flavor = "multi_thread")]
async fn duplicates_are_told_and_nothing_is_changed() {
    let scene = Scene::bare().await;
    scene
        .sql(
            "CREATE TABLE pending_care_documentations (id text, agency_id text, message_sid text); \
             INSERT INTO pending_care_documentations VALUES ('a', NULL, 'SM1'), ('b', 'x', 'SM1')",
        )
        .await;
    let before = scene.check().await;
    let refused = scene.run(&["migrate"]).await;
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{error}");
    assert!(
        error.contains("idx_pending_docs_message") && error.contains("decide which one to keep"),
        "{error}"
    );
    assert_eq!(scene.check().await, before, "all or nothing");
}

/// Several machines may migrate at once.
#[tokio::test(flavor = "multi_thread")]
async fn many_migrate_at_once() {
    let scene = Scene::bare().await;
    let added = tokio::join!(scene.migrate(), scene.migrate(), scene.migrate(), scene.migrate());
    let added = [added.0, added.1, added.2, added.3];
    assert_eq!(added.iter().filter(|added| !added.is_empty()).count(), 1, "{added:?}");
}
