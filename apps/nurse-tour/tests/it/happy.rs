//! A message from READY to its document.

use crate::scene::Scene;

#[tokio::test(flavor = "multi_thread")]
async fn a_message_becomes_one_document() {
    let scene = Scene::new().await;
    scene.message("SM1").await;
    let summary = scene.drain().await;
    assert_eq!((summary.claimed, summary.settled), (1, 1));
    for (column, expected) in [
        ("processing_status", "DONE"),
        ("status", "completed"),
        ("current_stage", "COMPLETED"),
        ("media_blob_id", "audio/agency-1/SM1.ogg"),
        ("audio_type", "audio/ogg"),
        ("transcript_language", "german"),
        ("transcript_model", "whisper-1"),
        ("retry_count", "0"),
        ("crash_count", "0"),
        ("(fence > 0)", "true"),
    ] {
        scene.is("SM1", column, expected).await;
    }
    let file = scene.folder.path().join("audio/audio/agency-1/SM1.ogg");
    let length = std::fs::metadata(file).unwrap().len().to_string();
    scene.is("SM1", "audio_bytes", &length).await;
    let row = scene
        .client
        .query_one(
            "SELECT d.id, d.status, d.agency_id, d.raw_content = m.transcript_text, d.phone_number, d.created_at, \
             d.service_date = left(m.received_at, 10), jsonb_typeof(d.structured_data), jsonb_typeof(d.alerts) \
             FROM pending_care_documentations d JOIN whatsapp_inbound_messages m USING (message_sid)",
            &[],
        )
        .await
        .unwrap();
    assert_eq!(
        (row.get::<_, &str>(0), row.get::<_, &str>(1), row.get::<_, &str>(2)),
        ("pd_SM1", "triage", "agency-1")
    );
    assert_eq!((row.get::<_, bool>(3), row.get::<_, &str>(4)), (true, "+4915100000001"));
    let created: &str = row.get(5);
    assert!(created.ends_with('Z') && created.len() == 24, "RFC 3339 in UTC: {created}");
    assert_eq!(
        (row.get::<_, bool>(6), row.get::<_, &str>(7), row.get::<_, &str>(8)),
        (true, "object", "array")
    );
    let cdn = scene.twilio.cdn.asked();
    assert!(cdn.len() == 1 && !cdn[0].has_credentials(), "the host that delivers gets no credentials");
}

/// Every stage and every end has a line in the audit, written with it.
#[tokio::test(flavor = "multi_thread")]
async fn the_audit_tells_the_whole_story() {
    let scene = Scene::new().await;
    scene.message("SM1").await;
    scene.drain().await;
    let rows = scene
        .client
        .query(
            "SELECT concat_ws(' ', from_stage, to_stage, outcome, provider, model, worker, dense_rank() OVER (ORDER BY fence), attempt), \
             duration_ms IS NOT NULL, output_sha256, input_sha256, to_status FROM nurse_tour_audit ORDER BY seq",
            &[],
        )
        .await
        .unwrap();
    let lines: Vec<&str> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(
        lines,
        [
            "RECEIVED AUDIO_STORED stage twilio worker_1 1 1",
            "AUDIO_STORED TRANSCRIBED stage openai whisper-1 worker_1 1 1",
            "TRANSCRIBED ANALYZED stage openai gpt-4o-2026-01-01 worker_1 1 1",
            "ANALYZED DOC_CREATED stage database worker_1 1 1",
            "DOC_CREATED COMPLETED completed worker_1 1 1",
        ]
    );
    assert!(rows[..4].iter().all(|row| row.get::<_, bool>(1)));
    let digest = |row: usize, column: usize| rows[row].get::<_, Option<&str>>(column);
    assert_eq!(digest(0, 2), digest(1, 3), "what was archived is what was transcribed");
    assert_eq!(digest(1, 2), digest(2, 3), "what was transcribed is what was analysed");
    for refused in [
        "UPDATE nurse_tour_audit SET reason = 'x'",
        "DELETE FROM nurse_tour_audit",
        "TRUNCATE nurse_tour_audit",
    ] {
        assert!(scene.client.batch_execute(refused).await.is_err(), "{refused}");
    }
}
