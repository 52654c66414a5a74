//! The remote worker of `examples/`, run against a real server. The SDKs have tests of their own, in `sdk/`.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::{Value, json};
use tokio::process::{Child, Command};
use windlass_testkit::eventually::eventually;

use crate::house::{House, TOKEN};

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name)
}

fn start(mut command: Command, house: &House) -> Child {
    command.arg(format!("http://{}", house.addr)).env("WINDLASS_TOKEN", TOKEN);
    command.kill_on_drop(true).stdin(Stdio::null());
    command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}. Install it: this test never skips"))
}

/// Jobs are claimed, stepped and completed; one whose step is stored already is not stepped again.
async fn works_with(command: impl Fn() -> Command) {
    let house = House::closed().await;
    // A first attempt has stored the step and was lost: the worker must go on from there.
    let resumed = house.enqueue(json!({"kind": "double", "payload": {"n": 1}})).await;
    let lease = house.claim("before").await;
    let path = format!("/v1/jobs/{resumed}/steps/double");
    assert_eq!(house.put(&path, json!({"fence": lease["fence"], "output": 1000})).await.status, 200);
    let released = json!({"results": [{"job_id": resumed, "fence": lease["fence"], "outcome": "released"}]});
    assert_eq!(house.post("/v1/leases/settle", released).await.status, 200);
    let fresh = house.enqueue(json!({"kind": "double", "payload": {"n": 21}})).await;
    let broken = house.enqueue(json!({"kind": "double", "payload": null, "retry": {"ladder": "none"}})).await;

    let _worker = start(command(), &house);
    let ended = async |id: &str| -> Value {
        let path = format!("/v1/jobs/{id}");
        eventually("the job ends", || async {
            Some(house.get(&path).await.json()).filter(|job| !job["ended_at"].is_null())
        })
        .await
    };
    let fresh = ended(&fresh).await;
    assert_eq!((&fresh["state"], &fresh["result"]), (&json!("completed"), &json!({"doubled": 42})));
    assert_eq!(fresh["steps"][0]["output"], 42);
    let resumed = ended(&resumed).await;
    assert_eq!((&resumed["result"], &resumed["fence"]), (&json!({"doubled": 1000}), &json!(2)));
    let broken = ended(&broken).await;
    assert_eq!((&broken["state"], &broken["failure_reason"]), (&json!("failed"), &json!("exhausted")));
    assert!(broken["error"].as_str().unwrap().contains("TypeError"), "{broken}");
    let later = house.enqueue(json!({"kind": "double", "payload": {"n": 4}})).await;
    assert_eq!(ended(&later).await["result"], json!({"doubled": 8}), "it goes on waiting for work");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_in_python() {
    works_with(|| {
        let mut command = Command::new("python3");
        command.arg(example("remote_worker.py"));
        command
    })
    .await;
}
