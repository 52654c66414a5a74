//! What takes long: bursts, and faults of all kinds one after another.

use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt;
use mongodb::bson::{Document, doc};
use windlass_testkit::eventually::{answered_within, eventually};
use windlass_testkit::mongo::ReplicaSet;

use crate::cable::Cable;
use crate::ledger;
use crate::owners::check_all;
use crate::scene::{Instance, Scene, hold, is_full, rounds};

/// Memory that it never needs more of.
const PEAK_KB_MAX: u64 = 150 * 1_024;

async fn peak_kb(scene: &Scene) -> u64 {
    let pid = eventually("its process", async || {
        let instance = scene.own("listener_instances").find_one(doc! {}).await.unwrap()?;
        instance.get_i64("pid").ok()
    })
    .await;
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let peak = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    peak.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// T12: a burst is exact, memory stays bounded, and the lag is gone soon; in the long form for a minute.
#[tokio::test(flavor = "multi_thread")]
async fn t12_a_burst_is_exact_and_bounded() {
    if is_full() {
        return a_minute_of_ten_thousand_a_second().await;
    }
    let scene = Scene::new().await;
    scene.listener("all", doc! { "operationType": ["insert"] }).await;
    let one = scene.start("one").await;
    scene.live(&["all"], &[&one]).await;
    let people = scene.people();
    let pad = "x".repeat(200);
    for batch in 0..30 {
        let many = (0..1_000).map(|n| doc! { "_id": format!("{batch}-{n}"), "pad": &pad });
        people.insert_many(many).await.unwrap();
    }
    scene.until("all", 30_000).await;
    check_all(&scene, "all").await;
    let peak = peak_kb(&scene).await;
    assert!(peak < PEAK_KB_MAX, "{peak} KB");
    drop(one);
}

/// Ten thousand a second for a minute: each has one row, memory is bounded, and the
/// lag is below a second within thirty of the end. How long a row took is printed.
async fn a_minute_of_ten_thousand_a_second() {
    const SECONDS: u64 = 60;
    const LAG: Duration = Duration::from_secs(30);
    let scene = Scene::on(Arc::new(ReplicaSet::one().await)).await;
    scene.listener("all", doc! { "operationType": ["insert"] }).await;
    let one = scene.start("one").await;
    scene.live(&["all"], &[&one]).await;
    let people = scene.people();
    for second in 0..SECONDS {
        let writing = async {
            for part in 0..10 {
                let many = (0..1_000).map(|n| doc! { "_id": format!("{second}-{part}-{n}") });
                people.insert_many(many).await.unwrap();
            }
        };
        // As fast as the server takes it where that is slower.
        tokio::join!(writing, hold(Duration::from_secs(1)));
    }
    let caught_up = answered_within(u32::MAX, async || {
        let (_, status) = scene.get(&one, "/status").await?;
        let lag = status["report"]["lanes"][0]["lag"].as_f64()?;
        (lag < 1.0 && scene.count("all").await == SECONDS * 10_000).then_some(())
    });
    let caught_up = tokio::time::timeout(LAG, caught_up).await;
    assert!(caught_up.is_ok(), "{} rows\n{}", scene.count("all").await, scene.last_words());
    let stages = [doc! { "$group": { "_id": "$data.documentId" } }, doc! { "$count": "documents" }];
    let distinct = scene.own("jobs").aggregate(stages).allow_disk_use(true).await.unwrap();
    let distinct: Vec<Document> = distinct.try_collect().await.unwrap();
    assert_eq!(distinct[0].get_i32("documents").unwrap() as u64, SECONDS * 10_000, "one row for each");
    let peak = peak_kb(&scene).await;
    let (_, metrics) = scene.text(&one, "GET", "/metrics", "").await.unwrap();
    let delays = metrics.lines().filter(|line| line.contains("delay") || line.contains("quantile"));
    println!("peak {peak} KB\n{}", delays.collect::<Vec<_>>().join("\n"));
    assert!(peak < PEAK_KB_MAX, "{peak} KB");
}

/// Two instances, one of them through a cable.
struct Fleet {
    scene: Scene,
    cable: Cable,
    instances: Vec<Instance>,
    /// The one behind the cable.
    behind: String,
    started: usize,
}

impl Fleet {
    async fn start(&mut self) {
        let name = format!("i{}", self.started);
        self.started += 1;
        let through = format!(
            "mongodb://127.0.0.1:{}/?directConnection=true&serverSelectionTimeoutMS=1000",
            self.cable.port
        );
        let more = [("MONGODB_URI", through.as_str())];
        // Never both, so that a cut leaves one.
        let is_through = self.instances.iter().all(|instance| instance.name != self.behind);
        if is_through {
            self.behind.clone_from(&name);
        }
        let instance = self.scene.start_with(&name, if is_through { &more } else { &[] });
        self.scene.ready(&instance).await;
        self.instances.push(instance);
    }
}

/// Whether all that could not be inserted was there: by a try of which nothing was heard.
fn is_there(error: &mongodb::error::Error) -> bool {
    let mongodb::error::ErrorKind::InsertMany(many) = error.kind.as_ref() else { return false };
    many.write_errors.as_ref().is_some_and(|wrong| wrong.iter().all(|wrong| wrong.code == 11_000))
}

/// Whether what was to be renamed is gone already.
fn is_done(error: &mongodb::error::Error) -> bool {
    matches!(error.kind.as_ref(), mongodb::error::ErrorKind::Command(command) if command.code == 26)
}

/// T28, shortened: faults of all kinds by a seed, with two instances; exact at the end. `./test --full` runs ten times as
/// many.
#[tokio::test(flavor = "multi_thread")]
async fn t28_a_random_schedule_of_faults_is_exact() {
    let seed = std::env::var("LISTENER_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(17);
    let mut chance = fastrand::Rng::with_seed(seed);
    let scene = Scene::on(Arc::new(ReplicaSet::one().await)).await;
    scene.listener("all", doc! { "operationType": ["insert"], "statusField": "metadata.listener" }).await;
    let cable = Cable::to(scene.set.authority(0)).await;
    let people = scene.people();
    let mut fleet = Fleet { scene, cable, instances: Vec::new(), behind: String::new(), started: 0 };
    fleet.start().await;
    fleet.start().await;
    let mut written = 0;
    for round in 0..10 * rounds() {
        let many = chance.u64(50..400);
        eventually("it takes writes", async || {
            let many = (0..many).map(|n| doc! { "_id": format!("{round}-{n}") });
            let inserted = people.insert_many(many).ordered(false).await;
            inserted.map_or_else(|error| is_there(&error).then_some(()), |_| Some(()))
        })
        .await;
        written += many;
        let at = chance.usize(0..fleet.instances.len());
        match chance.u32(0..8) {
            0 => {
                fleet.instances.swap_remove(at).program.kill();
                fleet.start().await;
            }
            1 => {
                let instance = fleet.instances.swap_remove(at);
                instance.program.signal(libc::SIGTERM);
                let ended = instance.program.wait();
                assert!(ended.success(), "seed {seed}\n{}", fleet.scene.last_words());
                fleet.start().await;
            }
            2 => {
                fleet.instances[at].freeze();
                fleet.scene.until("all", written).await;
                fleet.instances[at].thaw();
            }
            3 => {
                fleet.cable.set_cut(true);
                fleet.scene.until("all", written).await;
                fleet.cable.set_cut(false);
            }
            4 => drop(fleet.scene.set.step_down(1).await),
            5 => eventually("it is dropped", async || people.drop().await.ok()).await,
            6 => {
                let to = format!("{}a.others{round}", fleet.scene.prefix);
                let rename = doc! { "renameCollection": format!("{}a.people", fleet.scene.prefix), "to": to };
                let admin = fleet.scene.client.database("admin");
                eventually("it is renamed", async || match admin.run_command(rename.clone()).await {
                    Ok(_) => Some(()),
                    Err(error) => is_done(&error).then_some(()),
                })
                .await;
            }
            _ => {
                let edit = doc! { "$set": { "partitions": chance.i32(1..5) } };
                fleet.scene.own("listeners").update_one(doc! { "_id": "all" }, edit).await.unwrap();
            }
        }
        eventually("there is a primary", async || {
            let written = fleet.scene.own("probe").insert_one(doc! { "round": round as i32 }).await;
            written.ok().map(drop)
        })
        .await;
    }
    // Of a listener in parts the marker is behind its own part alone.
    fleet.scene.settled("all", &people).await;
    let entries = fleet.scene.ledger().await;
    let wanted = entries.iter().filter(|entry| entry.collection == "people" && entry.operation == "insert");
    let wanted: Vec<_> = wanted.collect();
    fleet.scene.until("all", wanted.len() as u64).await;
    ledger::exact(&format!("seed {seed}"), &wanted, &fleet.scene.rows("all").await);
    let gaps = fleet.scene.own("listener_gaps").count_documents(doc! {}).await.unwrap();
    assert_eq!(gaps, 0, "seed {seed}");
}
