//! Workers are killed again and again: no shop is worked on twice at once, and both sides end as they should.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use futures::StreamExt;
use serde_json::{Value, json};
use windlass_engine::Store;
use windlass_engine::core::event::{Event, What};
use windlass_engine::core::store::EVENTS_MAX;
use windlass_standins::{Fault, NewListing};
use windlass_testkit::eventually::answered_within;
use windlass_testkit::program::Program;

use crate::scene::Scene;

fn kills() -> usize {
    std::env::var("WINDLASS_CRASHES").ok().and_then(|n| n.parse().ok()).unwrap_or(12)
}

/// Asks until it holds, for as long as it takes eight workers that keep dying.
async fn in_the_end<T, F: Future<Output = Option<T>>>(
    what: &str,
    scene: &Scene,
    ask: impl FnMut() -> F,
) -> T {
    match answered_within(1_500, ask).await {
        Some(found) => found,
        None => panic!("{what}\n{}", scene.last_words()),
    }
}

/// No shop has two tasks that are running.
async fn one_each(scene: &Scene) {
    let running = scene.get("/tasks?state=running").await;
    let mut shops: BTreeMap<u64, usize> = BTreeMap::new();
    for task in running["tasks"].as_array().unwrap() {
        *shops.entry(task["shop_id"].as_u64().unwrap()).or_default() += 1;
    }
    assert!(shops.values().all(|count| *count == 1), "{running}");
}

/// What users, buyers and sellers have done, and what has to come of it.
#[derive(Default)]
struct Expected {
    /// The titles that users gave and were told 202 for, the last of each listing.
    edited: BTreeMap<u64, String>,
    /// How many were bought of a listing.
    sold: BTreeMap<u64, i64>,
    /// The titles that sellers gave at Etsy itself.
    sellers: BTreeMap<u64, String>,
    /// What sellers deleted there.
    deleted: BTreeSet<u64>,
}

/// How many listings a shop has, and who touches which.
const LISTINGS: usize = 16;
const OF_USERS: std::ops::Range<usize> = 0..6;
const OF_BUYERS: std::ops::Range<usize> = 6..9;
const OF_SELLERS: std::ops::Range<usize> = 9..12;
/// Deleted by the seller; the last two are edited by users, too, who may be too late.
const TO_DELETE: std::ops::Range<usize> = 12..16;
const QUANTITY: i64 = 10;

impl Expected {
    /// A user, a buyer and the seller of a shop do something, where there is something to do it with.
    async fn happen(&mut self, scene: &Scene, shop: u64, ids: &[u64], round: usize) {
        for id in [ids[fastrand::usize(OF_USERS)], ids[fastrand::usize(14..TO_DELETE.end)]] {
            let title = format!("Edit {round} of {id}");
            match scene.edit(shop, id, json!({"title": title})).await.0 {
                202 => drop(self.edited.insert(id, title)),
                // It is not here yet, or not at Etsy any more.
                status => assert!([404, 409].contains(&status), "{status}"),
            }
        }
        let id = ids[fastrand::usize(OF_BUYERS)];
        scene.etsy.sell(id, 0, 1);
        *self.sold.entry(id).or_default() += 1;
        let (id, title) = (ids[fastrand::usize(OF_SELLERS)], format!("Seller {round}"));
        scene.etsy.edit(id, "title", title.as_str());
        self.sellers.insert(id, title);
        if fastrand::bool() {
            let id = ids[fastrand::usize(TO_DELETE)];
            scene.etsy.delete(id);
            self.deleted.insert(id);
        }
    }

    /// Both sides of a listing are as they have to be; `first` is the title that it had.
    fn check(&self, id: u64, first: &str, ours: &Value, theirs: Option<&Value>) {
        let edited = self.edited.get(&id);
        if self.deleted.contains(&id) {
            assert!(theirs.is_none());
            // An edit was sent before the listing went, or is kept.
            match ours["status"].as_str() {
                Some("deleted") => assert_eq!(ours["changes"], json!({}), "{ours}"),
                Some("conflict_deleted") => {
                    assert_eq!(
                        ours["changes"]["title"]["value"].as_str(),
                        edited.map(String::as_str),
                        "{ours}"
                    );
                }
                _ => panic!("{id} is gone at Etsy: {ours}"),
            }
            return;
        }
        let title = edited.or_else(|| self.sellers.get(&id)).map_or(first, String::as_str);
        let quantity = QUANTITY - self.sold.get(&id).copied().unwrap_or(0);
        let expected = (json!(title), json!(quantity.max(0)));
        let theirs = theirs.unwrap_or_else(|| panic!("{id} is gone at Etsy, and nobody deleted it"));
        assert_eq!((theirs["title"].clone(), theirs["quantity"].clone()), expected, "{id} at Etsy");
        assert_eq!((ours["title"].clone(), ours["quantity"].clone()), expected, "{id} here");
        assert_eq!((&ours["dirty"], &ours["conflicts"]), (&json!(false), &json!([])), "{ours}");
    }
}

/// By the events of the store: of no shop two tasks were with workers at once. Which shop a task is of is in the logs of
/// its workers, since a task that is done is deleted. Answers how often a task was claimed.
async fn claims_without_overlap(scene: &Scene) -> usize {
    let mut shops: HashMap<String, u64> = HashMap::new();
    for entry in std::fs::read_dir(scene.folder.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|end| end == "log") {
            let log = std::fs::read_to_string(path).unwrap();
            shops.extend(log.lines().filter(|line| line.contains("Task begun")).filter_map(begun));
        }
    }
    let path = scene.folder.path().join("vela.db");
    let store = windlass_sqlite::SqliteStore::open(path).await.unwrap();
    let (mut since, mut claims) = (None, 0);
    let mut held: BTreeMap<u64, String> = BTreeMap::new();
    loop {
        let events = store.events(since, EVENTS_MAX).await.unwrap();
        let Some(last) = events.last() else { return claims };
        assert!(since.is_some() || events[0].position.place == 1, "the events begin with the first");
        since = Some(last.position);
        for Event { what, jobs, .. } in events {
            for job in jobs.iter().map(ToString::to_string) {
                let ends = match what {
                    What::Enqueued | What::CancelRequested | What::Retried => continue,
                    What::MadeDue | What::Deleted | What::Acted => continue,
                    What::Claimed => false,
                    What::Completed | What::Retrying | What::Failed | What::Crashed => true,
                    What::Released | What::Parked | What::Canceled => true,
                };
                let Some(shop) = shops.get(&job) else {
                    assert_eq!(what, What::Canceled, "{job} was claimed, and no worker has begun it");
                    continue;
                };
                if ends {
                    held.retain(|_, holder| *holder != job);
                } else {
                    claims += 1;
                    let before = held.insert(*shop, job.clone());
                    assert_eq!(before, None, "shop {shop} was with {job} as well");
                }
            }
        }
    }
}

/// Task and shop of a line that a worker wrote when it began.
fn begun(line: &str) -> Option<(String, u64)> {
    let of = |name: &str| {
        let rest = line.split_once(&format!(" {name}="))?.1;
        rest.split_whitespace().next().map(|word| word.trim_matches('"').to_owned())
    };
    Some((of("task")?, of("shop")?.parse().ok()?))
}

async fn fifty_shops(workers: usize) {
    let mut scene = Scene::new().await;
    scene.set("VELA_LEASE_SECONDS", "1.5");
    let _manager = scene.manager().await;
    let mut crew: Vec<Program> = (0..workers).map(|n| scene.worker(&format!("w{n}"))).collect();
    let mut ids: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for shop in 1..=50 {
        let tokens = scene.etsy.add_shop(shop, shop + 5_000);
        ids.insert(shop, scene.etsy.fill(shop, LISTINGS, "active"));
        scene.connect_with(shop, &tokens).await;
    }
    let mut expected = Expected::default();
    for kill in 0..kills() {
        one_each(&scene).await;
        let at = fastrand::usize(..workers);
        crew.swap_remove(at).kill();
        crew.push(scene.worker(&format!("k{kill}")));
        for round in 0..6 {
            let shop = fastrand::u64(1..=50);
            expected.happen(&scene, shop, &ids[&shop], kill * 10 + round).await;
        }
        let before = scene.etsy.calls().len();
        let _ = answered_within(20, async || (scene.etsy.calls().len() > before + 5).then_some(())).await;
    }
    for shop in 1..=50 {
        in_the_end(&format!("shop {shop} is not settled"), &scene, async || {
            let status = scene.status(shop).await;
            if status["status"] == "failed" {
                // Chance may kill one task three times before it got on: somebody looks at it, and says again.
                let tasks = scene.get(&format!("/tasks?shop_id={shop}&state=failed")).await;
                for task in tasks["tasks"].as_array().unwrap() {
                    assert_eq!(task["reason"], "quarantined", "{status}\n{tasks}");
                    let retry = format!("/tasks/{}/retry", task["id"].as_str().unwrap());
                    scene.ask("POST", &retry, None).await;
                }
            }
            (status["status"] == "up_to_date" && status["to_upload"] == 0).then_some(())
        })
        .await;
        scene.post("/tasks", json!({"type": "forced_download", "shop_id": shop})).await;
    }
    for shop in 1..=50 {
        in_the_end("the last look is done", &scene, async || {
            let status = scene.status(shop).await;
            let done = !status["last_success_at"]["forced_download"].is_null();
            (status["status"] == "up_to_date" && done).then_some(())
        })
        .await;
        let by_id = |listings: Vec<Value>| -> BTreeMap<u64, Value> {
            listings.into_iter().map(|one| (one["listing_id"].as_u64().unwrap(), one)).collect()
        };
        let (theirs, ours) = (by_id(scene.etsy.listings(shop)), by_id(scene.listings(shop).await));
        for (at, id) in ids[&shop].iter().enumerate() {
            match ours.get(id) {
                Some(ours) => expected.check(*id, &format!("Thing {at} of {shop}"), ours, theirs.get(id)),
                // It went before anybody here had heard of it.
                None => assert!(expected.deleted.contains(id) && !theirs.contains_key(id), "{id} is missing"),
            }
        }
    }
    assert!(expected.edited.len() >= kills() && !expected.deleted.is_empty(), "something happened meanwhile");
    assert!(claims_without_overlap(&scene).await >= 100, "two downloads of each shop");
    scene.clean();
}

#[tokio::test(flavor = "multi_thread")]
async fn crash_vela_two_workers_on_fifty_shops() {
    fifty_shops(2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn crash_vela_eight_workers_on_fifty_shops() {
    fifty_shops(8).await;
}

/// A shop of 5,000 listings, imported by a program that is killed at random points.
#[tokio::test(flavor = "multi_thread")]
async fn crash_vela_five_thousand_listings() {
    let mut scene = Scene::new().await;
    scene.set("VELA_LEASE_SECONDS", "1.5");
    let mut all = scene.all().await;
    let tokens = scene.etsy.add_shop(1, 5_001);
    scene.etsy.fill(1, 5_000, "active");
    scene.connect_with(1, &tokens).await;
    // More often than crashes without progress are forgiven.
    for _ in 0..4 {
        let before = scene.status(1).await["downloaded"].as_u64().unwrap();
        let further = 100 + fastrand::u64(..1_200);
        let ask = async || {
            let status = scene.status(1).await;
            (status["downloaded"].as_u64().unwrap() >= before + further || status["status"] == "up_to_date")
                .then_some(())
        };
        in_the_end("the import goes on", &scene, ask).await;
        all.kill();
        all = scene.all().await;
        // It goes on where it was, and not from the beginning.
        let after = scene.status(1).await["downloaded"].as_u64().unwrap();
        assert!(after >= before, "{after} after {before}");
    }
    let ask = async || (scene.status(1).await["status"] == "up_to_date").then_some(());
    in_the_end("the import ends", &scene, ask).await;
    let ours: Vec<Value> =
        scene.listings(1).await.into_iter().map(|listing| listing["listing_id"].clone()).collect();
    let theirs: Vec<Value> =
        scene.etsy.listings(1).into_iter().map(|listing| listing["listing_id"].clone()).collect();
    assert_eq!(ours.len(), 5_000);
    assert_eq!(ours, theirs);
    // Each kill costs a few pages that were under way, and a new look at the shop.
    assert!(scene.etsy.calls().len() <= 57 + 4 * 12, "{}", scene.etsy.calls().len());
    scene.clean();
    drop(all);
}

/// A worker that stands still past its lease and wakes again calls Etsy no more, and writes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn crash_vela_a_frozen_worker_is_too_late() {
    let mut scene = Scene::new().await;
    scene.set("VELA_LEASE_SECONDS", "1.5");
    let _manager = scene.manager().await;
    let tokens = scene.etsy.add_shop(1, 5_001);
    let ids = scene.etsy.fill(1, 30, "active");
    let frozen = scene.worker("frozen");
    scene.connect_with(1, &tokens).await;
    scene.until(1, "up_to_date").await;
    scene.etsy.faults.push_ok();
    scene.etsy.faults.push(Fault::HoldHead);
    for id in &ids {
        scene.edit(1, *id, json!({"title": "Sent"})).await;
    }
    let at = scene.etsy.calls().len();
    in_the_end("the upload has begun", &scene, async || {
        (scene.status(1).await["worker"] == "frozen").then_some(())
    })
    .await;
    frozen.signal(libc::SIGSTOP);
    scene.etsy.faults.release();
    let second = scene.worker("second");
    in_the_end("somebody else goes on", &scene, async || {
        let status = scene.status(1).await;
        (status["status"] == "up_to_date" && status["to_upload"] == 0).then_some(())
    })
    .await;
    let done = scene.asked("PATCH");
    assert!(done >= 30 && scene.etsy.calls().len() > at);
    scene.etsy.edit(ids[0], "title", "The seller's");
    frozen.signal(libc::SIGCONT);
    // It has something to do again, like everybody.
    scene.connect(2).await;
    in_the_end("shop 2 is done", &scene, async || {
        (scene.status(2).await["status"] == "up_to_date").then_some(())
    })
    .await;
    second.kill();
    scene.post("/tasks", json!({"type": "forced_download", "shop_id": 1})).await;
    in_the_end("the frozen one works again", &scene, async || {
        (!scene.status(1).await["last_success_at"]["forced_download"].is_null()).then_some(())
    })
    .await;
    assert_eq!(scene.asked("PATCH"), done, "it has sent nothing late");
    assert_eq!(scene.etsy.listing(ids[0]).unwrap()["title"], "The seller's");
    scene.clean();
}

/// An upload that is killed at its call of this number, counted from nought, or at none; answers how many calls it took.
async fn upload_killed_at(kill: Option<(usize, Fault)>) -> usize {
    let mut scene = Scene::new().await;
    scene.short_lease();
    let _manager = scene.manager().await;
    let first = scene.worker("first");
    let tokens = scene.etsy.add_shop(1, 5_001);
    let id = scene.etsy.add_listing(1, NewListing::new("Hat"));
    scene.connect_with(1, &tokens).await;
    scene.until(1, "up_to_date").await;
    first.signal(libc::SIGTERM);
    tokio::task::spawn_blocking(move || first.wait()).await.unwrap();
    let wish = json!({"title": "Cap", "section": "Hats", "price": 15.5, "quantity": 7, "state": "inactive"});
    assert_eq!(scene.edit(1, id, wish).await.0, 202);
    // Two are bought before the upload: three fewer than there are then is what the user means.
    scene.etsy.sell(id, 0, 2);
    let before = scene.etsy.calls().len();
    let made = || scene.etsy.calls().len() - before;
    if let Some((at, fault)) = kill {
        (0..at).for_each(|_| scene.etsy.faults.push_ok());
        // A call that is held at the door is not in Etsy's own log; one whose answer is held is.
        let (heard, done) =
            (scene.etsy.asked().len() + at + 1, at + usize::from(!matches!(fault, Fault::HoldHead)));
        scene.etsy.faults.push(fault);
        let doomed = scene.worker("doomed");
        in_the_end("the call is under way", &scene, async || {
            (scene.etsy.asked().len() == heard && made() == done).then_some(())
        })
        .await;
        doomed.kill();
        assert_eq!((scene.etsy.asked().len(), made()), (heard, done), "it was killed within that call");
        scene.etsy.faults.clear();
        scene.etsy.faults.release();
    }
    let _second = scene.worker("second");
    in_the_end("the changes arrive", &scene, async || {
        let status = scene.status(1).await;
        (status["status"] == "up_to_date" && status["to_upload"] == 0).then_some(())
    })
    .await;
    let calls = made();
    let (theirs, ours) = (scene.etsy.listing(id).unwrap(), scene.listing(1, id).await);
    let price = &theirs["inventory"]["products"][0]["offerings"][0]["price"]["amount"];
    let expected = json!(["Cap", 5, "inactive", 1550]);
    assert_eq!(json!([theirs["title"], theirs["quantity"], theirs["state"], price]), expected);
    assert_eq!(scene.etsy.sections(1), ["Hats"], "made once");
    let expected = json!(["Cap", 5, "inactive", 15.5, "Hats", false, null, []]);
    let fields = ["title", "quantity", "state", "price", "section", "dirty", "error", "conflicts"];
    assert_eq!(json!(fields.map(|name| ours[name].clone())), expected);
    scene.clean();
    calls
}

/// SIGKILL at each call of an upload: before Etsy has heard of it, and when Etsy has done it and nobody has heard the
/// answer. Whoever goes on sends what is missing, and nothing twice.
#[tokio::test(flavor = "multi_thread")]
async fn crash_vela_killed_at_each_call_of_an_upload() {
    let calls = upload_killed_at(None).await;
    assert!(calls >= 8, "sections, listing, section, fields, inventory twice, state twice: {calls}");
    let kills = (0..calls).flat_map(|at| [(at, Fault::HoldHead), (at, Fault::HoldBody { after: 0 })]);
    // A few at a time: each of them mostly waits for a lease to run out.
    let uploads = kills.map(|kill| async { tokio::spawn(upload_killed_at(Some(kill))).await.unwrap() });
    let ended: Vec<usize> = futures::stream::iter(uploads).buffer_unordered(3).collect().await;
    assert_eq!(ended.len(), 2 * calls);
}

/// Etsy has made a change and nobody heard it say so; then the user changes the same field again. What is at Etsy is our own
/// word and not the seller's: there is no conflict to settle.
#[tokio::test(flavor = "multi_thread")]
async fn crash_vela_an_edit_after_a_lost_answer_is_no_conflict() {
    let mut scene = Scene::new().await;
    scene.short_lease();
    let _manager = scene.manager().await;
    let doomed = scene.worker("doomed");
    let tokens = scene.etsy.add_shop(1, 5_001);
    let ids = scene.etsy.fill(1, 2, "active");
    scene.connect_with(1, &tokens).await;
    scene.until(1, "up_to_date").await;
    // Sections and the listing are read; of the change the answer is held.
    (0..2).for_each(|_| scene.etsy.faults.push_ok());
    scene.etsy.faults.push(Fault::HoldBody { after: 0 });
    scene.edit(1, ids[0], json!({"title": "First"})).await;
    in_the_end("the first is there", &scene, async || {
        (scene.etsy.listing(ids[0]).unwrap()["title"] == "First").then_some(())
    })
    .await;
    doomed.kill();
    scene.etsy.faults.release();
    assert_eq!(scene.edit(1, ids[0], json!({"title": "Second"})).await.0, 202);
    // Beside it one where the seller did write meanwhile.
    scene.edit(1, ids[1], json!({"title": "First"})).await;
    scene.etsy.edit(ids[1], "title", "The seller's");
    scene.edit(1, ids[1], json!({"title": "Second"})).await;
    let _second = scene.worker("second");
    in_the_end("the second arrives", &scene, async || {
        let status = scene.status(1).await;
        (status["status"] == "up_to_date" && status["to_upload"] == 0).then_some(())
    })
    .await;
    for (at, conflicts) in [
        (0, json!([])),
        (1, json!([{"field": "title", "base": "Thing 1 of 1", "remote": "The seller's", "local": "Second"}])),
    ] {
        assert_eq!(scene.etsy.listing(ids[at]).unwrap()["title"], "Second");
        assert_eq!(scene.listing(1, ids[at]).await["conflicts"], conflicts);
    }
    scene.clean();
}
