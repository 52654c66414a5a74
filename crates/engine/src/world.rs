//! The world that the engine touches: clocks, waiting, chance. Everything else
//! takes it as an argument; this is the one file that may ask the machine.

use std::collections::BinaryHeap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use rustix::time::ClockId;
use tokio::sync::oneshot;
use uuid::Uuid;
use windlass_core::id::JobId;
use windlass_core::time::{Clock, Time};

/// Clocks, waiting and chance.
#[async_trait]
pub trait World: Clock {
    /// Waits.
    async fn sleep_ms(&self, ms: u64);

    /// A random number.
    fn chance(&self) -> u64;

    /// Whether a worker's loops run on the runtime of whoever started it, and not
    /// on a thread of their own: where time stands still until everybody waits.
    fn runs_in_place(&self) -> bool {
        false
    }
}

/// The machine itself.
#[derive(Debug, Clone)]
pub struct RealWorld {
    boot_id: Uuid,
}

impl RealWorld {
    /// The world of this machine.
    pub fn new() -> Self {
        // Where the kernel does not tell (not Linux), processes on one machine
        // still share this: no two starts of it are told apart, which an
        // embedded store then treats as one long start.
        let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok();
        let boot_id = boot_id.and_then(|text| Uuid::parse_str(text.trim()).ok()).unwrap_or(Uuid::nil());
        Self { boot_id }
    }
}

impl Default for RealWorld {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for RealWorld {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the wall clock")]
    fn wall(&self) -> Time {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let ms = since.map_or(0, |since| since.as_millis());
        Time::from_ms(i64::try_from(ms).unwrap_or(i64::MAX))
    }

    fn boot_ms(&self) -> u64 {
        let now = rustix::time::clock_gettime(ClockId::Boottime);
        now.tv_sec as u64 * 1_000 + now.tv_nsec as u64 / 1_000_000
    }

    fn boot_id(&self) -> Uuid {
        self.boot_id
    }
}

#[async_trait]
impl World for RealWorld {
    #[expect(clippy::disallowed_methods, reason = "the one place that waits")]
    async fn sleep_ms(&self, ms: u64) {
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }

    fn chance(&self) -> u64 {
        fastrand::u64(..)
    }
}

/// Nanoseconds on a clock of this process that only goes forward: for measuring.
pub fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// A new job id: version 7, so that ids made later sort later.
pub fn new_id(world: &dyn World) -> JobId {
    Ids::new(world).make()
}

/// The bits of an id that are left to chance.
const RANDOM_BITS: u32 = 74;

/// Ids of jobs that come together, each above the one before: stores write
/// them to the end of an index, one beside the other.
pub struct Ids<'w> {
    world: &'w dyn World,
    /// The moment, and behind it what is left to chance.
    last: u128,
}

impl<'w> Ids<'w> {
    /// Ids of this moment.
    pub fn new(world: &'w dyn World) -> Self {
        let chance = u128::from(world.chance()) << 64 | u128::from(world.chance());
        let ms = world.wall().ms() as u128;
        Self { world, last: ms << RANDOM_BITS | chance & ((1 << RANDOM_BITS) - 1) }
    }

    /// One more.
    pub fn make(&mut self) -> JobId {
        // Far enough from the one before that nobody guesses it.
        self.last += 1 + u128::from(self.world.chance() >> 24);
        let (ms, random) = (self.last >> RANDOM_BITS, self.last & ((1 << RANDOM_BITS) - 1));
        let bits = ms << 80 | 0x7 << 76 | (random >> 62) << 64 | 0x2 << 62 | random & 0x3fff_ffff_ffff_ffff;
        JobId(Uuid::from_u128(bits))
    }
}

/// `ms`, up to a fifth longer: so that what failed together does not come back together.
pub fn jittered(world: &dyn World, ms: u64) -> u64 {
    ms + ms.checked_div(5).filter(|spread| *spread > 0).map_or(0, |spread| world.chance() % spread)
}

/// Somewhere between half of `ms` and all of it.
pub fn half_jittered(world: &dyn World, ms: u64) -> u64 {
    ms / 2 + world.chance() % (ms / 2).max(1)
}

/// `ms`, up to a fifth shorter. For long rests: enough to part processes that were started together, and what they cost
/// in any one minute does not hang on chance.
pub fn barely_jittered(world: &dyn World, ms: u64) -> u64 {
    ms - world.chance() % (ms / 5).max(1)
}

/// A world for tests: time passes only when [`SimWorld::advance`] says so, and
/// chance repeats itself. Stores take it as their clock, too.
#[derive(Clone)]
pub struct SimWorld(Arc<Mutex<Sim>>);

struct Sim {
    wall: Time,
    boot_ms: u64,
    chance: fastrand::Rng,
    sleepers: BinaryHeap<Sleeper>,
}

struct Sleeper {
    until_ms: u64,
    wake: oneshot::Sender<()>,
}

impl SimWorld {
    /// A world at 2026-01-01T00:00:00Z, an hour after its machine was started.
    pub fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(Sim {
            wall: Time::from_ms(1_767_225_600_000),
            boot_ms: 3_600_000,
            chance: fastrand::Rng::with_seed(seed),
            sleepers: BinaryHeap::new(),
        })))
    }

    /// Lets time pass and wakes who has slept long enough.
    pub fn advance(&self, ms: u64) {
        let mut sim = self.lock();
        sim.wall = sim.wall.plus_ms(i64::try_from(ms).unwrap_or(i64::MAX));
        sim.boot_ms += ms;
        while sim.sleepers.peek().is_some_and(|sleeper| sleeper.until_ms <= sim.boot_ms) {
            if let Some(sleeper) = sim.sleepers.pop() {
                // One who no longer waits has gone another way.
                let _ = sleeper.wake.send(());
            }
        }
    }

    /// Lets time pass to the next moment at which somebody wakes, but at most
    /// `ms_max`, and waits a moment for those who woke to sleep again.
    ///
    /// What runs meanwhile runs on real threads, so the wait is bounded and not
    /// exact: a test must not depend on one step being enough.
    #[expect(clippy::disallowed_methods, reason = "real threads need real time to act")]
    pub async fn step(&self, ms_max: u64) {
        const LOOKS_MAX: u32 = 30;
        let (sleepers, ms) = {
            let mut sim = self.lock();
            // Those who went another way do not wait any more.
            sim.sleepers.retain(|sleeper| !sleeper.wake.is_closed());
            let next = sim.sleepers.peek().map_or(u64::MAX, |sleeper| sleeper.until_ms);
            (sim.sleepers.len(), next.saturating_sub(sim.boot_ms).clamp(1, ms_max))
        };
        self.advance(ms);
        for _ in 0..LOOKS_MAX {
            tokio::time::sleep(Duration::from_micros(100)).await;
            if self.lock().sleepers.len() >= sleepers {
                return;
            }
        }
    }

    /// Sets the wall clock forwards or back; no time passes.
    pub fn jump_wall(&self, ms: i64) {
        let mut sim = self.lock();
        sim.wall = sim.wall.plus_ms(ms);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Sim> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for SimWorld {
    fn wall(&self) -> Time {
        self.lock().wall
    }

    fn boot_ms(&self) -> u64 {
        self.lock().boot_ms
    }

    fn boot_id(&self) -> Uuid {
        Uuid::from_u128(1)
    }
}

#[async_trait]
impl World for SimWorld {
    async fn sleep_ms(&self, ms: u64) {
        let woken = {
            let mut sim = self.lock();
            let (wake, woken) = oneshot::channel();
            let until_ms = sim.boot_ms + ms.max(1);
            sim.sleepers.push(Sleeper { until_ms, wake });
            woken
        };
        if woken.await.is_err() {
            // The world has ended: nobody will ever wake us.
            std::future::pending::<()>().await;
        }
    }

    fn chance(&self) -> u64 {
        self.lock().chance.u64(..)
    }
}

impl PartialEq for Sleeper {
    fn eq(&self, other: &Self) -> bool {
        self.until_ms == other.until_ms
    }
}

impl Eq for Sleeper {}

impl PartialOrd for Sleeper {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Sleeper {
    /// The earliest is the greatest, since the heap gives the greatest first.
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        other.until_ms.cmp(&self.until_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_version_7_and_in_order() {
        let world = SimWorld::new(1);
        let first = new_id(&world);
        world.advance(1);
        let second = new_id(&world);
        assert!(first < second);
        for id in [first, second] {
            assert_eq!(id.0.get_version_num(), 7);
            assert_eq!(id.0.get_variant(), uuid::Variant::RFC4122);
        }
    }

    #[test]
    fn ids_of_one_call_are_in_order() {
        let world = SimWorld::new(1);
        let mut ids = Ids::new(&world);
        let many: Vec<JobId> = std::iter::repeat_with(|| ids.make()).take(10_000).collect();
        assert!(many.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(many.iter().all(|id| id.0.get_version_num() == 7));
        assert!(many.iter().all(|id| id.0.get_variant() == uuid::Variant::RFC4122));
        let ms = world.wall().ms() as u128;
        assert!(many.iter().all(|id| (id.0.as_u128() >> 80).abs_diff(ms) <= 1));
    }

    #[tokio::test]
    async fn sleepers_wake_in_time() {
        let world = SimWorld::new(1);
        let sleeper = tokio::spawn({
            let world = world.clone();
            async move { world.sleep_ms(100).await }
        });
        while world.lock().sleepers.is_empty() {
            tokio::task::yield_now().await;
        }
        world.advance(99);
        tokio::task::yield_now().await;
        assert!(!sleeper.is_finished());
        world.advance(1);
        sleeper.await.unwrap();
    }
}
