//! Programs killed with -9 at random instants: nothing that was accepted is lost, and nothing ends twice.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use windlass_core::id::JobId;
use windlass_core::state::StateName;
use windlass_core::store::Store;
use windlass_mongo::MongoStore;
use windlass_testkit::mongo::ReplicaSet;
use windlass_testkit::program::{Program, example};

/// How often a program is killed: `WINDLASS_CRASHES`, 20 when nothing is said.
fn crashes() -> u32 {
    std::env::var("WINDLASS_CRASHES").ok().and_then(|n| n.parse().ok()).unwrap_or(20)
}

fn program(role: &str, url: &str, log: &Path) -> Program {
    Program::start(Command::new(example("mongo_crash_worker")).arg(role).arg(url).arg(log))
}

#[tokio::test(flavor = "multi_thread")]
async fn crash_mongo() {
    let database = ReplicaSet::shared().await.fresh_database().await;
    let folder = tempfile::tempdir().expect("a folder");
    let (url, log) = (database.url(), folder.path().join("log"));
    let roles = ["producer", "worker", "worker"];
    let mut programs: Vec<Program> = roles.iter().map(|role| program(role, &url, &log)).collect();
    for number in 0..crashes() as usize {
        // The moment of a kill is what is tried out here; nothing is waited for.
        std::thread::park_timeout(Duration::from_millis(40 + (number as u64 * 7_919) % 260));
        let victim = number % roles.len();
        std::mem::replace(&mut programs[victim], program(roles[victim], &url, &log)).kill();
    }
    programs.into_iter().for_each(Program::kill);
    assert!(program("drain", &url, &log).wait().success());
    judge(&std::fs::read_to_string(&log).expect("a log"), &MongoStore::connect(&url).await.expect("a store"))
        .await;
}

async fn judge(log: &str, store: &MongoStore) {
    let (mut acked, mut done) = (HashSet::new(), HashMap::new());
    for line in log.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            ["acked", id] => assert!(acked.insert((*id).to_owned()), "{id} was accepted twice"),
            ["done", id, fence] => {
                let before = done.insert((*id).to_owned(), (*fence).to_owned());
                assert_eq!(before, None, "{id} ended twice");
            }
            _ => {}
        }
    }
    assert!(acked.len() >= 20 && done.len() >= 20, "too little happened: {} and {}", acked.len(), done.len());
    for id in &acked {
        let job = store.get(id.parse::<JobId>().expect("an id")).await.expect("an answer");
        let job = job.unwrap_or_else(|| panic!("job {id} was accepted and is lost"));
        assert_eq!(job.state.name(), StateName::Completed, "job {id}");
        assert_eq!(job.steps.len(), 1, "job {id}");
    }
    assert_eq!(store.audit().await.expect("an audit"), Vec::<String>::new());
    println!("{} kills: {} accepted, none lost, {} ends", crashes(), acked.len(), done.len());
}
