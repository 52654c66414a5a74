//! Faults 71, 72: what is secret or known of a patient is in no output.

use std::io::Write;
use std::sync::{Arc, Mutex};

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use windlass_engine::world::RealWorld;
use windlass_standins::{Fault, OpenAi, Reply};

use crate::errors::{free_port, get};
use crate::inside::Inside;
use crate::scene::{OPEN, Scene};

const NAME: &str = "Canary-Erika-Musterfrau";
const PHONE: &str = "+491519990canary";
const WORDS: &str = "canary-transcript-blood-pressure";

#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Kept {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

/// Everything that any crate logs at any level is searched, not only what the worker's own form would show: so this
/// one is inside. What the program says is searched in `program.rs`.
#[tokio::test(flavor = "multi_thread")]
async fn fault_71_72_canaries_in_every_output() {
    let kept = Kept::default();
    let ours = Targets::new().with_target("windlass", LevelFilter::TRACE);
    let said = tracing_subscriber::fmt().with_max_level(LevelFilter::TRACE).with_writer(kept.clone());
    said.finish().with(ours).init();
    let mut scene = Scene::new().await;
    let port = free_port();
    scene.set("WORKER_HTTP_LISTEN", &format!("127.0.0.1:{port}"));
    scene.set("WORKER_RETRY_LADDER", "10ms");
    let analysis = format!(
        r#"{{"patientId":"{NAME}","patientName":"{NAME}","serviceDate":null,"khCodes":[],"structuredData":[],"alerts":[],
        "originalLanguage":"de","translations":{{"de":"{WORDS}","en":null,"ar":null,"tr":null}}}}"#
    );
    for n in 1..=6 {
        let sid = format!("SM{n}");
        scene.message(&sid).await;
        let set = "UPDATE whatsapp_inbound_messages SET from_number = $1, profile_name = $2, body = $2 WHERE message_sid = $3";
        scene.client.execute(set, &[&PHONE, &NAME, &sid]).await.unwrap();
    }
    // Each way to fail, with words that nobody should repeat.
    scene.openai.faults.push(Fault::Answer(OpenAi::error(400, NAME, Some(WORDS))));
    scene.openai.faults.push(Fault::Status(500, None));
    scene.openai.faults.push(Fault::Garbage);
    scene.openai.reply(Reply::Refusal(WORDS.into()));
    scene.openai.reply(Reply::Text(format!("{WORDS} is no JSON")));
    scene.openai.reply(Reply::Text(analysis.clone()));
    scene.openai.reply(Reply::Text(analysis));
    scene.sql("UPDATE whatsapp_inbound_messages SET media_url = 'https://evil.example/canary-signature' WHERE message_sid = 'SM6'").await;
    let running = Inside::start(&scene, Arc::new(RealWorld::new()), None).await;
    scene.until("all are over", OPEN, 0).await;
    let mut outputs = get(port, "/metrics").await + &get(port, "/health").await;
    running.stop().await;
    outputs += &String::from_utf8_lossy(&kept.0.lock().unwrap());
    let columns = "SELECT string_agg(concat_ws(' ', failed_reason, failed_stage, locked_by, media_blob_id), ' ') FROM whatsapp_inbound_messages";
    outputs += &scene.client.query_one(columns, &[]).await.unwrap().get::<_, String>(0);
    let audit = "SELECT string_agg(a::text, ' ') FROM nurse_tour_audit a";
    outputs += &scene.client.query_one(audit, &[]).await.unwrap().get::<_, String>(0);
    for canary in ["anary", PHONE, "evil.example", "Media/ME", &scene.twilio.token(), &scene.openai.key()] {
        let found =
            outputs.find(canary).map(|at| &outputs[at.saturating_sub(120)..(at + 120).min(outputs.len())]);
        assert!(found.is_none(), "{canary} was found: …{found:?}…");
    }
    // A test that saw nothing proves nothing.
    for word in [
        "Stage TRANSCRIBED complete",
        "permanent twilio.not_ours",
        "needs_human openai.refusal",
        "SM1",
        "nurse_tour_stage_seconds",
    ] {
        assert!(outputs.contains(word), "{word} is missing");
    }
    assert!(scene.documents().await >= 1);
}
