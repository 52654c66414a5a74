//! The Nurse Tour worker as a process: killed, frozen, ended, and looked at.

use std::collections::HashMap;
use std::process::Output;

use tokio_postgres::Client;
use windlass_engine::world::{RealWorld, World};
use windlass_standins::{Fault, OpenAi};
use windlass_testkit::eventually::eventually;
use windlass_testkit::program::Program;

use crate::scene::{OPEN, Scene};
use crate::webhook::post;

/// Locks that run out soon, and a ladder that takes no time.
async fn scene() -> Scene {
    let mut scene = Scene::new().await;
    scene.set("WORKER_ALLOW_ORIGINS", &scene.twilio.cdn.url());
    scene.set("WORKER_POLL_INTERVAL_MS", "100");
    scene.set("WORKER_LOCK_DURATION_MINUTES", "0.03");
    scene.set("WORKER_RETRY_LADDER", "100ms");
    scene
}

/// A call of the webhook, as Twilio makes it. Answers the first line of the answer.
async fn call(scene: &Scene, port: u16, url: &str, form: &[(&str, &str)], signed: bool) -> String {
    let signature = if signed { scene.twilio.sign(url, form) } else { "AAAA".to_owned() };
    post(port, url, form, &signature).await.lines().next().unwrap_or_default().to_owned()
}

/// A message of somebody whose number nobody may read anywhere.
async fn message_of_somebody(scene: &Scene, sid: &str) {
    scene.message(sid).await;
    let set =
        "UPDATE whatsapp_inbound_messages SET from_number = 'whatsapp:+4915100canary' WHERE message_sid = $1";
    scene.client.execute(set, &[&sid]).await.unwrap();
}

async fn one_document_for_each(scene: &Scene, messages: i64) {
    let done = "SELECT count(*) FROM whatsapp_inbound_messages WHERE processing_status = 'DONE' AND current_stage = 'COMPLETED'";
    assert_eq!(scene.count(done).await, messages);
    let filed = "SELECT count(DISTINCT message_sid) FROM pending_care_documentations";
    assert_eq!(scene.count(filed).await, messages);
    assert_eq!(scene.documents().await, messages);
    let twice = "SELECT count(*) FROM (SELECT FROM nurse_tour_audit WHERE outcome = 'stage' \
                 GROUP BY message_sid, to_stage HAVING count(*) > 1) s";
    assert_eq!(scene.count(twice).await, 0, "a stored stage was stored again");
}

/// A write that stands still in the database until the test lets it go on.
struct Barrier {
    holder: Client,
}

impl Barrier {
    /// The write after which `condition` holds for a message waits.
    async fn at(scene: &Scene, condition: &str) -> Self {
        let trigger = format!(
            "CREATE FUNCTION wait_here() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_xact_lock(42); RETURN NEW; END $$; \
             CREATE TRIGGER wait_here BEFORE UPDATE ON whatsapp_inbound_messages FOR EACH ROW WHEN ({condition}) \
             EXECUTE FUNCTION wait_here()"
        );
        scene.client.batch_execute(&trigger).await.unwrap();
        let holder = scene.admin().await;
        holder.batch_execute("SELECT pg_advisory_lock(42)").await.unwrap();
        Self { holder }
    }

    async fn reached(&self) {
        let waiting = "SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid) \
                       WHERE l.locktype = 'advisory' AND NOT l.granted AND a.datname = current_database()";
        let one =
            async || (self.holder.query_one(waiting, &[]).await.unwrap().get::<_, i64>(0) > 0).then_some(());
        eventually("the write waits", one).await;
    }

    /// Lets the write go on, or takes it back, and takes the barrier away.
    async fn open(self, scene: &Scene, committed: bool) {
        if !committed {
            let end = "SELECT pg_terminate_backend(l.pid) FROM pg_locks l JOIN pg_stat_activity a USING (pid) \
                       WHERE l.locktype = 'advisory' AND NOT l.granted AND a.datname = current_database()";
            self.holder.query(end, &[]).await.unwrap();
        }
        self.holder.batch_execute("SELECT pg_advisory_unlock(42)").await.unwrap();
        scene.client.batch_execute("DROP TRIGGER wait_here ON whatsapp_inbound_messages").await.unwrap();
    }
}

/// Kills a worker while the write of a stage is under way. When the write
/// became durable all the same, nothing of the stage is paid for again.
async fn killed_at(condition: &str, committed: bool, calls: (usize, usize, usize)) {
    let scene = scene().await;
    scene.message("SM1").await;
    let barrier = Barrier::at(&scene, condition).await;
    let worker = scene.spawn("worker_1", &[]);
    barrier.reached().await;
    worker.kill();
    barrier.open(&scene, committed).await;
    let second = scene.spawn("worker_2", &[]);
    scene.until("the message is over", OPEN, 0).await;
    second.kill();
    one_document_for_each(&scene, 1).await;
    let found = (scene.twilio.asked().len(), scene.asked("transcriptions"), scene.asked("completions"));
    assert_eq!(found, calls, "at {condition}, committed: {committed}");
}

/// kill -9 at every boundary: once before the write counts, once after it does.
#[tokio::test(flavor = "multi_thread")]
async fn crash_nurse_tour_at_every_boundary() {
    for (condition, paid) in [
        ("NEW.current_stage = 'AUDIO_STORED' AND OLD.current_stage = 'RECEIVED'", (2, 1, 1)),
        ("NEW.current_stage = 'TRANSCRIBED' AND OLD.current_stage = 'AUDIO_STORED'", (1, 2, 1)),
        ("NEW.current_stage = 'ANALYZED' AND OLD.current_stage = 'TRANSCRIBED'", (1, 1, 2)),
        ("NEW.current_stage = 'DOC_CREATED' AND OLD.current_stage = 'ANALYZED'", (1, 1, 1)),
        ("NEW.processing_status = 'DONE'", (1, 1, 1)),
    ] {
        tokio::join!(killed_at(condition, false, paid), killed_at(condition, true, (1, 1, 1)));
    }
}

/// kill -9 in the middle of every stage: while Twilio delivers, while OpenAI
/// listens, while it thinks.
#[tokio::test(flavor = "multi_thread")]
async fn crash_nurse_tour_in_every_stage() {
    for stage in ["audio", "transcript", "analysis"] {
        let scene = scene().await;
        scene.message("SM1").await;
        match stage {
            "audio" => scene.twilio.cdn.faults.push(Fault::HoldBody { after: 1_000 }),
            "transcript" => scene.openai.faults.push(Fault::HoldHead),
            _ => {
                scene.openai.faults.push_ok();
                scene.openai.faults.push(Fault::HoldHead);
            }
        }
        let worker = scene.spawn("worker_1", &[]);
        let begun = async || {
            let (cdn, openai) = (scene.twilio.cdn.asked().len(), scene.openai.asked().len());
            let begun = [("audio", cdn == 1), ("transcript", openai == 1), ("analysis", openai == 2)];
            begun.iter().any(|(name, begun)| *name == stage && *begun).then_some(())
        };
        eventually("the stage has begun", begun).await;
        worker.kill();
        scene.openai.faults.release();
        scene.twilio.cdn.faults.release();
        let second = scene.spawn("worker_2", &[]);
        scene.until("the message is over", OPEN, 0).await;
        second.kill();
        one_document_for_each(&scene, 1).await;
        let twice = |name: &str| 1 + usize::from(stage == name);
        assert_eq!(scene.twilio.cdn.asked().len(), twice("audio"));
        assert_eq!(
            (scene.asked("transcriptions"), scene.asked("completions")),
            (twice("transcript"), twice("analysis"))
        );
    }
}

/// Three workers and messages that keep coming. Again and again one of those workers is killed that hold
/// a message; and each message has exactly one document.
#[tokio::test(flavor = "multi_thread")]
async fn crash_nurse_tour_three_workers() {
    let kills: i64 = std::env::var("WINDLASS_CRASHES").ok().and_then(|n| n.parse().ok()).unwrap_or(20);
    let messages = if kills >= 200 { 500 } else { 4 * kills };
    let mut scene = scene().await;
    scene.env.insert("WORKER_BATCH_SIZE".into(), "4".into());
    scene.env.insert("WORKER_MAX_RETRIES".into(), "100".into());
    let world = RealWorld::new();
    let names = ["worker_1", "worker_2", "worker_3"];
    let mut workers: HashMap<&str, Program> = names.map(|name| (name, scene.spawn(name, &[]))).into();
    for kill in 0..kills {
        for n in kill * messages / kills..(kill + 1) * messages / kills {
            scene.message(&format!("SM{n}")).await;
        }
        // Not always at the same point of its work.
        world.sleep_ms(fastrand::u64(0..60)).await;
        let holders = "SELECT DISTINCT locked_by FROM whatsapp_inbound_messages WHERE processing_status = 'PROCESSING' \
                       AND nurse_tour_moment(locked_until) > clock_timestamp()";
        let held = async || {
            let rows = scene.client.query(holders, &[]).await.unwrap();
            let at_work =
                names.into_iter().filter(|name| rows.iter().any(|row| row.get::<_, &str>(0) == *name));
            fastrand::choice(at_work.collect::<Vec<_>>())
        };
        let victim = eventually("a worker holds a message", held).await;
        workers.remove(victim).expect("there is one of each name").kill();
        workers.insert(victim, scene.spawn(victim, &[]));
    }
    scene.until("all messages are over", OPEN, 0).await;
    let poisoned = "SELECT count(*) FROM whatsapp_inbound_messages WHERE processing_status = 'FAILED'";
    let poison = scene.count(poisoned).await;
    if poison > 0 {
        // Killed three times in the same stage by chance: that is what an operator's retry is for.
        assert!(scene.run(&["retry", "--all-failed"]).await.status.success());
        scene.until("all messages are over", OPEN, 0).await;
    }
    for worker in workers.into_values() {
        worker.kill();
    }
    one_document_for_each(&scene, messages).await;
    // Each claim ends in the audit, by whoever held it or by whoever took it back.
    let claims = "SELECT count(DISTINCT (message_sid, fence)) FROM nurse_tour_audit";
    let claims = scene.count(claims).await;
    let (heard, thought) = (scene.asked("transcriptions") as i64, scene.asked("completions") as i64);
    // A call is repeated only by a later claim: what was stored is not paid for again.
    let repeats = heard + thought - 2 * messages;
    assert!(
        repeats <= claims - messages,
        "{repeats} calls were repeated in {} later claims",
        claims - messages
    );
    assert!(claims > messages, "no worker was killed at its work: the test saw nothing");
    println!(
        "{kills} kills, {messages} messages, {messages} documents, {claims} claims, {poison} failed as poison; \
         paid calls: {heard} transcriptions, {thought} analyses, {repeats} of them repeated"
    );
}

/// A worker that stands still past its lease, and wakes when another has done its work, writes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn fault_24_a_frozen_nurse_tour_worker_writes_nothing() {
    let scene = scene().await;
    scene.message("SM1").await;
    scene.openai.faults.push(Fault::HoldHead);
    let frozen = scene.spawn("worker_1", &[]);
    eventually("OpenAI is asked", async || (scene.openai.asked().len() == 1).then_some(())).await;
    frozen.signal(libc::SIGSTOP);
    let other = scene.spawn("worker_2", &[]);
    scene.until("another has done it", OPEN, 0).await;
    let story =
        "SELECT string_agg(a::text, '|' ORDER BY seq) FROM nurse_tour_audit a WHERE message_sid = 'SM1'";
    let before: String = scene.client.query_one(story, &[]).await.unwrap().get(0);
    other.kill();
    scene.openai.faults.release();
    frozen.signal(libc::SIGCONT);
    // It wakes and takes the next message: then it has had every chance to write.
    scene.message("SM2").await;
    scene.until("the frozen one works again", OPEN, 0).await;
    let after: String = scene.client.query_one(story, &[]).await.unwrap().get(0);
    assert_eq!(after, before);
    let by = "SELECT count(*) FROM nurse_tour_audit WHERE message_sid = 'SM2' AND worker = 'worker_1' AND outcome = 'completed'";
    assert_eq!(scene.count(by).await, 1);
    one_document_for_each(&scene, 2).await;
    frozen.kill();
}

/// Tells `worker_1` to end, and waits until it has heard: what is held is let go after that, or it would be done before.
async fn end(scene: &Scene, worker: &Program, signal: i32) {
    worker.signal(signal);
    let told = async || Some(scene.said("worker_1")).filter(|log| log.contains("claiming stopped"));
    eventually("it has heard", told).await;
}

/// SIGTERM and SIGINT: the running stage ends, the rest is requeued, exit 0;
/// and the log has the seed's form.
#[tokio::test(flavor = "multi_thread")]
async fn nurse_tour_ends_when_told() {
    for signal in [libc::SIGTERM, libc::SIGINT] {
        let scene = scene().await;
        scene.message("SM1").await;
        scene.openai.faults.push(Fault::HoldHead);
        let worker = scene.spawn("worker_1", &[]);
        eventually("OpenAI is asked", async || (scene.openai.asked().len() == 1).then_some(())).await;
        end(&scene, &worker, signal).await;
        scene.openai.faults.release();
        let status = tokio::task::spawn_blocking(move || worker.wait()).await.unwrap();
        assert_eq!(status.code(), Some(0));
        let requeued = "SELECT count(*) FROM whatsapp_inbound_messages WHERE processing_status = 'RETRY' AND retry_count = 0 \
                        AND current_stage = 'TRANSCRIBED' AND locked_by IS NULL \
                        AND nurse_tour_moment(next_attempt_at) > clock_timestamp() + interval '30 seconds'";
        assert_eq!(scene.count(requeued).await, 1);
        let log = scene.said("worker_1");
        for line in log.lines() {
            let (time, rest) = line.split_once(' ').unwrap();
            assert!(time.len() == 24 && time.ends_with('Z') && rest.starts_with('['), "{line}");
        }
        for part in [
            "[INFO] Worker starting workerId=\"worker_1\" pollIntervalMs=100",
            "[INFO] Claimed 1 messages workerId=\"worker_1\" messageSids=\"SM1\"",
            "[INFO] Stage TRANSCRIBED complete workerId=\"worker_1\" messageSid=\"SM1\"",
            "[INFO] Requeued on shutdown",
            "[INFO] Worker stopped",
        ] {
            assert!(log.contains(part), "{part} is missing in:\n{log}");
        }
    }
}

/// Faults 71, 72: no secret and nothing of a patient is in what a worker says, however much it says.
#[tokio::test(flavor = "multi_thread")]
async fn fault_71_72_nurse_tour_says_nothing_of_anybody() {
    let mut scene = scene().await;
    scene.env.insert("DEBUG".into(), "1".into());
    message_of_somebody(&scene, "SM1").await;
    message_of_somebody(&scene, "SM2").await;
    scene.client.execute("UPDATE whatsapp_inbound_messages SET media_url = 'https://canary.example/x' WHERE message_sid = 'SM2'", &[]).await.unwrap();
    let worker = scene.spawn("worker_1", &[]);
    scene.until("both are over", OPEN, 0).await;
    worker.kill();
    let mut said = scene.said("worker_1");
    for verb in [["status"].as_slice(), &["check"], &["status", "--json"], &["retry", "SM1", "SM2", "--json"]]
    {
        let output = scene.run(verb).await;
        said += &String::from_utf8_lossy(&output.stdout);
        said += &String::from_utf8_lossy(&output.stderr);
    }
    for canary in ["canary", "4915100", &scene.twilio.token(), &scene.openai.key(), "/Media/"] {
        assert!(!said.contains(canary), "{canary} was found in:\n{said}");
    }
    assert!(said.contains("[DEBUG]") && said.contains("permanent twilio.not_ours"), "{said}");
}

/// With `--log json` each line of worker and webhook is an object, whatever happens; and nobody's words are in it.
#[tokio::test(flavor = "multi_thread")]
async fn fault_71_72_nurse_tour_logs_json() {
    const URL: &str = "https://hooks.example.com/canary";
    let mut scene = scene().await;
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    for (name, value) in
        [("DEBUG", "1"), ("WEBHOOK_PUBLIC_URL", URL), ("WEBHOOK_LISTEN", &format!("127.0.0.1:{port}"))]
    {
        scene.env.insert(name.into(), value.into());
    }
    let webhook = scene.spawn("webhook", &["webhook", "--log", "json"]);
    let (account, media) = (scene.twilio.account(), scene.twilio.media_url("SM1", "MESM1"));
    let mut form = vec![
        ("MessageSid", "SM1"),
        ("AccountSid", account.as_str()),
        ("From", "whatsapp:+4915100canary"),
        ("ProfileName", "Canary \"Ü\"\nSchwester"),
        ("MediaContentType0", "audio/ogg; codecs=opus"),
        ("MediaUrl0", media.as_str()),
    ];
    assert_eq!(call(&scene, port, URL, &form, true).await, "HTTP/1.1 200 OK");
    assert_eq!(call(&scene, port, URL, &form, false).await, "HTTP/1.1 403 Forbidden");
    form[0].1 = "SM canary";
    assert_eq!(call(&scene, port, URL, &form, true).await, "HTTP/1.1 400 Bad Request");
    // One goes wrong in words that nobody should repeat, one has no agency, one is held when the worker has to go.
    message_of_somebody(&scene, "SM2").await;
    scene.openai.faults.push(Fault::Answer(OpenAi::error(400, "canary", Some("canary"))));
    let worker = scene.spawn("worker_1", &["--log", "json"]);
    scene.until("both are over", OPEN, 0).await;
    scene.openai.faults.push(Fault::HoldHead);
    let asked = scene.openai.asked().len();
    message_of_somebody(&scene, "SM3").await;
    eventually("OpenAI is asked", async || (scene.openai.asked().len() > asked).then_some(())).await;
    end(&scene, &worker, libc::SIGTERM).await;
    scene.openai.faults.release();
    webhook.signal(libc::SIGTERM);
    for program in [worker, webhook] {
        let status = tokio::task::spawn_blocking(move || program.wait()).await.unwrap();
        assert_eq!(status.code(), Some(0));
    }
    let said = ["worker_1", "webhook"].map(|name| scene.said(name)).concat();
    let mut messages = Vec::new();
    for line in said.lines() {
        let line: serde_json::Map<String, serde_json::Value> =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let text =
            |name: &str| line[name].as_str().unwrap_or_else(|| panic!("no {name}: {line:?}")).to_owned();
        assert!(text("time").parse::<jiff::Timestamp>().is_ok() && !text("level").is_empty(), "{line:?}");
        messages.push(text("message"));
    }
    for message in [
        "Worker starting",
        "Claimed 1 messages",
        "Stage TRANSCRIBED complete",
        "Message is over without a document",
        "Requeued on shutdown",
        "Worker stopped",
        "Webhook listening",
        "Webhook accepted",
        "Webhook refused: the signature is not Twilio's",
        "Webhook stopped",
    ] {
        assert!(messages.iter().any(|found| found == message), "{message} is missing in:\n{said}");
    }
    for canary in ["anary", "4915100", &scene.twilio.token(), &scene.openai.key(), "/Media/"] {
        assert!(!said.contains(canary), "{canary} was found in:\n{said}");
    }
}

/// A model that does not exist: the worker says so before it touches a message, `status` shows it, and `resume` is heard.
#[tokio::test(flavor = "multi_thread")]
async fn nurse_tour_says_why_it_has_stopped() {
    let mut scene = scene().await;
    scene.env.insert("ANALYSIS_MODEL".into(), "unknown-model".into());
    scene.message("SM1").await;
    let worker = scene.spawn("worker_1", &[]);
    scene.until("it has stopped", "SELECT count(*) FROM nurse_tour_stops", 1).await;
    let status = scene.run(&["status"]).await;
    let shown = String::from_utf8_lossy(&status.stdout).into_owned();
    let why =
        "claiming stopped for worker_1: configuration openai.no_such_model status=404; it tries again in ";
    assert!(shown.contains(why), "{shown}");
    let resumed = scene.run(&["resume"]).await;
    let said = String::from_utf8_lossy(&resumed.stdout).into_owned();
    assert_eq!(said, "lifted: openai of worker_1\nworkers try again at once\n");
    // It asks again, and is refused again.
    scene.until("it has stopped again", "SELECT count(*) FROM nurse_tour_stops", 1).await;
    worker.kill();
    let log = scene.said("worker_1");
    assert!(
        log.contains(
            "[ERROR] Claiming stopped: the operator must act; check the key, the names of the models"
        ),
        "{log}"
    );
    let untouched =
        "SELECT count(*) FROM whatsapp_inbound_messages WHERE processing_status = 'READY' AND fence = 0";
    assert_eq!(scene.count(untouched).await, 1);
}

/// What an operator meets on the command line.
#[tokio::test(flavor = "multi_thread")]
async fn nurse_tour_on_the_command_line() {
    let mut scene = scene().await;
    let text = |output: &Output| {
        String::from_utf8_lossy(&[output.stdout.as_slice(), &output.stderr].concat()).into_owned()
    };
    let checked = scene.run(&["check"]).await;
    assert_eq!((checked.status.code(), text(&checked).as_str()), (Some(0), "nothing is missing\n"));
    let retried = scene.run(&["retry", "SMnobody"]).await;
    assert_eq!(retried.status.code(), Some(3), "{}", text(&retried));
    scene.client.batch_execute("ALTER TABLE whatsapp_inbound_messages DROP COLUMN fence").await.unwrap();
    let checked = scene.run(&["check"]).await;
    assert!(
        checked.status.code() == Some(1)
            && text(&checked).contains("missing: the column fence of whatsapp_inbound_messages"),
        "{}",
        text(&checked)
    );
    scene.env.insert("WEBHOOK_PUBLIC_URL".into(), "https://hooks.example.com/twilio".into());
    for verb in [[].as_slice(), &["webhook"]] {
        let refused = scene.run(verb).await;
        let lacks = "error: the database lacks the column fence of whatsapp_inbound_messages; run `windlass nurse-tour migrate`";
        assert!(refused.status.code() == Some(1) && text(&refused).starts_with(lacks), "{}", text(&refused));
    }
    let migrated = scene.run(&["migrate", "--json"]).await;
    assert_eq!(text(&migrated), "{\"added\":[\"the column fence of whatsapp_inbound_messages\"]}\n");
    scene
        .client
        .batch_execute("ALTER TABLE whatsapp_inbound_messages ALTER retry_count TYPE text")
        .await
        .unwrap();
    let checked = scene.run(&["check"]).await;
    let wrong = "wrong: whatsapp_inbound_messages.retry_count is of type text; it must be an integer\n\
                 only the owner of the table can put this right\n";
    assert_eq!((checked.status.code(), text(&checked).as_str()), (Some(1), wrong));
    scene
        .client
        .batch_execute(
            "ALTER TABLE whatsapp_inbound_messages ALTER retry_count TYPE int USING 0; \
             ALTER TABLE pending_care_documentations ALTER kh_codes TYPE int[] USING NULL, ADD tenant text NOT NULL",
        )
        .await
        .unwrap();
    let checked = scene.run(&["check"]).await;
    let wrong = "wrong: pending_care_documentations.kh_codes is of type integer[]; it must be jsonb, json, text, text[] or jsonb[]\n\
                 wrong: pending_care_documentations.tenant must be filled (NOT NULL) and has no default; give it one, or allow NULL\n\
                 only the owner of the table can put this right\n";
    assert_eq!((checked.status.code(), text(&checked).as_str()), (Some(1), wrong));
    let refused = text(&scene.run(&[]).await);
    assert!(
        refused.starts_with("error: the database does not fit: pending_care_documentations.kh_codes"),
        "{refused}"
    );
    assert_eq!(text(&scene.run(&["resume"]).await), "nothing had stopped\n");
    let url = scene.env["DATABASE_URL"].clone();
    scene.env.insert("DATABASE_URL".into(), format!("{url}?colour=canary"));
    let failed = text(&scene.run(&["status"]).await);
    assert!(failed.contains("the parameter \"colour\"") && !failed.contains("canary"), "{failed}");
    scene.env.insert("DATABASE_URL".into(), url);
    scene.client.batch_execute("DROP TABLE whatsapp_inbound_messages").await.unwrap();
    for verb in [["status"].as_slice(), &["retry", "SM1"]] {
        let failed = text(&scene.run(verb).await);
        assert!(failed.contains("run `windlass nurse-tour migrate`"), "{failed}");
    }
    scene.env.insert("DATABASE_URL".into(), "postgres://postgres@127.0.0.1:1/none".into());
    let failed = text(&scene.run(&["status"]).await);
    assert!(failed.contains("see whether the server is up and DATABASE_URL is right"), "{failed}");
    let url = format!("{}?sslmode=require", scene.database.url());
    scene.env.insert("DATABASE_URL".into(), url);
    let failed = text(&scene.run(&["status"]).await);
    assert!(failed.contains("offers no encryption") && failed.contains("switch `ssl` on"), "{failed}");
    scene.env.insert("DATABASE_URL".into(), "nonsense".into());
    let failed = text(&scene.run(&["status"]).await);
    assert!(failed.starts_with("error: DATABASE_URL cannot be used"), "{failed}");
    for name in ["DATABASE_URL", "OPENAI_API_KEY", "TWILIO_AUTH_TOKEN", "TWILIO_ACCOUNT_SID"] {
        scene.env.remove(name);
    }
    let missing = scene.run(&[]).await;
    assert_eq!(missing.status.code(), Some(1));
    for name in ["DATABASE_URL", "OPENAI_API_KEY", "TWILIO_AUTH_TOKEN", "TWILIO_ACCOUNT_SID"] {
        assert!(text(&missing).contains(name), "{}", text(&missing));
    }
}
