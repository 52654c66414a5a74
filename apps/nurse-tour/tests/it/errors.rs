//! What goes wrong at the providers, and what becomes of the message.

use std::time::Duration;

use windlass_standins::{Fault, Gcs, OpenAi, Reply};
use windlass_testkit::eventually::eventually;

use crate::scene::{OPEN, Scene};

/// A scene with one message and a ladder that takes no time.
async fn scene() -> Scene {
    let mut scene = Scene::new().await;
    scene.set("WORKER_RETRY_LADDER", "10ms");
    scene.message("SM1").await;
    scene
}

/// Works until the message is over, and says what became of it.
async fn check(scene: &Scene, status: &str, tries: &str, reason: Option<&str>) {
    scene.drain().await;
    scene.is("SM1", "processing_status", status).await;
    scene.is("SM1", "retry_count", tries).await;
    assert_eq!(scene.of("SM1", "failed_reason").await.as_deref(), reason);
    assert_eq!(scene.documents().await, i64::from(status == "DONE"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_media_that_comes_a_moment_later() {
    let scene = scene().await;
    scene.twilio.faults.push(Fault::Status(404, None));
    check(&scene, "DONE", "1", None).await;
}

/// Weakness 16: what cannot pass is not tried five times.
#[tokio::test(flavor = "multi_thread")]
async fn weakness_16_permanent_errors_fail_at_once() {
    for (fault, reason) in [
        (Fault::Huge(17 * 1024 * 1024), "permanent message.too_large"),
        (Fault::Type("text/html"), "permanent twilio.wrong_kind"),
        (Fault::RedirectLoop, "permanent twilio.too_many_redirects"),
    ] {
        let scene = scene().await;
        scene.twilio.cdn.faults.always(fault);
        check(&scene, "FAILED", "1", Some(reason)).await;
        scene.is("SM1", "failed_stage", "AUDIO_STORED").await;
    }
    let scene = scene().await;
    scene.openai.faults.push(Fault::Answer(OpenAi::error(413, "server_error", None)));
    check(&scene, "FAILED", "1", Some("permanent openai.permanent.server_error status=413")).await;
    assert_eq!(scene.asked("transcriptions"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_answers_are_given_up_and_tried_again() {
    let mut scene = scene().await;
    scene.set("TWILIO_TIMEOUT_SECONDS", "0.2");
    scene.set("OPENAI_TIMEOUT_SECONDS", "0.2");
    scene.twilio.cdn.faults.push(Fault::Trickle { every: Duration::from_millis(20) });
    scene.openai.faults.push(Fault::HoldHead);
    check(&scene, "DONE", "2", None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_note_that_breaks_off_leaves_nothing_behind() {
    let scene = scene().await;
    scene.twilio.cdn.faults.push(Fault::CutBody { after: 1_000 });
    check(&scene, "DONE", "1", None).await;
}

/// A rate limit costs no try, and holds back the fleet for as long as it says.
#[tokio::test(flavor = "multi_thread")]
async fn a_rate_limit_costs_no_try() {
    let scene = scene().await;
    let limit = OpenAi::error(429, "requests", Some("rate_limit_exceeded")).with("retry-after", "1");
    scene.openai.faults.push(Fault::Answer(limit));
    check(&scene, "DONE", "0", None).await;
    let waited = "SELECT extract(epoch FROM max(at) - min(at) FILTER (WHERE outcome = 'parked'))::float8 FROM nurse_tour_audit";
    let waited: f64 = scene.client.query_one(waited, &[]).await.unwrap().get(0);
    assert!(waited >= 1.0, "it came back after {waited} s");
    assert_eq!(scene.count("SELECT count(*) FROM nurse_tour_cool_downs").await, 0, "it works again, for all");
}

/// A key that is not accepted, and an account without money: nothing more is
/// claimed, no try is used, and health says so.
#[tokio::test(flavor = "multi_thread")]
async fn configuration_stops_the_claiming() {
    for (fault, reason) in [
        (
            OpenAi::error(401, "invalid_request_error", Some("invalid_api_key")),
            "openai.configuration status=401",
        ),
        (
            OpenAi::error(429, "insufficient_quota", Some("insufficient_quota")),
            "openai.insufficient_quota status=429",
        ),
    ] {
        let mut scene = scene().await;
        let port = free_port();
        scene.set("WORKER_HTTP_LISTEN", &format!("127.0.0.1:{port}"));
        scene.set("WORKER_BATCH_SIZE", "1");
        scene.openai.faults.always(Fault::Answer(fault));
        for sid in ["SM2", "SM3", "SM4"] {
            scene.message(sid).await;
        }
        let running = scene.start().await;
        let parked = "SELECT count(*) FROM nurse_tour_audit WHERE outcome = 'parked'";
        eventually("one message was given back", async || (scene.count(parked).await > 0).then_some(()))
            .await;
        let health = get(port, "/health").await;
        assert!(health.starts_with("HTTP/1.1 503") && health.contains(reason), "{health}");
        assert!(get(port, "/metrics").await.contains("nurse_tour_claiming_stopped 1"));
        running.stop().await;
        let used = "SELECT count(*) FROM whatsapp_inbound_messages WHERE retry_count > 0 OR processing_status = 'FAILED'";
        assert_eq!(scene.count(used).await, 0, "no message has lost a try");
        assert_eq!(
            scene
                .count("SELECT count(*) FROM whatsapp_inbound_messages WHERE processing_status = 'READY'")
                .await,
            3
        );
    }
}

/// A wrong token of Twilio's is the operator's business, too.
#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_twilio_token_burns_nothing() {
    let mut scene = scene().await;
    scene.set("TWILIO_AUTH_TOKEN", "wrong");
    let running = scene.start().await;
    let told =
        "SELECT count(*) FROM nurse_tour_stops WHERE why = 'configuration twilio.configuration status=401'";
    eventually("it is found at the start", async || (scene.count(told).await == 1).then_some(())).await;
    running.stop().await;
    scene.is("SM1", "retry_count", "0").await;
    scene.is("SM1", "processing_status", "READY").await;
    assert_eq!(
        scene.count("SELECT count(*) FROM nurse_tour_stops").await,
        0,
        "a worker that ends takes it back"
    );
}

/// What the model will not or cannot say is for a person: visible, and not paid for again.
#[tokio::test(flavor = "multi_thread")]
async fn refusals_wait_for_a_person() {
    for (reply, code) in [
        (Reply::Refusal("canary: I cannot".into()), "refusal"),
        (Reply::Truncated("{\"patientId\":".into()), "truncated"),
        (Reply::Filtered, "filtered"),
    ] {
        let scene = scene().await;
        scene.openai.reply(reply);
        check(&scene, "TRIAGE", "1", Some(&format!("needs_human openai.{code}"))).await;
        assert_eq!(scene.asked("completions"), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn trouble_that_passes_is_tried_again() {
    let scene = scene().await;
    scene.openai.faults.push(Fault::Status(500, None));
    scene.openai.faults.push_ok();
    scene.openai.faults.push(Fault::Garbage);
    // The first is said to the request whose answer is garbled.
    scene.openai.reply(Reply::Text("{}".into()));
    scene.openai.reply(Reply::Text("this is no JSON".into()));
    check(&scene, "DONE", "3", None).await;
    assert_eq!(scene.asked("transcriptions"), 2, "a stored transcript is not paid for again");
}

/// Audio in a bucket: put once, read back, and the credentials of the store are its own.
#[tokio::test(flavor = "multi_thread")]
async fn audio_in_a_bucket() {
    let mut scene = scene().await;
    let gcs = Gcs::start().await;
    scene.set("AUDIO_STORE_URL", "gs://bucket-1/.private");
    scene.set("AUDIO_STORE_BASE_URL", &gcs.url());
    scene.set("AUDIO_STORE_TOKEN", &gcs.token());
    gcs.faults.push(Fault::Status(503, None));
    check(&scene, "DONE", "1", None).await;
    let objects = gcs.objects();
    assert_eq!(objects.keys().collect::<Vec<_>>(), ["/bucket-1/.private/audio/agency-1/SM1.ogg"]);
    scene.is("SM1", "media_blob_id", ".private/audio/agency-1/SM1.ogg").await;
}

/// A bucket that does not accept us stops the claiming.
#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_that_refuses_us() {
    let mut scene = scene().await;
    let gcs = Gcs::start().await;
    scene.set("AUDIO_STORE_URL", "gs://bucket-1/.private");
    scene.set("AUDIO_STORE_BASE_URL", &gcs.url());
    scene.set("AUDIO_STORE_TOKEN", "wrong");
    let running = scene.start().await;
    let told = "SELECT count(*) FROM nurse_tour_stops WHERE why = 'configuration objects.configuration'";
    eventually("it is found at the start", async || (scene.count(told).await == 1).then_some(())).await;
    running.stop().await;
    scene.is("SM1", "current_stage", "RECEIVED").await;
    scene.is("SM1", "retry_count", "0").await;
}

/// What the database will never take is no reason to wait for ever.
#[tokio::test(flavor = "multi_thread")]
async fn a_document_that_the_database_refuses() {
    let scene = scene().await;
    scene.sql("ALTER TABLE pending_care_documentations ADD CHECK (agency_id <> 'agency-1')").await;
    check(&scene, "FAILED", "1", Some("permanent database.refused")).await;
    scene.is("SM1", "current_stage", "ANALYZED").await;
}

/// A table that does not take a word of ours: the message says so, and the others end as they should.
#[tokio::test(flavor = "multi_thread")]
async fn a_word_that_the_table_does_not_know() {
    let mut scene = scene().await;
    scene.set("WORKER_BATCH_SIZE", "20");
    for n in 2..=20 {
        scene.message(&format!("SM{n}")).await;
    }
    scene
        .sql(
            "ALTER TABLE whatsapp_inbound_messages ADD CONSTRAINT known_words \
             CHECK (processing_status IN ('READY', 'RETRY', 'PROCESSING', 'DONE', 'FAILED'))",
        )
        .await;
    assert_eq!(
        scene.check().await.1,
        [
            "the constraint known_words of whatsapp_inbound_messages does not know processing_status = 'TRIAGE'"
        ]
    );
    scene.sql("UPDATE whatsapp_inbound_messages SET agency_id = NULL WHERE message_sid = 'SM1'").await;
    scene.drain().await;
    scene.is("SM1", "processing_status", "FAILED").await;
    scene.is("SM1", "failed_reason", "permanent database.refused").await;
    assert_eq!(scene.documents().await, 19);
}

/// A message is not done by somebody else's document that happens to have its id; and those whose documents
/// are written in the same moment are none the worse for it.
#[tokio::test(flavor = "multi_thread")]
async fn a_document_whose_id_is_taken() {
    let mut scene = scene().await;
    scene.set("WORKER_BATCH_SIZE", "20");
    for n in 2..=20 {
        scene.message(&format!("SM{n}")).await;
    }
    scene.sql("INSERT INTO pending_care_documentations (id, agency_id, message_sid) VALUES ('pd_SM1', 'agency-1', 'SM99')").await;
    // All of them are held up at one place, so that they go on together.
    scene.openai.faults.always(Fault::HoldHead);
    let running = scene.start().await;
    eventually("all are at OpenAI's", async || (scene.openai.asked().len() == 20).then_some(())).await;
    scene.openai.faults.clear();
    scene.openai.faults.release();
    scene.until("all are over", OPEN, 0).await;
    running.stop().await;
    scene.is("SM1", "processing_status", "FAILED").await;
    scene.is("SM1", "failed_reason", "permanent database.refused").await;
    let done = "SELECT count(*) FROM whatsapp_inbound_messages WHERE processing_status = 'DONE'";
    assert_eq!((scene.count(done).await, scene.documents().await), (19, 20));
}

pub fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A request by hand: head and body as they come.
pub async fn get(port: u16, path: &str) -> String {
    exchange(port, &format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n")).await
}

pub async fn exchange(port: u16, request: &str) -> String {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let connect = async || tokio::net::TcpStream::connect(("127.0.0.1", port)).await.ok();
    let mut tcp = eventually("the port is open", connect).await;
    tcp.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    tcp.read_to_string(&mut answer).await.unwrap();
    answer
}
