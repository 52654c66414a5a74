//! Owners: one for each listener, whoever comes, goes, sleeps or lies about the time.

use mongodb::bson::{Document, doc};
use windlass_testkit::eventually::{answered_within, eventually};

use crate::ledger;
use crate::scene::{Scene, is_full};

/// Writes in the background until it is told to end; answers how many.
pub struct Writer {
    stop: std::sync::Arc<std::sync::atomic::AtomicBool>,
    task: tokio::task::JoinHandle<u64>,
}

impl Writer {
    pub fn start(people: mongodb::Collection<Document>) -> Self {
        let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let told = stop.clone();
        let task = tokio::spawn(async move {
            let mut n = 0;
            while !told.load(std::sync::atomic::Ordering::Relaxed) {
                let many = (0..10).map(|_| doc! { "n": 1 });
                people.insert_many(many).await.unwrap();
                n += 10;
            }
            n
        });
        Self { stop, task }
    }

    pub async fn end(self) -> u64 {
        self.stop.store(true, std::sync::atomic::Ordering::Relaxed);
        self.task.await.unwrap()
    }
}

pub async fn check_all(scene: &Scene, listener: &str) {
    scene.settled(listener, &scene.people()).await;
    let entries = scene.ledger().await;
    let wanted: Vec<_> =
        entries.iter().filter(|entry| entry.collection == "people" && entry.operation == "insert").collect();
    ledger::exact(listener, &wanted, &scene.rows(listener).await);
}

/// T2, B1, B16: kill -9 of the owner in the middle of writes; the other takes over and goes on where it stood.
#[tokio::test(flavor = "multi_thread")]
async fn t02_b01_b16_the_owner_is_killed_under_load() {
    let scene = Scene::new().await;
    scene.listener("all", doc! { "operationType": ["insert"] }).await;
    let a = scene.start("a").await;
    scene.owned_by("all", "a").await;
    scene.live(&["all"], &[&a]).await;
    let _b = scene.start("b").await;
    let writer = Writer::start(scene.people());
    scene.until("all", 500).await;
    a.program.kill();
    // The lease of three seconds, and five more.
    let taken = answered_within(110, async || {
        scene.owner("all").await.filter(|owner| owner.starts_with("b-")).map(drop)
    })
    .await;
    assert!(taken.is_some(), "nobody took over\n{}", scene.last_words());
    scene.until("all", 1_000).await;
    assert!(writer.end().await > 500);
    check_all(&scene, "all").await;
}

/// T4, B2, B5: the owner sleeps past its lease, another takes over, and the sleeper wakes: it writes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn t04_b02_b05_a_sleeper_wakes_and_writes_nothing() {
    let scene = Scene::new().await;
    scene.listener("all", doc! { "operationType": ["insert"], "statusField": "metadata.listener" }).await;
    let a = scene.start("a").await;
    scene.owned_by("all", "a").await;
    scene.live(&["all"], &[&a]).await;
    let b = scene.start("b").await;
    let writer = Writer::start(scene.people());
    scene.until("all", 200).await;
    a.freeze();
    scene.owned_by("all", "b").await;
    scene.until("all", 600).await;
    a.thaw();
    scene.ready(&a).await;
    let held = scene.fence("all").await;
    scene.until("all", 1_200).await;
    writer.end().await;
    check_all(&scene, "all").await;
    assert_eq!(scene.fence("all").await, held, "the lock does not go to and fro");
    scene.owned_by("all", "b").await;
    drop(b);
}

/// T5, B3: an instance whose clock is wrong steals nothing, and its jobs are due by the server's clock.
#[tokio::test(flavor = "multi_thread")]
async fn t05_b03_a_wrong_clock_steals_nothing() {
    let scene = Scene::new().await;
    let Some(library) = skewed(&scene) else { return };
    scene.listener("all", doc! { "operationType": ["insert"] }).await;
    let a = scene.start("a").await;
    scene.owned_by("all", "a").await;
    scene.live(&["all"], &[&a]).await;
    let held = scene.fence("all").await;
    for (name, seconds) in [("ahead", "40"), ("behind", "-40"), ("far", "3600"), ("past", "-3600")] {
        let wrong = scene.start_with(name, &[("LD_PRELOAD", library.as_str()), ("SKEW_SECONDS", seconds)]);
        scene.ready(&wrong).await;
        scene.settled("all", &scene.people()).await;
        // Several rounds of heartbeats and claims of the wrong one.
        eventually("it has looked for listeners often", async || {
            let (_, metrics) = scene.text(&wrong, "GET", "/metrics", "").await?;
            let line =
                metrics.lines().find(|line| line.starts_with("windlass_listener_heartbeats_total "))?;
            (line.rsplit(' ').next()?.parse::<u64>().ok()? >= 6).then_some(())
        })
        .await;
        scene.owned_by("all", "a").await;
        assert_eq!(scene.fence("all").await, held, "{name} has taken a lock from a live owner");
    }
    a.program.kill();
    let wrong = scene.start_with("wrong", &[("LD_PRELOAD", library.as_str()), ("SKEW_SECONDS", "3600")]);
    scene.owned_by("all", "wrong").await;
    let now = async || {
        let hello = scene.client.database("admin").run_command(doc! { "hello": 1 }).await.unwrap();
        hello.get_datetime("localTime").unwrap().timestamp_millis()
    };
    let before = now().await;
    scene.settled("all", &scene.people()).await;
    let after = now().await;
    let newest = scene
        .rows("all")
        .await
        .iter()
        .map(|row| row.get_datetime("nextRunAt").unwrap().timestamp_millis())
        .max()
        .unwrap();
    // Within a second of the server's clock, from before it was written until it was there.
    assert!((before - 1_000..=after + 1_000).contains(&newest), "{before} {newest} {after}");
    drop(wrong);
}

/// A library that moves the wall clock of a program.
fn skewed(scene: &Scene) -> Option<String> {
    let source = "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <stdlib.h>\n#include <time.h>\n#include <sys/time.h>\n\
        static long skew(void) { const char *s = getenv(\"SKEW_SECONDS\"); return s ? atol(s) : 0; }\n\
        int clock_gettime(clockid_t id, struct timespec *t) {\n\
          static int (*real)(clockid_t, struct timespec *); if (!real) real = dlsym(RTLD_NEXT, \"clock_gettime\");\n\
          int r = real(id, t); if (!r && id == CLOCK_REALTIME) t->tv_sec += skew(); return r; }\n";
    let (file, library) = (scene.folder.path().join("skew.c"), scene.folder.path().join("skew.so"));
    std::fs::write(&file, source).unwrap();
    let built = std::process::Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .arg(&library)
        .arg(&file)
        .arg("-ldl")
        .status();
    let built = built.is_ok_and(|status| status.success());
    windlass_testkit::needs::can_run(built, "a C compiler, to move the clock of a program")
        .then(|| library.display().to_string())
}

/// How long a heartbeat may take, of which there are two in a second.
const HEARTBEATS: std::time::Duration = std::time::Duration::from_millis(1_500);

/// T19, B12: heartbeats restart nothing and reload nothing; in the long form for five minutes.
#[tokio::test(flavor = "multi_thread")]
async fn t19_b12_heartbeats_restart_no_stream() {
    let scene = Scene::new().await;
    for n in 0..100 {
        scene.listener(&format!("l{n}"), doc! { "collection": format!("c{}", n % 10) }).await;
    }
    let one = scene.start("one").await;
    let ids: Vec<String> = (0..100).map(|n| format!("l{n}")).collect();
    scene.live(&ids.iter().map(String::as_str).collect::<Vec<_>>(), &[&one]).await;
    let count = async |name: &str| {
        let (_, metrics) = scene.text(&one, "GET", "/metrics", "").await.unwrap();
        let line = metrics
            .lines()
            .find(|line| line.starts_with(&format!("windlass_listener_{name} ")))
            .unwrap()
            .to_owned();
        line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()
    };
    let (reopened, taken, heard) = (
        count("streams_reopened_total").await,
        count("locks_taken_total").await,
        count("events_total").await,
    );
    let beats = count("heartbeats_total").await;
    let more = if is_full() { 600 } else { 20 };
    let beaten = async || (count("heartbeats_total").await >= beats + more).then_some(());
    let beaten =
        tokio::time::timeout(HEARTBEATS * u32::try_from(more).unwrap(), answered_within(u32::MAX, beaten));
    beaten.await.expect("heartbeats go on");
    assert_eq!(count("streams_reopened_total").await, reopened);
    assert_eq!(count("locks_taken_total").await, taken);
    assert_eq!(count("events_total").await, heard, "heartbeats are not even heard");
}

/// T22: SIGTERM and SIGINT under load: what is not whole is not there, locks are released, exit 0 at once; a
/// successor goes on without a gap.
#[tokio::test(flavor = "multi_thread")]
async fn t22_an_end_under_load_is_clean() {
    let scene = Scene::new().await;
    scene.listener("all", doc! { "operationType": ["insert"], "statusField": "metadata.listener" }).await;
    let first = scene.start("first").await;
    scene.live(&["all"], &[&first]).await;
    let writer = Writer::start(scene.people());
    first.program.signal(libc::SIGTERM);
    assert!(first.program.wait().success());
    for (round, signal) in [libc::SIGTERM, libc::SIGINT, libc::SIGTERM].into_iter().enumerate() {
        let name = format!("i{round}");
        let instance = scene.start(&name).await;
        scene.owned_by("all", &name).await;
        let before = scene.count("all").await;
        scene.until("all", before + 300).await;
        instance.program.signal(signal);
        let ended = tokio::time::timeout(
            std::time::Duration::from_secs(5),
            tokio::task::spawn_blocking(move || instance.program.wait()),
        );
        let status = ended.await.expect("it ends within five seconds").unwrap();
        assert!(status.success(), "{status:?}\n{}", scene.last_words());
        assert_eq!(scene.owner("all").await, None, "its lock is released");
    }
    writer.end().await;
    let last = scene.start("last").await;
    check_all(&scene, "all").await;
    // What it left of the status is written, too.
    eventually("all documents are complete", async || {
        let left = scene
            .people()
            .count_documents(doc! { "metadata.listener.status": { "$ne": "complete" } })
            .await
            .unwrap();
        (left == 0).then_some(())
    })
    .await;
    last.program.kill();
}

/// How soon listeners are spread.
const SPREAD: std::time::Duration = std::time::Duration::from_secs(30);

/// T26: listeners are spread evenly as instances come and go, without a duplicate; by the times that are the default.
#[tokio::test(flavor = "multi_thread")]
async fn t26_listeners_are_spread_evenly() {
    let mut scene = Scene::new().await;
    for (name, seconds) in [("LOCK", "30"), ("HEARTBEAT", "10"), ("CLAIM", "15")] {
        scene.set(&format!("LISTENER_{name}_SECONDS"), seconds);
    }
    for n in 0..20 {
        scene
            .listener(&format!("l{n}"), doc! { "operationType": ["insert"], "filter": { "n": n % 20 } })
            .await;
    }
    let a = scene.start("a").await;
    let ids: Vec<String> = (0..20).map(|n| format!("l{n}")).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    scene.live(&ids, &[&a]).await;
    let people = scene.people();
    let writing = tokio::spawn(async move {
        for n in 0..4_000_i32 {
            people.insert_one(doc! { "n": n % 20 }).await.unwrap();
        }
    });
    let b = scene.start("b").await;
    let spread = async |wanted: &[usize]| {
        let even = async || {
            let mut counts = std::collections::BTreeMap::new();
            for id in &ids {
                *counts.entry(scene.owner(id).await?).or_insert(0_usize) += 1;
            }
            (counts.into_values().collect::<Vec<_>>() == wanted).then_some(())
        };
        let spread = tokio::time::timeout(SPREAD, answered_within(u32::MAX, even)).await;
        assert!(spread.is_ok(), "{wanted:?} is not reached within {SPREAD:?}\n{}", scene.last_words());
    };
    spread(&[10, 10]).await;
    b.program.signal(libc::SIGTERM);
    assert!(b.program.wait().success());
    spread(&[20]).await;
    writing.await.unwrap();
    let entries = scene.ledger().await;
    for (n, id) in ids.iter().enumerate() {
        let wanted: Vec<_> = entries
            .iter()
            .filter(|entry| {
                entry
                    .event
                    .get_document("fullDocument")
                    .unwrap()
                    .get_i32("n")
                    .is_ok_and(|found| found == n as i32)
            })
            .collect();
        scene.until(id, wanted.len() as u64).await;
        ledger::exact(id, &wanted, &scene.rows(id).await);
    }
}
