//! What goes wrong at the providers, and what becomes of the message.

use std::time::Duration;

use windlass_standins::{Answer, Fault, Gcs, OpenAi, Reply};
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

/// An answer that is packed, and cut off or damaged on its way: it may pass, whoever it is from.
#[tokio::test(flavor = "multi_thread")]
async fn a_packed_answer_that_is_broken_is_tried_again() {
    let text = r#"{"text": "what was said", "usage": {"seconds": 1}}"#;
    for broken in [packed(text, 20), packed(text, text.len() + 18), packed(text, text.len() + 23)] {
        for at in ["twilio", "transcript", "analysis"] {
            let scene = scene().await;
            let answer = |kind| Answer::new(200, kind, broken.clone()).with("content-encoding", "gzip");
            match at {
                "twilio" => scene.twilio.cdn.faults.push(Fault::Answer(answer("audio/ogg"))),
                "transcript" => scene.openai.faults.push(Fault::Answer(answer("application/json"))),
                _ => {
                    scene.openai.faults.push_ok();
                    scene.openai.faults.push(Fault::Answer(answer("application/json")));
                }
            }
            check(&scene, "DONE", "1", None).await;
            let why = "SELECT count(*) FROM nurse_tour_audit WHERE outcome = 'retry' AND reason LIKE 'transient %.broken_body%'";
            assert_eq!(scene.count(why).await, 1, "{at}, {} bytes", broken.len());
        }
    }
}

/// The first bytes of a text as gzip packs it, with a sum that is not its own.
fn packed(text: &str, bytes: usize) -> Vec<u8> {
    let length = u16::try_from(text.len()).unwrap();
    let head = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff, 1];
    let sum = [0xde, 0xad, 0xbe, 0xef];
    let whole = [&head[..], &length.to_le_bytes(), &(!length).to_le_bytes(), text.as_bytes(), &sum];
    let mut whole = whole.concat();
    whole.extend(u32::from(length).to_le_bytes());
    whole.truncate(bytes);
    whole
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

/// A word that the end of every message needs and an enum does not know: found before anything is paid for.
#[tokio::test(flavor = "multi_thread")]
async fn an_enum_that_does_not_know_the_end() {
    for (column, why) in [
        ("status", "the enum of whatsapp_inbound_messages.status does not know 'completed'"),
        (
            "processing_status",
            "whatsapp_inbound_messages.processing_status holds 5 letters; 'PROCESSING' has more",
        ),
    ] {
        let scene = scene().await;
        let kind = if column == "status" { "word" } else { "varchar(5)" };
        scene.sql("CREATE TYPE word AS ENUM ('new', 'done')").await;
        scene.sql("DROP INDEX idx_whatsapp_messages_claim, idx_whatsapp_messages_due, idx_whatsapp_messages_tries").await;
        scene
            .sql(&format!(
                "ALTER TABLE whatsapp_inbound_messages ALTER {column} TYPE {kind} USING {column}::{kind}"
            ))
            .await;
        scene.migrate().await;
        assert!(scene.check().await.1.iter().any(|one| one == why), "{:?}", scene.check().await);
        let output = scene.run(&[]).await;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(1) && said.contains(why), "{output:?}");
        scene.is("SM1", "current_stage", "RECEIVED").await;
        assert_eq!((scene.openai.asked().len(), scene.twilio.asked().len()), (0, 0), "nothing was paid for");
    }
}

/// An end that nobody can write, since the table has changed under the worker: the messages are held, none fails,
/// nothing more is claimed, it is said, and all ends as it should when the table is right again.
#[tokio::test(flavor = "multi_thread")]
async fn an_end_that_can_never_be_written() {
    for (spoil, mend) in [
        // No statement that names the word can be read any more, whatever it writes.
        (
            "ALTER TABLE whatsapp_inbound_messages ALTER status TYPE word USING NULL",
            "ALTER TYPE word ADD VALUE 'completed'",
        ),
        // No worker can be told to be gone.
        (
            "ALTER TABLE whatsapp_inbound_messages ADD CHECK (locked_by IS NOT NULL OR processing_status = 'READY')",
            "ALTER TABLE whatsapp_inbound_messages DROP CONSTRAINT whatsapp_inbound_messages_check",
        ),
        // Only a good end is refused, and what can be written is that it is tried again.
        (
            "ALTER TABLE whatsapp_inbound_messages ALTER failed_stage SET DEFAULT '', ALTER failed_stage SET NOT NULL",
            "ALTER TABLE whatsapp_inbound_messages ALTER failed_stage DROP NOT NULL",
        ),
        (
            "ALTER TABLE whatsapp_inbound_messages ADD CONSTRAINT words CHECK (processing_status <> 'DONE')",
            "ALTER TABLE whatsapp_inbound_messages DROP CONSTRAINT words",
        ),
    ] {
        let mut scene = Scene::new().await;
        let port = free_port();
        scene.set("WORKER_HTTP_LISTEN", &format!("127.0.0.1:{port}"));
        scene.set("WORKER_BATCH_SIZE", "4");
        scene.set("WORKER_CONCURRENCY", "4");
        scene.sql("CREATE TYPE word AS ENUM ('new', 'done'); ALTER TABLE whatsapp_inbound_messages ALTER failed_stage SET DEFAULT ''").await;
        for n in 1..=8 {
            scene.message(&format!("SM{n}")).await;
        }
        scene.sql("UPDATE whatsapp_inbound_messages SET failed_stage = ''").await;
        scene.openai.faults.always(Fault::HoldHead);
        let running = scene.start().await;
        eventually("four are at OpenAI's", async || (scene.openai.asked().len() == 4).then_some(())).await;
        scene.sql(spoil).await;
        scene.openai.faults.clear();
        scene.openai.faults.release();
        let why = "configuration database.end_refused";
        let told = format!("SELECT count(*) FROM nurse_tour_stops WHERE why = '{why}'");
        eventually(&format!("{spoil}: it is said"), async || (scene.count(&told).await == 1).then_some(()))
            .await;
        running.until_said("Claiming stopped").await;
        let health = get(port, "/health").await;
        assert!(health.starts_with("HTTP/1.1 503") && health.contains(why), "{spoil}: {health}");
        assert_eq!(scene.status().await["stopped"][0]["why"], why);
        // Whoever was claimed meanwhile comes to the same end. Longer than a lock lasts what is held stays held, and is no
        // crash.
        let touched = "SELECT count(*) FROM whatsapp_inbound_messages WHERE fence > 0";
        let claimed = scene.count(touched).await;
        let filed = "SELECT count(*) FROM pending_care_documentations";
        scene.until("those have their documents", filed, claimed).await;
        let since = scene.count("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint").await;
        let over =
            format!("SELECT (extract(epoch FROM clock_timestamp()) * 1000 > {since} + 8000)::int::bigint");
        scene.until("a lock would have run out", &over, 1).await;
        assert_eq!(scene.count(touched).await, claimed, "{spoil}: nothing more was claimed");
        let lost = "SELECT count(*) FROM whatsapp_inbound_messages WHERE processing_status = 'FAILED' OR crash_count > 0";
        assert_eq!(scene.count(lost).await, 0, "{spoil}: nothing failed");
        scene.sql(mend).await;
        scene.resume().await;
        let done = "SELECT count(*) FROM whatsapp_inbound_messages WHERE processing_status = 'DONE' AND retry_count = 0";
        scene.until(&format!("{spoil}: all are done"), done, 8).await;
        running.stop().await;
        assert_eq!((scene.asked("completions"), scene.documents().await), (8, 8), "{spoil}: paid for once");
    }
}

/// A worker that is told to end does not wait for the table; the next one, once it is right, ends what was left.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_holds_a_message_ends_when_it_is_told() {
    let scene = scene().await;
    scene.openai.faults.push(Fault::HoldHead);
    let running = scene.start().await;
    eventually("it is at OpenAI's", async || (scene.openai.asked().len() == 1).then_some(())).await;
    scene.sql("CREATE TYPE word AS ENUM ('new', 'done'); ALTER TABLE whatsapp_inbound_messages ALTER status TYPE word USING NULL").await;
    scene.openai.faults.release();
    running.until_said("database.end_refused").await;
    running.stop().await;
    scene.is("SM1", "processing_status", "PROCESSING").await;
    scene.sql("ALTER TYPE word ADD VALUE 'completed'").await;
    scene.drain().await;
    scene.is("SM1", "processing_status", "DONE").await;
    assert_eq!((scene.asked("completions"), scene.documents().await), (1, 1));
}

/// A reason that the column does not hold: the message is given back, and the operator is told.
#[tokio::test(flavor = "multi_thread")]
async fn a_failure_that_can_never_be_written() {
    let scene = scene().await;
    scene.sql("ALTER TABLE whatsapp_inbound_messages ALTER failed_reason TYPE varchar(10)").await;
    scene.openai.faults.push(Fault::Answer(OpenAi::error(413, "server_error", None)));
    let running = scene.start().await;
    let told = "SELECT count(*) FROM nurse_tour_stops WHERE why = 'configuration database.end_refused'";
    eventually("it is said", async || (scene.count(told).await == 1).then_some(())).await;
    scene.until("it is given back", "SELECT count(*) FROM whatsapp_inbound_messages WHERE processing_status = 'RETRY' AND retry_count = 0", 1).await;
    scene.sql("ALTER TABLE whatsapp_inbound_messages ALTER failed_reason TYPE text").await;
    scene.resume().await;
    scene
        .until(
            "it is done",
            "SELECT count(*) FROM whatsapp_inbound_messages WHERE processing_status = 'DONE'",
            1,
        )
        .await;
    running.stop().await;
}

/// A claim whose values do not fit stops the claiming as well.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_does_not_fit() {
    let mut scene = Scene::new().await;
    let port = free_port();
    scene.set("WORKER_HTTP_LISTEN", &format!("127.0.0.1:{port}"));
    let running = scene.start().await;
    scene.sql("ALTER TABLE whatsapp_inbound_messages ALTER claim_id TYPE varchar(3)").await;
    scene.message("SM1").await;
    let told = "SELECT count(*) FROM nurse_tour_stops WHERE why LIKE 'configuration table.%'";
    eventually("it is said", async || (scene.count(told).await == 1).then_some(())).await;
    assert!(get(port, "/health").await.starts_with("HTTP/1.1 503"));
    scene.sql("ALTER TABLE whatsapp_inbound_messages ALTER claim_id TYPE text").await;
    scene.resume().await;
    scene.until("it is over", OPEN, 0).await;
    running.stop().await;
    scene.is("SM1", "processing_status", "DONE").await;
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
