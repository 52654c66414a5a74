//! Who runs the jobs: Node's Agenda in all its versions, and this program beside it.

use std::io::Write;
use std::process::{Command, Stdio};

use mongodb::bson::{Bson, doc};
use windlass_testkit::eventually::answered_within;
use windlass_testkit::needs::can_run;

use crate::scene::Scene;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../stores/mongo/tests/agenda");
const JOBS: u64 = 10;

/// A worker of Agenda that runs the jobs of a name; it ends when its input does.
fn node(scene: &Scene, version: &str, name: &str) -> std::process::Child {
    let mut child = Command::new("node")
        .args(["worker.mjs", version, &scene.set.url(&scene.home), "jobs"])
        .current_dir(FOLDER)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let input = child.stdin.as_mut().unwrap();
    writeln!(input, r#"{{"command":"open","processEvery":"0.2 seconds"}}"#).unwrap();
    child.stdin.as_mut().unwrap().flush().unwrap();
    let define = format!(r#"{{"command":"define","name":"{name}","lockLifetime":600000,"does":"end"}}"#);
    for line in [define.as_str(), r#"{"command":"start"}"#] {
        // Lines are worked on at once, and the first one takes a while.
        std::thread::park_timeout(std::time::Duration::from_secs(2));
        writeln!(child.stdin.as_mut().unwrap(), "{line}").unwrap();
    }
    child
}

/// T23: rows of the listener are run by real workers of Agenda 4, 5, 6 and @hokify's, each once.
#[tokio::test(flavor = "multi_thread")]
async fn t23_every_version_of_agenda_runs_the_rows() {
    let installed =
        Command::new(format!("{FOLDER}/install")).output().is_ok_and(|output| output.status.success());
    if !can_run(installed, "node and npm, to run Agenda") {
        return;
    }
    let scene = Scene::new().await;
    let versions = ["4", "5", "hokify", "6"];
    for version in versions {
        scene.listener(version, doc! { "operationType": ["insert"] }).await;
    }
    let one = scene.start("one").await;
    scene.live(&versions, &[&one]).await;
    scene.people().insert_many((0..JOBS).map(|n| doc! { "n": n as i64 })).await.unwrap();
    for version in versions {
        scene.until(version, JOBS).await;
        let mut worker = node(&scene, version, &format!("job-{version}"));
        let done = doc! { "data.listenerId": version, "lastFinishedAt": { "$type": "date" }, "nextRunAt": Bson::Null, "failedAt": Bson::Null };
        let ran =
            async || (scene.own("jobs").count_documents(done.clone()).await.unwrap() == JOBS).then_some(());
        let ran = answered_within(400, ran).await;
        drop(worker.stdin.take());
        let _ = worker.wait();
        assert!(
            ran.is_some(),
            "Agenda {version} did not run the rows: {:?}",
            scene.rows(version).await.first()
        );
    }
}

/// This program runs jobs from the same collection, by a command and by an endpoint; one that fails is told to its
/// document.
#[tokio::test(flavor = "multi_thread")]
async fn this_program_runs_jobs_by_command_and_endpoint() {
    let mut scene = Scene::new().await;
    let (done, port) = (scene.folder.path().join("done"), crate::scene::free_port());
    let config = format!(
        "[jobs.job-shell]\ncommand = [\"sh\", \"-c\", \"cat >> {}\"]\n[jobs.job-false]\ncommand = [\"false\"]\n[jobs.job-hook]\nurl = \"http://127.0.0.1:{port}/hook\"\n",
        done.display()
    );
    let file = scene.folder.path().join("listener.toml");
    std::fs::write(&file, config).unwrap();
    scene.set("LISTENER_CONFIG", &file.display().to_string());
    scene.set("PATH", &std::env::var("PATH").unwrap());
    scene.listener("shell", doc! { "operationType": ["insert"] }).await;
    scene.listener("false", doc! { "operationType": ["insert"], "statusField": "metadata.listener" }).await;
    scene.listener("hook", doc! { "operationType": ["insert"] }).await;
    let hook = tokio::net::TcpListener::bind(("127.0.0.1", port)).await.unwrap();
    let (heard, mut calls) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        while let Ok((mut stream, _)) = hook.accept().await {
            let mut text = Vec::new();
            let mut part = [0; 4096];
            while !String::from_utf8_lossy(&text).contains("\"data\"") {
                match stream.read(&mut part).await {
                    Ok(0) | Err(_) => break,
                    Ok(many) => text.extend_from_slice(&part[..many]),
                }
            }
            let _ = heard.send(String::from_utf8_lossy(&text).into_owned());
            let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n").await;
        }
    });
    let one = scene.start("one").await;
    scene.live(&["shell", "false", "hook"], &[&one]).await;
    scene.people().insert_one(doc! { "_id": "x" }).await.unwrap();
    let finished = async |listener: &str| {
        let done = doc! { "data.listenerId": listener, "lastFinishedAt": { "$type": "date" } };
        let ask = async || scene.own("jobs").find_one(done.clone()).await.unwrap();
        answered_within(400, ask)
            .await
            .unwrap_or_else(|| panic!("{listener} has not run\n{}", scene.last_words()))
    };
    finished("shell").await;
    assert!(
        std::fs::read_to_string(&done).unwrap().contains("\"documentId\":\"x\""),
        "the command got the data"
    );
    finished("hook").await;
    assert!(calls.recv().await.unwrap().contains("documentId"));
    let failed = finished("false").await;
    assert!(failed.get_datetime("failedAt").is_ok(), "{failed}");
    let told = async || {
        scene
            .people()
            .find_one(doc! { "_id": "x", "metadata.listener.error": { "$type": "string" } })
            .await
            .unwrap()
    };
    assert!(answered_within(300, told).await.is_some(), "the document is told\n{}", scene.last_words());
}

struct Told(tokio::sync::mpsc::UnboundedSender<serde_json::Value>);

#[async_trait::async_trait]
impl windlass_engine::Handler for Told {
    async fn run(
        &self,
        context: windlass_engine::Context,
    ) -> Result<Option<windlass_engine::Json>, windlass_engine::Failure> {
        let _ = self.0.send(context.payload_as()?);
        Ok(None)
    }
}

/// In a program of one's own jobs are run by functions: rows of Agenda's, and jobs of the store.
#[tokio::test(flavor = "multi_thread")]
async fn a_program_of_ones_own_runs_jobs_by_functions() {
    for target in ["agenda", "windlass"] {
        let mut scene = Scene::new().await;
        scene.set("JOBS_TARGET", target);
        scene.set("LISTENER_LISTEN", "127.0.0.1:0");
        scene.listener("all", doc! { "operationType": ["insert"], "statusField": "metadata.listener" }).await;
        let environment = scene.env.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let environment = windlass_app::Environment::from_iter(environment);
        let (sender, mut told) = tokio::sync::mpsc::unbounded_channel();
        let service = windlass_listener::Service::new(environment).handle("job-all", Told(sender));
        let service = tokio::spawn(service.run());
        answered_within(400, async || scene.owner("all").await).await.expect("it has its listener");
        scene.people().insert_one(doc! { "_id": "x" }).await.unwrap();
        let data = told.recv().await.unwrap();
        assert_eq!(
            (data["documentId"].as_str(), data["listenerId"].as_str()),
            (Some("x"), Some("all")),
            "{data}"
        );
        let complete = doc! { "_id": "x", "metadata.listener.status": "complete" };
        let ask = async || scene.people().find_one(complete.clone()).await.unwrap();
        assert!(answered_within(400, ask).await.is_some(), "{target}: its document is told");
        assert!(told.try_recv().is_err(), "{target}: once");
        service.abort();
    }
}
