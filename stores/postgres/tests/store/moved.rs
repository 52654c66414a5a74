//! Jobs of other queues on Postgres, moved by the statements of docs/guide/migrating.md: the tables are those that their
//! own programs make and fill (`tests/movers`).

use std::path::Path;
use std::process::Command;

use windlass_core::job::Job;
use windlass_core::query::{JobFilter, ListRequest};
use windlass_core::store::Store;

use crate::scene::Scene;

/// The statements of the page that are marked with a name.
fn statements(name: &str) -> String {
    let page = include_str!("../../../../docs/guide/migrating.md");
    let (_, rest) =
        page.split_once(&format!("<!-- run: {name} -->\n```sql\n")).expect("a block with this mark");
    rest.split_once("```").expect("its end").0.to_owned()
}

fn run(command: &mut Command) {
    let output = command.output().expect("a program");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && errors.is_empty(), "{command:?}: {errors}");
}

/// Moves what a version of another queue holds, twice, and gives what is here then, in the order of acceptance.
async fn moved(name: &str, version: &str, table: &str) -> Vec<Job> {
    let movers = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/movers");
    run(&mut Command::new(movers.join("install")));
    let scene = Scene::new().await;
    let store = scene.store(None).await;
    let package = format!("{name}-{version}");
    run(Command::new("node").current_dir(&movers).args(["fill.mjs", &package, &scene.database.url()]));
    for _ in 0..2 {
        scene.client.batch_execute(&statements(name)).await.expect("the statements of the guide");
    }
    let left = scene.client.query(&format!("SELECT FROM {table}"), &[]).await.expect("what is left");
    assert_eq!(left.len(), 2, "what a worker holds, and what is over, stays with {package}");
    let request = ListRequest { filter: JobFilter::default(), limit: 100, after: None };
    let mut jobs = store.list(request).await.expect("a page").jobs;
    jobs.sort_by_key(|job| job.seq);
    jobs
}

fn check(jobs: &[Job], key: Option<&str>, dedupe_key: &str) {
    assert_eq!(jobs.len(), 3, "{jobs:?}");
    for (at, job) in jobs.iter().enumerate() {
        assert_eq!(job.spec.kind.as_str(), "resize");
        assert_eq!(job.spec.payload.as_str(), format!("{{\"n\":{}}}", at + 1), "in their order");
    }
    let priorities: Vec<i16> = jobs.iter().map(|job| job.spec.priority).collect();
    assert_eq!(priorities, [0, 7, 0], "higher first");
    assert_eq!(jobs[1].run_at.to_string(), "2031-01-31T12:00:00.500Z");
    assert_eq!(jobs[2].spec.key.as_ref().map(|key| key.as_str()), key);
    assert_eq!(jobs[2].spec.dedupe_key.as_ref().map(|key| key.as_str()), Some(dedupe_key));
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_of_pg_boss() {
    for version in ["10", "12"] {
        check(&moved("pg-boss", version, "pgboss.job").await, None, "resize/shop-7");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_of_graphile_worker() {
    for version in ["0.17", "0.18"] {
        check(
            &moved("graphile-worker", version, "graphile_worker._private_jobs").await,
            Some("user-7"),
            "shop-7",
        );
    }
}
