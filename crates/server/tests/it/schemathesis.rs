//! The OpenAPI document against the running server, by schemathesis.

use std::path::Path;

use tokio::process::Command;
use windlass_server::{Limits, Secret, Settings};

use crate::house::{House, TOKEN};

#[tokio::test(flavor = "multi_thread")]
async fn the_document_is_true() {
    let limits = Limits { refusal_ms: 1, poll_ms_max: 10, ..Limits::default() };
    let house =
        House::with(Settings { token: Some(Secret::new(TOKEN)), limits, ..Settings::default() }).await;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/schemathesis.sh");
    let url = format!("http://{}", house.addr);
    let output = Command::new(script).args([&url, TOKEN]).output().await.unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(!said.contains("No operations"), "{said}");
}
