//! Which room may know which: read from cargo's own metadata.

use std::collections::BTreeMap;
use std::process::Command;

/// What each room may depend on among our own crates; dev-dependencies aside.
const EDGES: &[(&str, &[&str])] = &[
    ("windlass-core", &[]),
    ("windlass-engine", &["windlass-core"]),
    (
        "windlass",
        &[
            "windlass-engine",
            "windlass-json",
            "windlass-sqlite",
            "windlass-postgres",
            "windlass-mongo",
            "windlass-remote",
        ],
    ),
    ("windlass-json", &["windlass-core"]),
    ("windlass-sqlite", &["windlass-core"]),
    ("windlass-postgres", &["windlass-core"]),
    ("windlass-mongo", &["windlass-core"]),
    ("windlass-remote", &["windlass-core"]),
    ("windlass-outside", &["windlass-core"]),
    ("windlass-standins", &[]),
    ("windlass-listen", &["windlass-engine"]),
    ("windlass-server", &["windlass-engine", "windlass-core", "windlass-listen"]),
    ("windlass-embed", &[]),
    ("windlass-app", &["windlass-engine", "windlass-listen"]),
    ("windlass-bitcoin-news", &["windlass-engine", "windlass-app", "windlass-outside"]),
    // The one app that knows a store: jobs and positions are one transaction.
    ("windlass-listener", &["windlass-engine", "windlass-app", "windlass-outside", "windlass-mongo"]),
    ("windlass-news-nexus", &["windlass-engine", "windlass-app", "windlass-outside", "windlass-embed"]),
    ("windlass-nurse-tour", &["windlass-engine", "windlass-app", "windlass-outside"]),
    ("windlass-vela", &["windlass-engine", "windlass-app", "windlass-outside"]),
    ("windlass-testkit", &["windlass-core"]),
    (
        "windlass-cli",
        &[
            "windlass",
            "windlass-engine",
            "windlass-app",
            "windlass-json",
            "windlass-outside",
            "windlass-sqlite",
            "windlass-standins",
            "windlass-postgres",
            "windlass-remote",
            "windlass-server",
            "windlass-bitcoin-news",
            "windlass-listener",
            "windlass-news-nexus",
            "windlass-nurse-tour",
            "windlass-vela",
        ],
    ),
];

/// What core must never know.
const NOT_IN_CORE: [&str; 5] = ["tokio", "rusqlite", "tokio-postgres", "hyper", "rand"];

#[test]
fn dependencies_point_downwards() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--no-deps", "--offline", "--manifest-path"])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in metadata["packages"].as_array().unwrap() {
        let needs = package["dependencies"].as_array().unwrap().iter().filter(|need| need["kind"] != "dev");
        let needs = needs.map(|need| need["name"].as_str().unwrap().to_owned());
        found.insert(package["name"].as_str().unwrap().to_owned(), needs.collect());
    }
    for (name, needs) in &found {
        let allowed = EDGES.iter().find(|(room, _)| room == name);
        let (_, allowed) =
            allowed.unwrap_or_else(|| panic!("{name} is a new room: say in EDGES what it may know"));
        for need in needs.iter().filter(|need| need.starts_with("windlass")) {
            assert!(allowed.contains(&need.as_str()), "{name} must not know {need}");
        }
    }
    for banned in NOT_IN_CORE {
        assert!(!found["windlass-core"].iter().any(|need| need == banned), "core must not know {banned}");
    }
}
