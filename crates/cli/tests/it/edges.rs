//! Which room may know which: read from cargo's own metadata. The picture in ARCHITECTURE.md is made from the same table;
//! `UPDATE=1` writes it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A line of the picture, from the top downwards: what it is called, what it is for, and which other lines its packages
/// may know among our own crates (dev-dependencies aside). A name is that of a folder under `crates`, or of a folder of
/// folders, all of which are alike: so a new store or a new app is no line here.
struct Room {
    name: &'static str,
    what: &'static str,
    knows: &'static [&'static str],
}

/// `*`: everything below.
const ROOMS: &[Room] = &[
    Room { name: "cli", what: "the binary: arguments, wiring, exit codes, the list of apps", knows: &["*"] },
    Room {
        name: "apps",
        what: "workers for one system each; they know no store (the listener alone does), no other app and not the server",
        knows: &["app", "outside", "engine"],
    },
    Room {
        name: "app",
        what: "what every app has: settings, log forms, door, shutdown, its place in the command line",
        knows: &["listen", "engine"],
    },
    Room {
        name: "server",
        what: "the HTTP API and the dashboard: auth, limits, long polls, events, metrics, pages",
        knows: &["report", "listen", "engine", "core"],
    },
    Room {
        name: "report",
        what: "what is said of a store: texts of the API, findings of doctor, reasons, searches",
        knows: &["engine"],
    },
    Room { name: "listen", what: "HTTP connections with limits", knows: &["engine"] },
    Room { name: "outside", what: "clients for other people's services; safe HTTP", knows: &["core"] },
    Room {
        name: "windlass",
        what: "what users add to Cargo.toml: the engine, a prelude, `open`, and the stores by feature",
        knows: &["engine", "stores"],
    },
    Room {
        name: "engine",
        what: "client, worker loop, lease keeper, steps, child processes      (package `windlass-engine`)",
        knows: &["core"],
    },
    Room {
        name: "stores",
        what: "json · sqlite · postgres (and adopted tables) · mongo (and Agenda's rows) · remote (a server as a store)",
        knows: &["core"],
    },
    Room {
        name: "core",
        what: "types, state machine, ladders, budget arithmetic, the traits of a store: pure",
        knows: &[],
    },
];

/// Beside the picture: what knows nothing of ours, and what only tests and `demo` have.
const BESIDE: &[Room] = &[
    Room { name: "embed", what: "sentence embeddings", knows: &[] },
    Room { name: "standins", what: "servers that play other people's services", knows: &[] },
    Room { name: "testkit", what: "what tests share", knows: &["core"] },
];

/// What single packages know beside what their room does, and why.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    ("windlass-listener", "windlass-mongo", "its jobs and positions are one transaction"),
    ("windlass-news-nexus", "windlass-embed", "it scores by sentences"),
    (
        "windlass-app",
        "windlass-postgres",
        "by a feature: what an app says of a table that is adopted; it opens none",
    ),
    ("windlass-cli", "windlass-standins", "by a feature: `demo`"),
];

/// What core must never know.
const NOT_IN_CORE: [&str; 5] = ["tokio", "rusqlite", "tokio-postgres", "hyper", "rand"];

/// Between these lines of ARCHITECTURE.md is the picture.
const MARKS: (&str, &str) = (
    "<!-- made from crates/cli/tests/it/edges.rs; UPDATE=1 cargo test -p windlass-cli edges writes it -->\n",
    "<!-- end of what is made -->\n",
);

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// A package: its room, and what it needs.
struct Package {
    room: String,
    needs: Vec<String>,
}

/// The room of a folder such as `crates/engine` or `stores/json`.
fn room_of(folder: &Path) -> String {
    let mut parts = folder.iter().map(|part| part.to_str().unwrap());
    let (first, second) = (parts.next().unwrap(), parts.next().unwrap());
    if first == "crates" { second.to_owned() } else { first.to_owned() }
}

fn packages() -> BTreeMap<String, Package> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--no-deps", "--offline", "--manifest-path"])
        .arg(root().join("Cargo.toml"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let package = |package: &serde_json::Value| {
        let needs = package["dependencies"].as_array().unwrap().iter().filter(|need| need["kind"] != "dev");
        let needs = needs.map(|need| need["name"].as_str().unwrap().to_owned()).collect();
        let manifest = Path::new(package["manifest_path"].as_str().unwrap()).canonicalize().unwrap();
        let room = room_of(manifest.parent().unwrap().strip_prefix(root()).unwrap());
        (package["name"].as_str().unwrap().to_owned(), Package { room, needs })
    };
    metadata["packages"].as_array().unwrap().iter().map(package).collect()
}

/// What is wrong with the edges of a package.
fn wrong(name: &str, package: &Package, all: &BTreeMap<String, Package>) -> Vec<String> {
    let Some(room) = ROOMS.iter().chain(BESIDE).find(|room| room.name == package.room) else {
        return vec![format!("{name}: crates/{} is a new room: say in ROOMS what it may know", package.room)];
    };
    let ours = package.needs.iter().filter_map(|need| Some((need, all.get(need)?)));
    let may = |need: &str, of: &Package| {
        let everything = room.knows.contains(&"*") && BESIDE.iter().all(|beside| beside.name != of.room);
        let by_room = room.knows.contains(&of.room.as_str());
        everything || by_room || EXCEPTIONS.iter().any(|(who, whom, _)| (*who, *whom) == (name, need))
    };
    let refused = ours.filter(|(need, of)| !may(need, of));
    refused.map(|(need, _)| format!("{name} must not know {need}")).collect()
}

#[test]
fn dependencies_point_downwards() {
    let all = packages();
    let faults: Vec<String> = all.iter().flat_map(|(name, package)| wrong(name, package, &all)).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    for banned in NOT_IN_CORE {
        assert!(!all["windlass-core"].needs.iter().any(|need| need == banned), "core must not know {banned}");
    }
}

/// What the table says of itself: a line knows only lines below it, and nothing is said that is not so.
#[test]
fn the_table_points_downwards() {
    for (at, room) in ROOMS.iter().enumerate() {
        let below: BTreeSet<&str> = ROOMS[at + 1..].iter().map(|room| room.name).collect();
        for known in room.knows.iter().filter(|known| **known != "*") {
            assert!(below.contains(known), "{} knows {known}, which is not below it", room.name);
        }
    }
    let all = packages();
    for (who, whom, why) in EXCEPTIONS {
        assert!(
            all[*who].needs.iter().any(|need| need == whom),
            "{who} does not know {whom} ({why}): take it out"
        );
    }
}

/// A new app, a new store and a new crate, as the table sees them.
#[test]
fn a_new_app_is_no_new_line() {
    let mut all = packages();
    let new = |folder: &str, needs: &[&str]| Package {
        room: room_of(Path::new(folder)),
        needs: needs.iter().map(|need| (*need).to_owned()).collect(),
    };
    let cases = [
        ("apps/new", &["windlass-app", "windlass-engine", "windlass-outside"][..], 0),
        ("apps/new", &["windlass-sqlite"], 1),
        ("apps/new", &["windlass-vela", "windlass-server"], 2),
        ("stores/new", &["windlass-core"], 0),
        ("stores/new", &["windlass-engine", "windlass-json"], 2),
        ("crates/new", &[], 1),
    ];
    for (folder, needs, faults) in cases {
        let found = wrong("windlass-new", &new(folder, needs), &all);
        assert_eq!(found.len(), faults, "{folder} {needs:?}: {found:?}");
    }
    // The command line may know it at once, and still nothing of the tests.
    all.insert("windlass-new".into(), new("apps/new", &[]));
    assert!(wrong("windlass-cli", &new("crates/cli", &["windlass-new"]), &all).is_empty());
    assert_eq!(wrong("windlass-cli", &new("crates/cli", &["windlass-testkit"]), &all).len(), 1);
}

#[test]
fn the_picture_is_made_from_the_table() {
    let width = ROOMS.iter().map(|room| room.name.len()).max().unwrap() + 4;
    let lines: String = ROOMS.iter().map(|room| format!("{:<width$}{}\n", room.name, room.what)).collect();
    let path = root().join("ARCHITECTURE.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(MARKS.0).expect("where it begins");
    let (_, after) = rest.split_once(MARKS.1).expect("where it ends");
    let made = format!("{before}{}```\n{lines}```\n{}{after}", MARKS.0, MARKS.1);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    assert_eq!(
        std::fs::read_to_string(&path).unwrap(),
        made,
        "UPDATE=1 cargo test -p windlass-cli edges writes it"
    );
}
