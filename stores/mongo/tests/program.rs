//! The store by the program that has it.

use std::process::Command;

use windlass_testkit::mongo::ReplicaSet;

#[tokio::test]
async fn jobs_go_through_the_program() {
    let database = ReplicaSet::shared().await.fresh_database().await;
    let run = |line: &[&str]| {
        let mut command = Command::new(windlass_testkit::binary::windlass_full());
        command.env("WINDLASS_STORE", database.url()).env_remove("WINDLASS_URL").args(line);
        let output = command.output().unwrap();
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "windlass {line:?}\n{out}\n{err}");
        out.into_owned()
    };
    let looked = |line: &[&str]| {
        let mut command = Command::new(windlass_testkit::binary::windlass_full());
        command.env("WINDLASS_STORE", database.url()).env_remove("WINDLASS_URL").args(line).output().unwrap()
    };
    for line in [&["jobs"][..], &["queues"], &["doctor"]] {
        let output = looked(line);
        assert_eq!(
            output.status.code(),
            Some(3),
            "windlass {line:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let made = database.open().list_collection_names().await.unwrap();
        assert!(made.is_empty(), "whoever looks makes nothing: {made:?}");
    }
    let id = run(&["enqueue", "greet", r#"{"name": "Ada"}"#]);
    run(&["work", "--kind", "greet", "--until-idle", "--", "true"]);
    assert!(run(&["job", id.trim()]).contains("completed"));
    run(&["doctor"]);
}

/// Everything at once: see `windlass_testkit::soak`.
#[tokio::test(flavor = "multi_thread")]
async fn a_soak_on_mongodb() {
    let database = ReplicaSet::shared().await.fresh_database().await;
    windlass_testkit::soak::soak(windlass_testkit::binary::windlass_full(), &database.url(), 2).await;
}
