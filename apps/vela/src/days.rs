//! Thirty hours of syncing in no time: workers, keys, ledger and store as they are, by a clock that jumps, against an Etsy
//! that counts by the same clock. What Etsy wrote down is what counts.

use std::sync::Arc;
use std::time::Duration;

use url::Url;
use windlass_engine::core::time::Clock;
use windlass_engine::testing::TestBench;
use windlass_engine::world::World;
use windlass_engine::{Housekeeper, Ladder, Worker};
use windlass_outside::secret::Secret;
use windlass_standins::{Etsy, EtsyTokens};

use crate::jobs::TaskHandler;
use crate::office::{NewConnection, Office};
use crate::settings::{EtsySettings, QuotaScope, TaskSettings};
use crate::sync::Sync;
use crate::task::{QUEUE, TaskKind};
use crate::tasks::Tasks;

const PER_SECOND: u32 = 4;
const PER_DAY: u32 = 150;
const SHOPS: u64 = 4;
const HOUR: Duration = Duration::from_secs(3_600);
const SECOND_MS: u64 = 1_000;
const DAY_MS: u64 = 86_400_000;

fn settings(etsy: &Etsy, scope: QuotaScope) -> (EtsySettings, TaskSettings) {
    let ladder = |text: &str| text.parse::<Ladder>().unwrap();
    let tasks = TaskSettings {
        ladder_upload: ladder("3m 20m 3h 24h"),
        ladder_regular: ladder("20m 3h"),
        lease: Duration::from_secs(30),
        interval: "30m".parse().unwrap(),
        per_second: None,
        per_day: None,
    };
    let etsy = EtsySettings {
        keystring: etsy.keystring(),
        shared_secret: Secret::new(etsy.shared_secret()),
        base: Url::parse(&etsy.url()).unwrap(),
        token_url: Url::parse(&etsy.token_url()).unwrap(),
        scope,
        per_second: Some(PER_SECOND),
        per_day: Some(PER_DAY),
        reserved_percent: 30,
        timeout: Duration::from_secs(10),
    };
    (etsy, tasks)
}

/// A worker as a process of its own would have it: what it knows of limits is in the store alone.
fn worker(bench: &TestBench, seed: u64, etsy: &EtsySettings, tasks: &TaskSettings) -> Worker {
    let world: Arc<dyn World> = Arc::new(bench.world.beside(seed));
    let sync = Arc::new(Sync::new(bench.store.clone(), world.clone(), etsy, tasks).unwrap());
    let worker = Worker::new(bench.store.clone()).in_world(world).name(&format!("w{seed}"));
    let worker = worker.queues([QUEUE]).slots(4).housekeeping(false);
    TaskKind::ALL
        .into_iter()
        .fold(worker, |worker, kind| worker.handle_kind(kind.as_str(), TaskHandler::new(kind, sync.clone())))
}

async fn connect(office: &Office, shop: u64, tokens: EtsyTokens, bench: &TestBench) {
    let new = NewConnection {
        shop_id: shop,
        user_id: shop,
        access_token: tokens.access,
        refresh_token: tokens.refresh,
        expires_at: bench.world.wall().plus_ms(3_600_000),
        interval: None,
    };
    assert!(office.connect(new).await.unwrap());
}

/// Thirty hours with three workers, of which one is ended in the middle of its work every hour and another one comes.
async fn thirty_hours(scope: QuotaScope) -> Etsy {
    let bench = TestBench::new();
    let clock = bench.world.clone();
    let etsy = Etsy::start_by(Arc::new(move || clock.wall().ms().cast_unsigned())).await;
    etsy.limit(PER_SECOND, PER_DAY, scope == QuotaScope::Token);
    let (etsy_settings, task_settings) = settings(&etsy, scope);
    let world: Arc<dyn World> = Arc::new(bench.world.clone());
    let board = Tasks::new(bench.client.clone(), world.clone(), task_settings.clone());
    board.prepare().await.unwrap();
    let office = Office::new(bench.client.clone(), board.clone());
    for shop in 1..=SHOPS {
        let tokens = etsy.add_shop(shop, shop);
        etsy.fill(shop, 3, "active");
        connect(&office, shop, tokens, &bench).await;
    }
    let house = Housekeeper::new(bench.store.clone()).in_world(world);
    let house = tokio::spawn(async move { house.run().await });
    let start = |seed: u64| {
        let worker = worker(&bench, seed, &etsy_settings, &task_settings);
        tokio::spawn(async move { worker.run_until(std::future::pending()).await.map(drop) })
    };
    let mut crew: Vec<_> = (1..=3).map(start).collect();
    for hour in 0..30 {
        bench.world.advance(HOUR).await;
        // Somebody asks for something that all of the day may be used for.
        board.ask(TaskKind::ForcedDownload, 1 + hour % SHOPS).await.unwrap();
        bench.world.advance(Duration::from_millis(hour * 37)).await;
        crew.remove(0).abort();
        crew.push(start(10 + hour));
    }
    crew.iter().for_each(|worker| worker.abort());
    house.abort();
    etsy
}

#[tokio::test]
async fn no_second_and_no_day_holds_more_than_the_app_may() {
    let etsy = thirty_hours(QuotaScope::App).await;
    let (calls, seconds, days) =
        (etsy.calls().len(), etsy.most_within(SECOND_MS, false), etsy.most_within(DAY_MS, false));
    assert_eq!(etsy.turned_away(), 0, "{calls} calls");
    assert!(seconds <= PER_SECOND as usize && days <= PER_DAY as usize, "{seconds} and {days}");
    // There is more to do than may be done: nearly all of a day is used, and of the hours after it what becomes free.
    assert!(calls >= PER_DAY as usize * 11 / 10, "{calls} calls were made");
    assert_eq!(etsy.violations(), Vec::<String>::new());
}

#[tokio::test]
async fn with_the_scope_of_a_token_each_shop_has_a_day_of_its_own() {
    let etsy = thirty_hours(QuotaScope::Token).await;
    let calls = etsy.calls().len();
    assert_eq!(etsy.turned_away(), 0, "{calls} calls");
    assert!(etsy.most_within(SECOND_MS, true) <= PER_SECOND as usize);
    assert!(etsy.most_within(DAY_MS, true) <= PER_DAY as usize);
    assert!(etsy.most_within(DAY_MS, false) > PER_DAY as usize, "they did not share");
}
