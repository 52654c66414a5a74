//! Settings, and the log.

use crate::house::{House, RSS};

#[tokio::test(flavor = "multi_thread")]
async fn missing_variables_are_all_named() {
    let house = House::new().await.with("NAME_DB", " ").with("KEY_OPEN_AI", "");
    let (status, errors) = house.refused();
    assert_eq!(status.code(), Some(1));
    for text in [errors, house.read("logs/WorkerNode.log")] {
        assert!(text.contains("KEY_OPEN_AI, NAME_DB") && !text.contains("PATH_DATABASE"), "{text}");
    }
    let house = house.with("NAME_APP", "").with("PATH_TO_LOGS", "elsewhere");
    let (status, errors) = house.refused();
    assert!(status.code() == Some(1) && errors.contains("NAME_APP"), "{errors}");
    assert!(!house.path("elsewhere").exists());
    let house = House::new().await.with("NODE_ENV", "staging");
    let (status, errors) = house.refused();
    assert!(status.code() == Some(1) && errors.contains("development, testing or production"), "{errors}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_env_file_is_read_and_the_environment_wins() {
    let mut house = House::new().await;
    let lines: Vec<String> = house.env.iter().map(|(name, value)| format!("{name}=\"{value}\"")).collect();
    house.write(".env", lines.join("\n").as_bytes());
    house.env =
        [("NAME_APP", "FromEnvironment".to_owned()), ("PATH_TO_QUEUE_FILE", "deep/q.json".to_owned())].into();
    let server = house.start().await;
    server.run(RSS, "", "completed").await;
    assert!(house.read("logs/FromEnvironment.log").contains("Job completed"));
    assert!(house.path("deep/q.json").exists() && house.path("deep/q").is_dir());
    assert!(server.stop().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn where_lines_go() {
    for (mode, console, file) in
        [("development", true, false), ("testing", true, true), ("production", false, true)]
    {
        let house = House::new().await.with("NODE_ENV", mode);
        let server = house.start().await;
        let id = server.job(RSS, "").await;
        server.until(&id, "completed").await;
        crate::ask::ask(server.addr, "GET", "/health", "x-request-id: abc-7\r\n", "").await;
        server.stop();
        for (name, expected) in [("stderr.txt", console), ("logs/WorkerNode.log", file)] {
            let text = house.read(name);
            let lines =
                ["Job enqueued", "Job started", "Job completed", "Requesting Google RSS", "requestId=abc-7"];
            for line in lines {
                assert_eq!(text.contains(line), expected, "{mode}: {line} in {name}: {text}");
            }
            if expected {
                assert!(
                    text.contains(&format!("jobId={id}")) && text.contains("statusCode=202 durationMs="),
                    "{text}"
                );
                assert!(!text.contains(&house.openai.key()), "the key is in {name}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_log_file_moves_on() {
    let house = House::new().await.with("LOG_MAX_SIZE", "1").with("LOG_MAX_FILES", "2");
    let nearly = "x".repeat(1024 * 1024 - 200);
    house.write("logs/WorkerNode.log", nearly.as_bytes());
    house.write("logs/WorkerNode1.log", b"the eldest");
    let server = house.start().await;
    for _ in 0..10 {
        server.get("/health").await;
    }
    let (newest, older) = (house.read("logs/WorkerNode.log"), house.read("logs/WorkerNode1.log"));
    assert!(newest.contains("/health") && newest.len() < 10_000);
    assert!(older.starts_with("xxx") && older.len() <= 1024 * 1024);
    assert_eq!(std::fs::read_dir(house.path("logs")).unwrap().count(), 2);
}

/// Fault 65: what a caller writes cannot begin a line of the log.
#[tokio::test(flavor = "multi_thread")]
async fn fault_65_a_caller_writes_no_line_of_its_own() {
    let house = House::new().await;
    let server = house.start().await;
    server.get("/queue-info/check-status/x%0A2026-01-01%20[ERROR]%20forged").await;
    let reply = server.post("/queue-info/cancel_job/x%0d%0aset-cookie:%20a=b%1b[31m", "").await;
    assert!(!reply.head.contains("set-cookie"), "{}", reply.head);
    let log = house.read("logs/WorkerNode.log");
    assert!(
        log.lines().all(|line| !line.starts_with("2026-01-01 [ERROR]")) && !log.contains('\u{1b}'),
        "{log}"
    );
}
