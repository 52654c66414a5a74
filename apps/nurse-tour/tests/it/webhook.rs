//! The endpoint that Twilio calls.

use windlass_engine::world::SimWorld;
use windlass_nurse_tour::webhook::{WebhookSettings, run};
use windlass_postgres::{Options, pool_of};
use windlass_testkit::eventually::eventually;
use windlass_testkit::program::Program;

use crate::errors::exchange;
use crate::scene::Scene;

const URL: &str = "https://hooks.example.com/twilio?key=1";

/// The program, as Twilio finds it.
struct Hook {
    port: u16,
    program: Program,
}

impl Hook {
    async fn start(scene: &mut Scene) -> Self {
        Self::at(scene, URL).await
    }

    async fn at(scene: &mut Scene, url: &str) -> Self {
        scene.set("WEBHOOK_PUBLIC_URL", url);
        scene.set("WEBHOOK_LISTEN", "127.0.0.1:0");
        let program = scene.spawn("webhook", &["webhook"]);
        let listens = async || {
            let said = scene.said("webhook");
            let address = said.split("Webhook listening address=\"127.0.0.1:").nth(1)?;
            address.split('"').next()?.parse().ok()
        };
        let port = eventually("the webhook says where it listens", listens).await;
        Self { port, program }
    }

    async fn post(&self, form: &[(&str, &str)], signature: &str) -> String {
        post(self.port, URL, form, signature).await
    }
}

/// A call as Twilio makes it, to where the address of the webhook leads.
pub async fn post(port: u16, url: &str, form: &[(&str, &str)], signature: &str) -> String {
    let url = url::Url::parse(url).unwrap();
    let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
    let head = format!(
        "POST {} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/x-www-form-urlencoded\r\n\
         x-twilio-signature: {signature}\r\ncontent-length: {}\r\n\r\n{body}",
        &url[url::Position::BeforePath..url::Position::AfterQuery],
        body.len()
    );
    exchange(port, &head).await
}

fn form<'a>(sid: &'a str, media: &'a str) -> Vec<(&'a str, &'a str)> {
    let mut form = vec![
        ("MessageSid", sid),
        ("AccountSid", "AC00000000000000000000000000000000"),
        ("From", "whatsapp:+4915100000001"),
        ("ProfileName", "Schwester Ü"),
        ("Body", ""),
        ("SomethingNew", "that nobody knows"),
    ];
    if !media.is_empty() {
        form.extend([
            ("NumMedia", "1"),
            ("MediaContentType0", "audio/ogg; codecs=opus"),
            ("MediaUrl0", media),
        ]);
    }
    form
}

/// Columns that must be filled and that a call says nothing of take their own default.
#[tokio::test(flavor = "multi_thread")]
async fn columns_that_a_call_does_not_fill() {
    let mut scene = Scene::bare().await;
    let columns = ["media_url", "profile_name", "patient_id", "patient_name", "care_session_id", "agency_id"];
    let filled = columns.map(|column| format!("{column} text NOT NULL DEFAULT '-'")).join(", ");
    scene
        .sql(&format!(
            "CREATE TABLE whatsapp_inbound_messages (message_sid text PRIMARY KEY, \
             processing_status varchar(20) NOT NULL DEFAULT 'NONE', {filled}); \
             CREATE TABLE whatsapp_care_sessions (id text PRIMARY KEY, patient_name text NOT NULL DEFAULT '-')"
        ))
        .await;
    scene.migrate().await;
    assert_eq!(scene.check().await, (vec![], vec![]));
    scene.sql("INSERT INTO patients (id, agency_id) VALUES ('P1', 'agency-1')").await;
    let hook = Hook::start(&mut scene).await;
    let media = scene.twilio.media_url("SM1", "ME1");
    for (sid, media, body) in [("SM1", media.as_str(), ""), ("SM2", "", "Hallo"), ("SM3", "", "(ID: P1)")] {
        let mut form = form(sid, media);
        form.retain(|(name, _)| !["ProfileName", "Body"].contains(name));
        form.push(("Body", body));
        let answer = hook.post(&form, &scene.twilio.sign(URL, &form)).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{sid}: {answer}");
    }
    scene.is("SM1", "processing_status", "READY").await;
    scene.is("SM1", "profile_name || patient_id || agency_id", "---").await;
    scene.is("SM2", "processing_status || media_url", "NONE-").await;
    assert_eq!(scene.count("SELECT count(*) FROM whatsapp_care_sessions WHERE patient_name = '-'").await, 1);
    drop(hook);
}

/// A signed call becomes one READY row, however often it comes; then it is worked.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_becomes_a_message_once() {
    let mut scene = Scene::new().await;
    scene.sql("INSERT INTO patients (id, agency_id) VALUES ('P1', 'agency-1')").await;
    let hook = Hook::start(&mut scene).await;
    let mut text = form("SM0", "");
    text.retain(|(name, _)| *name != "Body");
    text.push(("Body", "Pflegedokumentation für Erika M. (ID: P1)"));
    assert!(hook.post(&text, &scene.twilio.sign(URL, &text)).await.starts_with("HTTP/1.1 200"));
    let media = scene.twilio.media_url("SM1", "ME1");
    let call = form("SM1", &media);
    for _ in 0..3 {
        let answer = hook.post(&call, &scene.twilio.sign(URL, &call)).await;
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("<Response></Response>"), "{answer}");
    }
    scene.is("SM1", "processing_status", "READY").await;
    scene.is("SM1", "message_type", "voice").await;
    scene.is("SM1", "agency_id", "agency-1").await;
    scene.is("SM1", "patient_id", "P1").await;
    scene.is("SM1", "patient_name", "Erika M.").await;
    assert_eq!(scene.of("SM0", "processing_status").await, None, "a text is no voice note");
    assert_eq!(scene.count("SELECT count(*) FROM whatsapp_inbound_messages").await, 2);
    scene.drain().await;
    let filed = "SELECT count(*) FROM pending_care_documentations WHERE patient_id = 'P1' AND patient_name = 'Erika M.'";
    assert_eq!(scene.count(filed).await, 1);
    hook.program.signal(libc::SIGTERM);
    let status = tokio::task::spawn_blocking(move || hook.program.wait()).await.unwrap();
    assert_eq!(status.code(), Some(0));
}

/// Everything is signed, the body too: a captured signature fits no other call.
#[tokio::test(flavor = "multi_thread")]
async fn weakness_22_a_signature_fits_one_body() {
    let mut scene = Scene::new().await;
    let hook = Hook::start(&mut scene).await;
    let media = scene.twilio.media_url("SM1", "ME1");
    let call = form("SM1", &media);
    let signature = scene.twilio.sign(URL, &call);
    let mut other = call.clone();
    other[2].1 = "whatsapp:+4915199999999";
    for (form, signature) in [
        (&other, signature.as_str()),
        (&call, ""),
        (&call, "AAAAAAAAAAAAAAAAAAAAAAAAAAA="),
        (&call, "no base64"),
    ] {
        assert!(hook.post(form, signature).await.starts_with("HTTP/1.1 403"));
    }
    let elsewhere = scene.twilio.sign("https://hooks.example.com/twilio?key=2", &call);
    assert!(hook.post(&call, &elsewhere).await.starts_with("HTTP/1.1 403"));
    let mut foreign = call.clone();
    foreign[1].1 = "AC99999999999999999999999999999999";
    assert!(hook.post(&foreign, &scene.twilio.sign(URL, &foreign)).await.starts_with("HTTP/1.1 400"));
    assert!(exchange(hook.port, "GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.starts_with("HTTP/1.1 405"));
    let huge =
        format!("POST /twilio HTTP/1.1\r\nhost: x\r\ncontent-length: 99999999\r\n\r\n{}", "x".repeat(70_000));
    assert!(exchange(hook.port, &huge).await.starts_with("HTTP/1.1 413"));
    assert_eq!(scene.count("SELECT count(*) FROM whatsapp_inbound_messages").await, 0);
}

/// Twilio's connection overrides stand behind a #; they are neither sent nor signed.
#[tokio::test(flavor = "multi_thread")]
async fn connection_overrides_are_not_signed() {
    let mut scene = Scene::new().await;
    let hook = Hook::at(&mut scene, &format!("{URL}#rc=4&rp=all")).await;
    let call = form("SM1", "https://x/y");
    let answer = hook.post(&call, &scene.twilio.sign(URL, &call)).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    scene.is("SM1", "processing_status", "READY").await;
}

/// 503 says that the database is away, and that it is of use to call again; and nothing else says so.
#[tokio::test(flavor = "multi_thread")]
async fn only_an_outage_is_503() {
    let mut scene = Scene::new().await;
    let hook = Hook::start(&mut scene).await;
    // It has read what it must know of the tables.
    let health = exchange(hook.port, "GET /health HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert!(health.starts_with("HTTP/1.1 200"), "{health}");
    let call = form("SM1", "https://x/y");
    let away = |no: bool| format!("ALTER DATABASE \"{}\" ALLOW_CONNECTIONS {no}", scene.database_name());
    let (admin, connection) =
        tokio_postgres::connect(&scene.admin_url(), tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    admin.batch_execute(&away(false)).await.unwrap();
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = $1";
    admin.execute(end, &[&scene.database_name()]).await.unwrap();
    // A connection that has just been ended may be found out by the first call.
    for _ in 0..2 {
        let answer = hook.post(&call, &scene.twilio.sign(URL, &call)).await;
        assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    }
    admin.batch_execute(&away(true)).await.unwrap();
    let answer = hook.post(&call, &scene.twilio.sign(URL, &call)).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

/// What could not be stored is not acknowledged.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_refused_is_not_acknowledged() {
    let mut scene = Scene::new().await;
    let hook = Hook::start(&mut scene).await;
    scene.sql("ALTER TABLE whatsapp_inbound_messages RENAME TO away").await;
    let call = form("SM1", "https://x/y");
    let answer = hook.post(&call, &scene.twilio.sign(URL, &call)).await;
    assert!(answer.starts_with("HTTP/1.1 500"), "{answer}");
    assert!(!answer.contains("away") && !answer.contains("4915100000001"));
}

/// What says nothing of itself, or says video of what may be sound, is a note until its bytes say otherwise.
#[tokio::test(flavor = "multi_thread")]
async fn notes_of_no_clear_type_are_worked() {
    let mut scene = Scene::new().await;
    let hook = Hook::start(&mut scene).await;
    let kinds = ["", "application/octet-stream", "video/3gpp", "video/mp4", "application/amr", "image/png"];
    for (n, kind) in kinds.into_iter().enumerate() {
        let sid = format!("SM{n}");
        let mut call = form(&sid, "https://x/y");
        call.retain(|(name, _)| *name != "MediaContentType0");
        if !kind.is_empty() {
            call.push(("MediaContentType0", kind));
        }
        assert!(hook.post(&call, &scene.twilio.sign(URL, &call)).await.starts_with("HTTP/1.1 200"));
        let is_note = kind != "image/png";
        scene.is(&sid, "message_type", if is_note { "voice" } else { "media" }).await;
        assert_eq!(scene.of(&sid, "processing_status").await.is_some(), is_note, "{kind}");
    }
}

/// A database that takes the call and says nothing: Twilio hears 503 before it hangs up. On a clock that the test
/// owns, and so inside of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_silent_database_is_503() {
    let mut scene = Scene::new().await;
    let sim = SimWorld::new(3);
    scene.set("WEBHOOK_PUBLIC_URL", URL);
    let settings = WebhookSettings::read(&scene.env.clone().into_iter().collect()).unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let pool = pool_of(&scene.database.url(), &Options::default()).unwrap();
    let world = std::sync::Arc::new(sim.clone());
    tokio::spawn(run(listener, std::future::pending(), settings, pool, world));
    let call = form("SM1", "https://x/y");
    let signature = scene.twilio.sign(URL, &call);
    let holder = scene.admin().await;
    holder.batch_execute("BEGIN; LOCK TABLE whatsapp_inbound_messages").await.unwrap();
    let asked = post(port, URL, &call, &signature);
    tokio::pin!(asked);
    let answer = loop {
        tokio::select! {
            answer = &mut asked => break answer,
            () = sim.step(1_000) => {}
        }
    };
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    holder.batch_execute("ROLLBACK").await.unwrap();
}
