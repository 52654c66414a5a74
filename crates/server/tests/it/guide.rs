//! The lines of the guide, run as they stand.

use tokio::process::Command;

use crate::house::House;

const GUIDE: &str = include_str!("../../../../docs/guide/api.md");

#[tokio::test(flavor = "multi_thread")]
async fn the_lines_of_the_guide_work() {
    let house = House::open().await;
    let mut script = "set -eu\n".to_owned();
    for block in GUIDE.split("```sh\n").skip(1) {
        script += block.split("```").next().unwrap();
    }
    // Each call must succeed, and shows what it was told when it does not.
    let script = script
        .replace("http://127.0.0.1:7717", &format!("http://{}", house.addr))
        .replace("curl -s ", "curl -sS --fail-with-body ");
    let lines = script.matches("curl ").count();
    assert!(lines > 15, "{lines}");
    let output = Command::new("bash").args(["-c", &script]).output().await.unwrap();
    let (said, complained) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}\n{complained}");
    assert!(said.contains(r#""outcome":"retried""#) && said.contains(r#""status":"ok""#), "{said}");
}
