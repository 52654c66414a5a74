//! The gate before Etsy: every call of every worker passes the ledger.
//!
//! Wishes of one process that come together share one write of the ledger
//! (coalescing); processes keep out of each other's way by its revision. Time
//! is the store's.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use windlass_engine::world::World;
use windlass_engine::{BudgetName, Client, Shelf, ShelfError, StoreError, Time};
use windlass_outside::etsy::Quota;

use crate::ledger::{Granted, Ledger, Terms};
use crate::settings::{EtsySettings, QuotaScope};
use crate::shop::ShopId;

/// A grant is good for this long: whoever was frozen behind it asks again.
const FRESH_MS: u64 = 1_000;

/// The gate.
pub struct Gate {
    client: Client,
    shelf: Shelf<Ledger>,
    world: Arc<dyn World>,
    scope: QuotaScope,
    per_second: Option<u32>,
    per_day: Option<u32>,
    reserved_percent: u32,
    total_ms: u64,
    lanes: Mutex<HashMap<String, Arc<Lane>>>,
}

/// A call that was granted.
#[derive(Debug)]
pub struct Permit {
    id: u64,
    lane: String,
    /// When it was asked for, by the clock of this machine.
    asked_ms: u64,
}

/// What is counted together.
struct Lane {
    name: String,
    /// Who has it writes the ledger for all who wait.
    turn: tokio::sync::Mutex<()>,
    inbox: Mutex<Inbox>,
    /// Whether there are limits, as far as this process knows. Without any nobody writes.
    is_limited: AtomicBool,
}

#[derive(Default)]
struct Inbox {
    wishes: Vec<Wish>,
    news: Vec<News>,
}

struct Wish {
    id: u64,
    terms: Terms,
    answer: oneshot::Sender<Granted>,
}

/// What the ledger is told.
#[derive(Clone, Copy)]
enum News {
    Ended { id: u64, told: Quota },
    CoolDown { ms: u64 },
}

impl Gate {
    /// A gate as the settings say.
    pub fn new(client: Client, shelf: Shelf<Ledger>, world: Arc<dyn World>, settings: &EtsySettings) -> Self {
        let total_ms = u64::try_from(settings.timeout.as_millis()).unwrap_or(u64::MAX) + FRESH_MS;
        Self {
            client,
            shelf,
            world,
            scope: settings.scope,
            per_second: settings.per_second,
            per_day: settings.per_day,
            reserved_percent: settings.reserved_percent,
            total_ms,
            lanes: Mutex::default(),
        }
    }

    /// Asks for a call. What it is asked for by users may use the whole day.
    pub async fn ask(&self, shop: ShopId, by_user: bool) -> Result<Result<Permit, u64>, ShelfError> {
        let lane = self.lane(shop);
        let (id, asked_ms) = (self.world.chance() >> 1, self.world.boot_ms());
        let permit = Permit { id, lane: lane.name.clone(), asked_ms };
        if !lane.is_limited.load(Ordering::Relaxed) {
            return Ok(Ok(permit));
        }
        let reserved_percent = if by_user { 0 } else { self.reserved_percent };
        let (answer, mut answered) = oneshot::channel();
        let wish = Wish { id, terms: Terms { total_ms: self.total_ms, reserved_percent }, answer };
        lock(&lane.inbox).wishes.push(wish);
        self.take_turn(&lane).await?;
        Ok(match answered.try_recv() {
            Ok(Granted::Now) => Ok(permit),
            Ok(Granted::In(ms)) => Err(ms),
            // Whoever had the turn with this wish in it failed: ask again.
            Err(_) => Err(1),
        })
    }

    /// Whether a grant is still good.
    pub fn is_fresh(&self, permit: &Permit) -> bool {
        self.world.boot_ms().saturating_sub(permit.asked_ms) < FRESH_MS
    }

    /// A call has ended.
    pub async fn ended(&self, permit: Permit, told: Quota) -> Result<(), ShelfError> {
        let Some(lane) = lock(&self.lanes).get(&permit.lane).cloned() else { return Ok(()) };
        if told.per_second.is_some() || told.per_day.is_some() {
            lane.is_limited.store(true, Ordering::Relaxed);
        }
        if !lane.is_limited.load(Ordering::Relaxed) {
            return Ok(());
        }
        lock(&lane.inbox).news.push(News::Ended { id: permit.id, told });
        self.take_turn(&lane).await
    }

    /// Nobody asks for a while.
    pub async fn cool_down(&self, shop: ShopId, ms: u64) -> Result<(), ShelfError> {
        let lane = self.lane(shop);
        lane.is_limited.store(true, Ordering::Relaxed);
        lock(&lane.inbox).news.push(News::CoolDown { ms });
        self.take_turn(&lane).await
    }

    fn lane(&self, shop: ShopId) -> Arc<Lane> {
        let name = match self.scope {
            QuotaScope::App => "app".to_owned(),
            QuotaScope::Token => format!("shop-{shop}"),
        };
        let mut lanes = lock(&self.lanes);
        let lane = lanes.entry(name.clone()).or_insert_with(|| {
            let is_limited = self.per_second.is_some() || self.per_day.is_some();
            Arc::new(Lane {
                name,
                turn: tokio::sync::Mutex::default(),
                inbox: Mutex::default(),
                is_limited: AtomicBool::new(is_limited),
            })
        });
        lane.clone()
    }

    /// Writes what has gathered, unless somebody has done it meanwhile.
    async fn take_turn(&self, lane: &Lane) -> Result<(), ShelfError> {
        let _turn = lane.turn.lock().await;
        let Inbox { wishes, news } = std::mem::take(&mut *lock(&lane.inbox));
        if wishes.is_empty() && news.is_empty() {
            return Ok(());
        }
        match self.write(lane, &wishes, &news).await {
            Ok(granted) => {
                for (wish, granted) in wishes.into_iter().zip(granted) {
                    // One that was given up has a flight that ends at its time limit.
                    let _ = wish.answer.send(granted);
                }
                Ok(())
            }
            Err(error) => {
                lock(&lane.inbox).news.splice(0..0, news);
                Err(error)
            }
        }
    }

    async fn write(&self, lane: &Lane, wishes: &[Wish], news: &[News]) -> Result<Vec<Granted>, ShelfError> {
        let name = BudgetName::new(format!("etsy-{}", lane.name)).map_err(StoreError::from)?;
        let mut granted = Vec::new();
        let now: Time = self.client.store().now().await?;
        let change = |had: Option<windlass_engine::Entry<Ledger>>| {
            let fresh = || Ledger::new(name.clone(), self.per_second, self.per_day);
            let mut ledger = had.map_or_else(fresh, |had| had.value);
            for news in news {
                match *news {
                    News::Ended { id, told } => ledger.ended(id, told, now),
                    News::CoolDown { ms } => ledger.cool_down(ms, now),
                }
            }
            granted = wishes.iter().map(|wish| ledger.grant(wish.id, wish.terms, now)).collect();
            ledger
        };
        self.shelf.update(&lane.name, change).await?;
        Ok(granted)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use url::Url;
    use windlass_engine::testing::TestBench;
    use windlass_outside::secret::Secret;

    use super::*;
    use crate::book::Shelves;

    const PER_SECOND: u32 = 4;
    const PER_DAY: u32 = 600;

    fn settings() -> EtsySettings {
        let url = Url::parse("https://etsy.example").unwrap();
        EtsySettings {
            keystring: String::new(),
            shared_secret: Secret::new(String::new()),
            base: url.clone(),
            token_url: url,
            scope: QuotaScope::App,
            per_second: Some(PER_SECOND),
            per_day: Some(PER_DAY),
            reserved_percent: 30,
            timeout: Duration::from_secs(9),
        }
    }

    /// Three processes with many callers, for two days by a clock that jumps: calls take up to their time limit,
    /// arrive at any moment within it, and of some nobody ever hears the end. No second and no 24 hours hold more
    /// of them, as Etsy counts, than they may; and what may be used is used.
    #[tokio::test]
    async fn no_window_holds_more_than_it_may_over_all_processes() {
        let bench = TestBench::new();
        let arrivals: Arc<Mutex<Vec<i64>>> = Arc::default();
        let until = windlass_engine::core::time::Clock::wall(&bench.world).plus_ms(2 * 86_400_000);
        let callers = (0..12).map(|n| {
            let (bench, arrivals) = (bench.clone(), arrivals.clone());
            let world: Arc<dyn World> = Arc::new(bench.world.beside(n));
            let client = Client::in_world(bench.store.clone(), world.clone());
            // Four callers to a process.
            let gate = Gate::new(client.clone(), Shelves::of(&client).ledgers, world.clone(), &settings());
            tokio::spawn(async move {
                while world.wall() < until {
                    match gate.ask(n, n % 3 != 0).await.unwrap() {
                        Err(ms) => world.sleep_ms(ms).await,
                        Ok(permit) => {
                            let takes = world.chance() % 9_000;
                            let arrives = if takes == 0 { 0 } else { world.chance() % takes };
                            world.sleep_ms(arrives).await;
                            lock(&arrivals).push(world.wall().ms());
                            world.sleep_ms(takes - arrives).await;
                            if !world.chance().is_multiple_of(10) {
                                gate.ended(permit, Quota::default()).await.unwrap();
                            }
                        }
                    }
                }
            })
        });
        for caller in callers.collect::<Vec<_>>() {
            caller.await.unwrap();
        }
        let mut arrivals = std::mem::take(&mut *lock(&arrivals));
        arrivals.sort_unstable();
        let most = |ms: i64| {
            let mut from = 0;
            let counts = (0..arrivals.len()).map(|to| {
                while arrivals[to] - arrivals[from] >= ms {
                    from += 1;
                }
                to - from + 1
            });
            counts.max().unwrap_or(0)
        };
        assert!(most(1_000) <= PER_SECOND as usize, "{}", most(1_000));
        assert!(most(86_400_000) <= PER_DAY as usize, "{}", most(86_400_000));
        assert!(arrivals.len() >= 2 * PER_DAY as usize * 95 / 100, "{} were made", arrivals.len());
        let days: BTreeSet<i64> = arrivals.iter().map(|at| at / 86_400_000).collect();
        assert!(days.len() >= 2);
    }
}
