//! What must never happen to a patient: a value that is lost in silence, a note under another's name.

use serde_json::{Value, json};
use windlass_standins::Reply;

use crate::scene::Scene;

/// Erika, who is P1, is visited from 8 to 9.
async fn scene() -> Scene {
    let scene = Scene::new().await;
    scene
        .sql(
            "INSERT INTO patients (id, agency_id) VALUES ('P1', 'agency-1'), ('P2', 'agency-1'); \
             INSERT INTO patient_qr_codes (patient_id, agency_id) VALUES ('P1', 'agency-1'); \
             INSERT INTO whatsapp_care_sessions (id, phone_number, patient_id, patient_name, created_at, expires_at) VALUES \
             ('S1', '+4915100000001', 'P1', 'Erika Muster', '2026-01-19T08:00:00Z', '2026-01-19T09:00:00Z')",
        )
        .await;
    scene
}

fn form(patient: Value, name: Value, pairs: Value) -> Reply {
    Reply::Text(
        json!({"patientId": patient, "patientName": name, "serviceDate": null, "khCodes": [], "structuredData": pairs,
               "alerts": [{"type": "fall", "severity": "low", "description": "d"}], "originalLanguage": "de",
               "translations": {"de": null, "en": null, "ar": null, "tr": null}})
        .to_string(),
    )
}

/// The document of a note that arrived while the nurse was with Erika.
async fn document(scene: &Scene, sid: &str, reply: Reply) -> (String, String, Value, Value) {
    scene.openai.reply(reply);
    scene.message(sid).await;
    let set =
        "UPDATE whatsapp_inbound_messages SET received_at = '2026-01-19T08:30:00Z' WHERE message_sid = $1";
    scene.client.execute(set, &[&sid]).await.unwrap();
    scene.drain().await;
    let sql = "SELECT patient_id || ' ' || patient_name, status, structured_data::text, alerts::text \
               FROM pending_care_documentations WHERE message_sid = $1";
    let row = scene.client.query_one(sql, &[&sid]).await.unwrap();
    let read = |at: usize| serde_json::from_str(row.get(at)).unwrap();
    (row.get(0), row.get(1), read(2), read(3))
}

/// Two measurements of one name, two doses of one medicine: both are in the document.
#[tokio::test(flavor = "multi_thread")]
async fn values_of_one_name_are_all_kept() {
    let scene = scene().await;
    let pair = |name: &str, value: &str| json!({"name": name, "value": value});
    let pairs = json!([
        pair("RR", "120/80"),
        pair("Insulin", "8 IE"),
        pair("RR", "185/110"),
        pair("Insulin", "4 IE")
    ]);
    let (_, status, data, _) = document(&scene, "SM1", form(Value::Null, Value::Null, pairs)).await;
    assert_eq!(data, json!({"RR": ["120/80", "185/110"], "Insulin": ["8 IE", "4 IE"]}));
    assert_eq!(status, "pending");
}

/// The document keeps the name of the patient to whom it is bound, shows whom the voice names, and asks for a person.
#[tokio::test(flavor = "multi_thread")]
async fn a_recording_that_names_another() {
    let scene = scene().await;
    for (sid, id, name) in [
        ("SM1", Value::Null, json!("Otto Beispiel")),
        ("SM2", json!("P2"), Value::Null),
        ("SM3", json!("P2"), json!("Otto Beispiel")),
    ] {
        let (who, status, data, alerts) =
            document(&scene, sid, form(id.clone(), name.clone(), json!([]))).await;
        assert_eq!((who.as_str(), status.as_str()), ("P1 Erika Muster", "triage"), "{sid}");
        let shown = json!({"boundPatientId": "P1", "boundPatientName": "Erika Muster", "spokenPatientId": id, "spokenPatientName": name});
        assert_eq!(data, json!({"patientContradiction": shown}), "{sid}");
        assert_eq!(
            (&alerts[0]["type"], &alerts[0]["severity"]),
            (&json!("patient_contradiction"), &json!("critical"))
        );
        let said = alerts[0]["description"].as_str().unwrap();
        let other = name.as_str().or(id.as_str()).unwrap();
        assert!(said.contains("Erika Muster (P1)") && said.contains(other), "{said}");
        assert_eq!(alerts[1]["type"], "fall", "what the model warns of stays");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recording_that_names_the_same() {
    let scene = scene().await;
    for (sid, id, name) in [("SM1", Value::Null, json!("Frau Muster")), ("SM2", json!("p1"), json!("Erika"))]
    {
        let (who, status, data, alerts) = document(&scene, sid, form(id, name, json!([]))).await;
        assert_eq!((who.as_str(), status.as_str()), ("P1 Erika Muster", "pending"));
        assert_eq!((data, alerts.as_array().unwrap().len()), (json!({}), 1));
    }
}

/// A patient who is known by an id alone does not get the name that the voice says.
#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_nobody_knows_is_not_taken_from_the_voice() {
    let scene = scene().await;
    scene.sql("DELETE FROM whatsapp_care_sessions").await;
    scene.message("SM1").await;
    scene.sql("UPDATE whatsapp_inbound_messages SET patient_id = 'P1'").await;
    scene.openai.reply(form(Value::Null, json!("Otto Beispiel"), json!([])));
    scene.drain().await;
    let sql = "SELECT patient_id || '|' || patient_name, alerts -> 0 ->> 'type', status FROM pending_care_documentations";
    let row = scene.client.query_one(sql, &[]).await.unwrap();
    assert_eq!((row.get::<_, &str>(0), row.get::<_, &str>(1)), ("P1|", "patient_unverified"));
    assert_eq!(row.get::<_, &str>(2), "triage", "nobody but a person can tell whether it is the same");
    // Where the table of patients knows the name, it is that one.
    scene.sql("ALTER TABLE patients ADD name text; UPDATE patients SET name = 'Erika Muster'").await;
    scene.message("SM2").await;
    scene.sql("UPDATE whatsapp_inbound_messages SET patient_id = 'P1' WHERE message_sid = 'SM2'").await;
    scene.openai.reply(form(Value::Null, json!("Otto Beispiel"), json!([])));
    scene.drain().await;
    let sql = "SELECT patient_name, status FROM pending_care_documentations WHERE message_sid = 'SM2'";
    let row = scene.client.query_one(sql, &[]).await.unwrap();
    assert_eq!((row.get::<_, &str>(0), row.get::<_, &str>(1)), ("Erika Muster", "triage"));
}

/// A session, a row or a text that names another than the id beside it means: the document takes the patient's own
/// name, and asks for a person, whoever of the two the voice names.
#[tokio::test(flavor = "multi_thread")]
async fn a_binding_that_names_another() {
    let scene = scene().await;
    scene
        .sql("ALTER TABLE patients ADD name text; UPDATE patients SET name = 'Erika Muster' WHERE id = 'P1'")
        .await;
    scene.sql("UPDATE whatsapp_care_sessions SET patient_name = 'Otto Beispiel'").await;
    for (sid, name, alerts_count) in
        [("SM1", json!("Otto Beispiel"), 3), ("SM2", json!("Erika Muster"), 2), ("SM3", Value::Null, 2)]
    {
        let (who, status, data, alerts) = document(&scene, sid, form(Value::Null, name, json!([]))).await;
        assert_eq!((who.as_str(), status.as_str()), ("P1 Erika Muster", "triage"), "{sid}");
        assert_eq!(data["patientContradiction"]["writtenPatientName"], "Otto Beispiel", "{sid}: {data}");
        let alerts = alerts.as_array().unwrap();
        assert_eq!(alerts.len(), alerts_count, "{sid}: {alerts:?}");
        assert_eq!(alerts[0]["type"], "patient_contradiction");
    }
    scene.sql("UPDATE whatsapp_care_sessions SET patient_name = 'Frau Muster'").await;
    let (who, status, _, _) = document(&scene, "SM4", form(Value::Null, json!("Erika"), json!([]))).await;
    assert_eq!(
        (who.as_str(), status.as_str()),
        ("P1 Erika Muster", "pending"),
        "the same, said in another way"
    );
}

/// A measurement may be called like what we show.
#[tokio::test(flavor = "multi_thread")]
async fn a_measurement_called_like_the_contradiction_is_kept() {
    let scene = scene().await;
    let pairs = json!([{"name": "patientContradiction", "value": "120/80"}]);
    let (_, status, data, _) =
        document(&scene, "SM1", form(Value::Null, json!("Otto Beispiel"), pairs)).await;
    assert_eq!(
        (status.as_str(), &data["patientContradiction_spoken"]),
        ("triage", &json!("120/80")),
        "{data}"
    );
    assert_eq!(data["patientContradiction"]["spokenPatientName"], "Otto Beispiel");
}

/// A server that ignores the schema and gives an object loses nothing; one that gives neither is asked again.
#[tokio::test(flavor = "multi_thread")]
async fn measurements_in_another_form_are_kept() {
    let mut scene = scene().await;
    scene.set("WORKER_RETRY_LADDER", "10ms");
    let object = json!({"RR": "180/110", "Insulin": "8 IE"});
    let (_, _, data, _) = document(&scene, "SM1", form(Value::Null, Value::Null, object.clone())).await;
    assert_eq!(data, object);
    scene.openai.reply(form(Value::Null, Value::Null, json!("RR 180/110")));
    let pairs = json!([{"name": "RR", "value": "180/110"}]);
    let (_, _, data, _) = document(&scene, "SM2", form(Value::Null, Value::Null, pairs)).await;
    assert_eq!(data, json!({"RR": "180/110"}));
}
