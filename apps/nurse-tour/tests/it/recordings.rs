//! Recordings as they come: of all kinds, under all names, lost and found again.

use windlass_standins::{Fault, Gcs};

use crate::scene::Scene;

const AMR: &[u8] = b"#!AMR\n<\x91\x17\x16\xbe\x66\x79\xe1\xe0\x01\xe7\xaf";
const AAC: &[u8] = &[0xff, 0xf1, 0x50, 0x80, 0x02, 0x1f, 0xfc, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
const THREE_GP: &[u8] = b"\0\0\0\x18ftyp3gp4\0\0\x02\0isom3gp4";
const OGG: &[u8] = b"OggS\0\x02 and so on, for long enough";
const M4A: &[u8] = b"\0\0\0\x18ftypM4A \0\0\x02\0isomM4A ";

/// What the transcriber takes is sent, by its bytes and not by its name; what it does not take is archived and waits
/// for a person, and nothing was paid for it.
#[tokio::test(flavor = "multi_thread")]
async fn recordings_are_known_by_their_bytes() {
    let scene = Scene::new().await;
    let cases = [
        ("SM1", "audio/amr", AMR, "TRIAGE", "amr"),
        ("SM2", "audio/ogg", AMR, "TRIAGE", "amr"),
        ("SM3", "audio/aac", AAC, "TRIAGE", "aac"),
        ("SM4", "video/3gpp", THREE_GP, "TRIAGE", "3gp"),
        ("SM5", "application/octet-stream", OGG, "DONE", "ogg"),
        ("SM6", "", OGG, "DONE", "ogg"),
        ("SM7", "audio/aac", M4A, "DONE", "m4a"),
        ("SM8", "application/octet-stream", b"what is this, and who sent it?", "TRIAGE", "bin"),
        ("SM9", "audio/mpeg", b"a frame that begins in its middle", "DONE", "mp3"),
    ];
    for (sid, essence, bytes, _, _) in cases {
        scene.message(sid).await;
        scene.twilio.put(&format!("ME{sid}"), essence, bytes);
    }
    scene.drain().await;
    for (sid, essence, bytes, status, extension) in cases {
        assert_eq!(scene.of(sid, "processing_status").await.as_deref(), Some(status), "{sid} {essence}");
        scene.is(sid, "media_blob_id", &format!("audio/agency-1/{sid}.{extension}")).await;
        scene.is(sid, "audio_bytes", &bytes.len().to_string()).await;
        let reason = scene.of(sid, "failed_reason").await;
        assert_eq!(
            reason.as_deref(),
            (status == "TRIAGE").then_some("needs_human message.unsupported_audio")
        );
    }
    assert_eq!(scene.asked("transcriptions"), 4);
}

async fn in_a_bucket() -> (Scene, Gcs) {
    let (mut scene, gcs) = (Scene::new().await, Gcs::start().await);
    scene.set("AUDIO_STORE_URL", "gs://bucket-1/.private");
    scene.set("AUDIO_STORE_BASE_URL", &gcs.url());
    scene.set("AUDIO_STORE_TOKEN", &gcs.token());
    (scene, gcs)
}

/// The column has the whole key, as the worker before wrote it; whatever it names is found, also elsewhere than where
/// this worker would have put it, and as this worker wrote it once.
#[tokio::test(flavor = "multi_thread")]
async fn the_column_has_the_whole_key() {
    let (scene, gcs) = in_a_bucket().await;
    scene.message("SM1").await;
    scene.drain().await;
    scene.is("SM1", "media_blob_id", ".private/audio/agency-1/SM1.ogg").await;
    assert!(gcs.objects().contains_key("/bucket-1/.private/audio/agency-1/SM1.ogg"));
    let calls = scene.twilio.asked().len();
    for (sid, key, column) in [
        ("SM2", "/bucket-1/old/audio/agency-1/SM2.ogg", "old/audio/agency-1/SM2.ogg"),
        ("SM3", "/bucket-1/.private/audio/agency-1/SM3.ogg", "audio/agency-1/SM3.ogg"),
        ("SM4", "/bucket-1/.private/audio/agency-1/SM4.ogg", "/bucket-1/.private/audio/agency-1/SM4.ogg"),
        ("SM5", "/bucket-1/notes/SM5.ogg", "notes/SM5.ogg"),
    ] {
        gcs.put(key, OGG);
        scene.message(sid).await;
        let set = "UPDATE whatsapp_inbound_messages SET current_stage = 'AUDIO_STORED', media_blob_id = $1 WHERE message_sid = $2";
        scene.client.execute(set, &[&column, &sid]).await.unwrap();
    }
    scene.drain().await;
    for sid in ["SM2", "SM3", "SM4", "SM5"] {
        scene.is(sid, "processing_status", "DONE").await;
    }
    assert_eq!(scene.twilio.asked().len(), calls, "nothing was fetched again");
}

/// What the archive has lost is fetched again, and the archive has it then.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_object_is_fetched_again() {
    let (mut scene, gcs) = in_a_bucket().await;
    scene.set("WORKER_MAX_RETRIES", "1");
    scene.message("SM1").await;
    scene.openai.faults.push(Fault::Status(500, None));
    scene.drain().await;
    scene.is("SM1", "current_stage", "AUDIO_STORED").await;
    gcs.remove("/bucket-1/.private/audio/agency-1/SM1.ogg");
    scene.sql("UPDATE whatsapp_inbound_messages SET processing_status = 'READY', retry_count = 0").await;
    scene.drain().await;
    scene.is("SM1", "processing_status", "DONE").await;
    assert!(gcs.objects().contains_key("/bucket-1/.private/audio/agency-1/SM1.ogg"));
    assert_eq!(scene.twilio.asked().len(), 2);
    // Neither the archive nor Twilio has it: a person may.
    scene.message("SM2").await;
    scene.twilio.remove("MESM2");
    scene
        .sql(
            "UPDATE whatsapp_inbound_messages SET current_stage = 'AUDIO_STORED', media_blob_id = '.private/audio/a/SM2.ogg', \
             received_at = '2026-01-01T00:00:00Z' WHERE message_sid = 'SM2'",
        )
        .await;
    scene.drain().await;
    scene.is("SM2", "processing_status", "TRIAGE").await;
    scene.is("SM2", "failed_reason", "needs_human message.the_object_is_gone").await;
}

/// Nothing that was said makes no document, whoever stored it at whatever stage.
#[tokio::test(flavor = "multi_thread")]
async fn an_empty_transcript_makes_no_document() {
    let scene = Scene::new().await;
    for (sid, stage) in [("SM1", "TRANSCRIBED"), ("SM2", "ANALYZED")] {
        scene.message(sid).await;
        let set = "UPDATE whatsapp_inbound_messages SET current_stage = $1, media_blob_id = 'audio/a/x.ogg', transcript_text = E' \\n', \
                   analysis_json = CASE WHEN $1 = 'ANALYZED' THEN '{}' END WHERE message_sid = $2";
        scene.client.execute(set, &[&stage, &sid]).await.unwrap();
    }
    scene.drain().await;
    for sid in ["SM1", "SM2"] {
        scene.is(sid, "processing_status", "FAILED").await;
        scene.is(sid, "failed_reason", "permanent message.empty_transcript").await;
    }
    assert_eq!((scene.documents().await, scene.openai.asked().len()), (0, 0));
}

/// No text of the database can hold a NUL; the words around it are kept.
#[tokio::test(flavor = "multi_thread")]
async fn a_nul_is_taken_out() {
    let scene = Scene::new().await;
    scene.message("SM1").await;
    scene.openai.hear("Blutdruck\0 gut");
    scene.openai.reply(windlass_standins::Reply::Text(
        r#"{"patientId":null,"patientName":null,"serviceDate":null,"khCodes":["L\u0000K1"],"structuredData":[],"alerts":[],
        "originalLanguage":"de","translations":{"de":null,"en":"good\u0000","ar":null,"tr":null}}"#
            .into(),
    ));
    scene.drain().await;
    scene.is("SM1", "processing_status", "DONE").await;
    scene.is("SM1", "transcript_text", "Blutdruck gut").await;
    let kept = "SELECT count(*) FROM pending_care_documentations WHERE raw_content = 'Blutdruck gut' AND kh_codes = '[\"LK1\"]'";
    assert_eq!(scene.count(kept).await, 1);
}
