//! Whom a message is about.

use crate::scene::Scene;

/// Two patients of two agencies, and a nurse who visits the first from 8 to 9
/// and the second from 9 to 10.
async fn scene() -> Scene {
    let scene = Scene::new().await;
    scene
        .sql(
            "INSERT INTO patients (id, agency_id) VALUES ('P1', 'agency-1'), ('P2', 'agency-2'), ('P3', 'agency-3'); \
             INSERT INTO patient_qr_codes (patient_id, agency_id) VALUES ('P1', 'agency-1'), ('P2', 'agency-2'); \
             INSERT INTO whatsapp_care_sessions (id, phone_number, patient_id, patient_name, created_at, expires_at) VALUES \
             ('S1', '+4915100000001', 'P1', 'Erika', '2026-01-19T08:00:00Z', '2026-01-19T09:00:00Z'), \
             ('S2', 'whatsapp:+4915100000001', 'P2', 'Otto', '2026-01-19T09:00:00Z', '2026-01-19T10:00:00Z')",
        )
        .await;
    scene
}

async fn message(scene: &Scene, sid: &str, agency: Option<&str>, received_at: &str, body: &str) {
    scene.message(sid).await;
    let set = "UPDATE whatsapp_inbound_messages SET agency_id = $1, received_at = $2, body = $3 WHERE message_sid = $4";
    scene.client.execute(set, &[&agency, &received_at, &body, &sid]).await.unwrap();
}

async fn document(scene: &Scene, sid: &str) -> Option<(String, String, String)> {
    let sql = "SELECT agency_id, patient_id, status FROM pending_care_documentations WHERE message_sid = $1";
    let row = scene.client.query_opt(sql, &[&sid]).await.unwrap();
    row.map(|row| (row.get(0), row.get(1), row.get(2)))
}

async fn check(scene: &Scene, sid: &str, agency: &str, patient: &str, status: &str) {
    let expected = Some((agency.to_owned(), patient.to_owned(), status.to_owned()));
    assert_eq!(document(scene, sid).await, expected, "{sid}");
}

/// A note is filed to the patient at whose side the nurse was when it arrived,
/// however late it is worked.
#[tokio::test(flavor = "multi_thread")]
async fn weakness_13_the_patient_of_the_time_of_arrival() {
    let scene = scene().await;
    message(&scene, "SM1", None, "2026-01-19T08:30:00Z", "").await;
    message(&scene, "SM2", Some("unknown"), "2026-01-19 10:30:00+01", "").await;
    scene.drain().await;
    check(&scene, "SM1", "agency-1", "P1", "pending").await;
    check(&scene, "SM2", "agency-2", "P2", "pending").await;
    scene.is("SM1", "care_session_id", "S1").await;
    scene.is("SM1", "patient_name", "Erika").await;
    scene.is("SM1", "media_blob_id", "audio/agency-1/SM1.ogg").await;
}

/// The ways to a patient, in their order, and what none of them knows.
#[tokio::test(flavor = "multi_thread")]
async fn every_way_to_a_patient() {
    let scene = scene().await;
    let late = "2026-01-19T12:00:00Z";
    message(&scene, "SM1", None, late, "Pflegedokumentation für Erika (ID: P3)").await;
    message(&scene, "SM2", Some("agency-1"), late, "").await;
    message(&scene, "SM3", None, late, "(ID: P9)").await;
    // A session with a patient of another agency does not make the note that patient's.
    message(&scene, "SM4", Some("agency-3"), "2026-01-19T08:30:00Z", "").await;
    scene.drain().await;
    check(&scene, "SM1", "agency-3", "P3", "pending").await;
    check(&scene, "SM2", "agency-1", "", "triage").await;
    assert_eq!(document(&scene, "SM3").await, None);
    scene.is("SM3", "processing_status", "TRIAGE").await;
    scene.is("SM3", "failed_reason", "needs_human message.agency_unresolved").await;
    check(&scene, "SM4", "agency-3", "", "triage").await;
    // A person says whose it is; nothing is paid for again.
    let calls = scene.openai.asked().len();
    scene.sql("UPDATE whatsapp_inbound_messages SET agency_id = 'agency-1', patient_id = 'P1' WHERE message_sid = 'SM3'").await;
    scene.told(&["retry", "SM3"]).await;
    scene.drain().await;
    check(&scene, "SM3", "agency-1", "P1", "pending").await;
    assert_eq!(scene.openai.asked().len(), calls);
}

/// What the model heard counts when such a patient exists, and nothing certain speaks against it.
#[tokio::test(flavor = "multi_thread")]
async fn what_the_model_heard() {
    let scene = scene().await;
    let reply = |patient: &str| {
        windlass_standins::Reply::Text(format!(
            r#"{{"patientId":"{patient}","patientName":"X","serviceDate":"2026-01-18","khCodes":["LK1"],"structuredData":
            [{{"name":"pulse","value":"70"}}],"alerts":[{{"type":"fall","severity":"high","description":"d"}}],
            "originalLanguage":"tr","translations":{{"de":"auf Deutsch","en":null,"ar":null,"tr":null}}}}"#
        ))
    };
    for (sid, agency, received, patient) in [
        ("SM1", None, "2026-01-19T12:00:00Z", "P3"),
        ("SM2", Some("agency-1"), "2026-01-19T12:00:00Z", "P3"),
        ("SM3", None, "2026-01-19T08:30:00Z", "P3"),
    ] {
        scene.openai.reply(reply(patient));
        message(&scene, sid, agency, received, "").await;
        scene.drain().await;
    }
    check(&scene, "SM1", "agency-3", "P3", "pending").await;
    check(&scene, "SM2", "agency-1", "", "triage").await;
    // Bound to one patient, and the voice names another: see safety.rs.
    check(&scene, "SM3", "agency-1", "P1", "triage").await;
    let row = scene
        .client
        .query_one(
            "SELECT service_date, kh_codes::text, structured_data::text, alerts -> 0 ->> 'severity', original_language, \
             translated_content_de, translated_content_en FROM pending_care_documentations WHERE message_sid = 'SM1'",
            &[],
        )
        .await
        .unwrap();
    let found: Vec<Option<&str>> = (0..7).map(|at| row.get(at)).collect();
    let expected = ["2026-01-18", r#"["LK1"]"#, r#"{"pulse": "70"}"#, "high", "tr", "auf Deutsch"]
        .map(Some)
        .into_iter()
        .chain([None]);
    assert_eq!(found, expected.collect::<Vec<_>>());
}

/// One document for each message, whatever its agency was taken to be.
#[tokio::test(flavor = "multi_thread")]
async fn weakness_11_one_document_whatever_the_agency() {
    let scene = scene().await;
    message(&scene, "SM1", None, "2026-01-19T08:30:00Z", "").await;
    scene
        .sql(
            "INSERT INTO pending_care_documentations (id, agency_id, message_sid, raw_content) \
             VALUES ('pd_old', 'unknown', 'SM1', 'the first words')",
        )
        .await;
    scene.drain().await;
    scene.is("SM1", "processing_status", "DONE").await;
    assert_eq!(scene.documents().await, 1);
    let kept = "SELECT count(*) FROM pending_care_documentations WHERE raw_content = 'the first words'";
    assert_eq!(scene.count(kept).await, 1, "what was written stays as it is");
    scene.is("SM1", "document_id", "pd_old").await;
    let twice =
        "INSERT INTO pending_care_documentations (id, agency_id, message_sid) VALUES ('x', NULL, 'SM1')";
    assert!(scene.client.batch_execute(twice).await.is_err(), "not even without an agency");
}

/// Two notes of one session are two documents; a placeholder stays what it is.
#[tokio::test(flavor = "multi_thread")]
async fn weakness_12_a_second_note_does_not_overwrite_the_first() {
    let scene = scene().await;
    scene
        .sql(
            "ALTER TABLE whatsapp_care_sessions ADD pending_doc_id text; \
             UPDATE whatsapp_care_sessions SET pending_doc_id = 'pd_place' WHERE id = 'S1'; \
             INSERT INTO pending_care_documentations (id, agency_id, raw_content) VALUES ('pd_place', 'agency-1', 'placeholder')",
        )
        .await;
    message(&scene, "SM1", None, "2026-01-19T08:10:00Z", "").await;
    message(&scene, "SM2", None, "2026-01-19T08:20:00Z", "").await;
    scene.drain().await;
    check(&scene, "SM1", "agency-1", "P1", "pending").await;
    check(&scene, "SM2", "agency-1", "P1", "pending").await;
    let kept = "SELECT count(*) FROM pending_care_documentations WHERE raw_content = 'placeholder'";
    assert_eq!((scene.count(kept).await, scene.documents().await), (1, 3));
}
