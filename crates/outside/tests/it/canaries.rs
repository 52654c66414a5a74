//! Secrets and patients' words are planted everywhere, every call is made to
//! fail in every way, and nothing of them is in any error or log line.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use tracing_subscriber::fmt::MakeWriter;
use url::Url;
use windlass_outside::article::{Agent, Articles, Settings};
use windlass_outside::google_rss::{GoogleRss, Locale};
use windlass_outside::models::{Model, OpenAiModel, Question};
use windlass_outside::news::{Apitube, NewsProvider, Newsdata};
use windlass_outside::objects::{CloudSettings, ObjectKey, Objects};
use windlass_outside::openai::{Audio, Chat, Message, OpenAi, Schema, Transcription};
use windlass_outside::safe_http::{Http, HttpError, Limits};
use windlass_outside::secret::Secret;
use windlass_outside::twilio::Twilio;
use windlass_outside::workers_ai::WorkersAi;
use windlass_outside::workers_kv::{Batch, Pair, WorkersKv};
use windlass_standins::{Answer, Ask, Fault, Server};

use crate::common::{http, url};

const CANARY: &str = "canary";

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

/// All calls of all clients, with a canary in everything that they are given.
async fn calls(server: &Server, limits: Limits) -> Vec<String> {
    let base = url(&format!("{}/canary-path", server.url()));
    let http = http(&[server.url()]);
    let secret = || Secret::new("canary-secret".to_owned());
    let mut said = Vec::new();
    let mut note = |what: &dyn std::fmt::Debug, text: Option<String>| {
        said.push(format!("{what:?}"));
        said.extend(text);
    };
    let rss = GoogleRss::new(http.clone(), base.clone(), Locale::default(), limits, "Test/1.0");
    let found = rss.search("canary-query").await;
    note(&found.as_ref().map(Vec::len), found.as_ref().err().map(ToString::to_string));
    let openai = OpenAi::new(http.clone(), base.clone(), secret(), limits).unwrap();
    let chat = Chat::new("model", Message::user("canary-patient"));
    let found = openai.chat(&chat).await;
    note(&(&openai, &chat, &found), found.as_ref().err().map(ToString::to_string));
    let how = Transcription { model: "whisper-1", extension: "ogg", language: None };
    let found = openai.transcribe(&how, Audio::bytes(Bytes::from_static(b"canary-audio"))).await;
    note(&found, found.as_ref().err().map(ToString::to_string));
    let twilio = Twilio::new(http.clone(), base.clone(), "ACcanary", &secret(), limits).unwrap();
    let address = format!("{base}/2010-04-01/Accounts/ACcanary/Messages/MMcanary/Media/MEcanary");
    let found = twilio.media(&address, &["audio/"]).await;
    note(&found, found.as_ref().err().map(ToString::to_string));
    let forged = twilio.media("https://canary.example/canary", &[]).await;
    note(&forged, forged.as_ref().err().map(ToString::to_string));
    more(&http, &base, limits, &mut note).await;
    let settings = CloudSettings { base: Some(base), token: Some(secret()), limits };
    let objects = Objects::open("gs://canary-bucket/canary-prefix", settings).unwrap();
    let key = ObjectKey::new(&["canary", "SM1.ogg"]).unwrap();
    let content = || stream::iter([Ok::<_, HttpError>(Bytes::from_static(b"canary-content"))]);
    let found = objects.put_new(&key, 100, content()).await;
    note(&(&objects, &key, &found), found.as_ref().err().map(ToString::to_string));
    let found = objects.head(&key).await;
    note(&found, found.as_ref().err().map(ToString::to_string));
    let found = objects.get(&key).await.map(|found| found.map(|object| object.bytes));
    note(&found, found.as_ref().err().map(ToString::to_string));
    said
}

/// The calls of the clients for news, models, published values and pages.
async fn more(
    http: &Http,
    base: &Url,
    limits: Limits,
    note: &mut impl FnMut(&dyn std::fmt::Debug, Option<String>),
) {
    let secret = || Secret::new("canary-secret".to_owned());
    let newsdata = Newsdata::new(http.clone(), base.clone(), secret(), limits);
    let apitube = Apitube::new(http.clone(), base.clone(), &secret(), limits).unwrap();
    let providers: [&dyn NewsProvider; 2] = [&newsdata, &apitube];
    for provider in providers {
        let found = provider.page(None).await.map(|page| page.articles.len());
        note(&(&newsdata, &apitube, &found), found.as_ref().err().map(ToString::to_string));
    }
    let account = || "canary-account".to_owned();
    let model = "@cf/model";
    let workers_ai = WorkersAi::new(http.clone(), base.clone(), account(), &secret(), model, limits).unwrap();
    let openai = OpenAi::new(http.clone(), base.clone(), secret(), limits).unwrap();
    let openai = OpenAiModel::new(openai, "model");
    let schema = Schema { name: "x".to_owned(), schema: serde_json::json!({"type": "object"}) };
    let question = Question { messages: vec![Message::user("canary-text")], tokens_max: 10, schema };
    let models: [&dyn Model; 2] = [&workers_ai, &openai];
    for model in models {
        let found = model.ask(&question).await;
        note(&(&question, &found), found.as_ref().err().map(ToString::to_string));
    }
    let kv =
        WorkersKv::new(http.clone(), base.clone(), Some(account()), "canary-ns", &secret(), limits).unwrap();
    let found = kv.get("canary-key").await.map(|value| value.is_some());
    note(&found, found.as_ref().err().map(ToString::to_string));
    let batch = Batch::of(&[Pair::new("canary-key", "canary-value", None).unwrap()]);
    let found = kv.put_all(&batch[0]).await.map(|bulk| bulk.done);
    note(&found, found.as_ref().err().map(ToString::to_string));
    let found = kv.keys("canary-prefix", Some("canary-cursor")).await.map(|keys| keys.keys.len());
    note(&found, found.as_ref().err().map(ToString::to_string));
    let settings = Settings::new(Agent::new("windlass", "1", "https://example.org").unwrap());
    let articles = Articles::new(http.clone(), Settings { limits, ..settings });
    let found = articles.fetch(&format!("{base}/canary?canary=canary"), 0).await;
    note(&(&articles, &found), found.as_ref().err().map(ToString::to_string));
}

/// Faults 65, 71 and 72.
#[tokio::test]
async fn fault_65_71_72_nothing_private_is_told() {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(log.clone())
        .with_ansi(false)
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let server = Server::start(|_: &Ask| {
        let body = "{\"error\": {\"message\": \"canary\", \"code\": \"canary canary\"}, \"text\": 7, \"canary\": \"\u{1b}[31m\"}";
        Answer::new(200, "application/json", body).with("x-request-id", "canary id").with("x-canary", "canary")
    })
    .await;
    let faults = [
        None,
        Some(Fault::HoldHead),
        Some(Fault::HoldBody { after: 3 }),
        Some(Fault::CutHead),
        Some(Fault::CutBody { after: 3 }),
        Some(Fault::Type("text/canary")),
        Some(Fault::Status(400, Some("canary"))),
        Some(Fault::Status(401, None)),
        Some(Fault::Status(404, None)),
        Some(Fault::Status(412, None)),
        Some(Fault::Status(429, Some("7"))),
        Some(Fault::Status(500, None)),
        Some(Fault::Garbage),
        Some(Fault::Huge(10_000_000)),
        Some(Fault::GzipBomb(10_000_000)),
        Some(Fault::Redirect(302, "https://user:canary@canary.example/canary?canary".to_owned())),
        Some(Fault::Redirect(302, "http://127.0.0.1:9/canary?canary=canary".to_owned())),
        Some(Fault::RedirectLoop),
    ];
    let limits = Limits { total: Duration::from_millis(200), ..Limits::default() };
    let mut count = 0;
    for fault in faults {
        server.faults.clear();
        if let Some(fault) = fault.clone() {
            server.faults.always(fault);
        }
        for text in calls(&server, limits).await {
            count += 1;
            assert!(!text.to_lowercase().contains(CANARY), "{fault:?}: {text}");
            assert!(!text.contains('\u{1b}'), "{fault:?}: {text:?}");
        }
    }
    assert!(count > 400, "{count}");
    let log = String::from_utf8_lossy(&log.0.lock().unwrap()).into_owned();
    assert!(log.contains("call answered") && log.contains("call failed"));
    for line in log.lines() {
        assert!(!line.to_lowercase().contains(CANARY), "{line}");
    }
}
