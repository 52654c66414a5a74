//! Time that jumps.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use uuid::Uuid;
use windlass_core::time::{Clock, Time};

use crate::world::World;

/// A world whose time passes when everybody waits: then it jumps to the moment
/// at which the first of them wakes. Hours take no time, and a test comes out
/// the same each time it is run. Stores take it as their clock, too.
///
/// Workers in this world run on the test's own runtime, which must be of one
/// thread (as `#[tokio::test]` makes it).
#[derive(Clone)]
pub struct TestWorld(Arc<Inner>);

struct Inner {
    began: tokio::time::Instant,
    /// What the wall clock showed then, by the jumps that it has made since.
    wall: Mutex<Time>,
    chance: Mutex<fastrand::Rng>,
}

/// What the boot clock shows when a world begins: its machine runs for an hour.
const BOOT_MS: u64 = 3_600_000;

/// As far as anybody waits: a hundred years.
const FAR_MS: u64 = 100 * 365 * 86_400_000;

impl TestWorld {
    /// A world at 2026-01-01T00:00:00Z, an hour after its machine was started.
    /// Time stands still from here on, until everybody waits.
    ///
    /// # Panics
    ///
    /// Outside of a runtime of one thread, such as `#[tokio::test]` makes.
    pub fn new(seed: u64) -> Self {
        if !stands_still() {
            tokio::time::pause();
        }
        Self::beginning(tokio::time::Instant::now(), seed)
    }

    /// Another machine in the same time: with a wall clock and luck of its own.
    pub fn beside(&self, seed: u64) -> Self {
        Self::beginning(self.0.began, seed)
    }

    fn beginning(began: tokio::time::Instant, seed: u64) -> Self {
        let wall = Mutex::new(Time::from_ms(1_767_225_600_000));
        Self(Arc::new(Inner { began, wall, chance: Mutex::new(fastrand::Rng::with_seed(seed)) }))
    }

    /// Lets time pass; whoever wakes meanwhile acts in between.
    pub async fn advance(&self, time: Duration) {
        self.sleep_ms(u64::try_from(time.as_millis()).unwrap_or(u64::MAX)).await;
    }

    /// Sets the wall clock forwards or back; no time passes.
    pub fn jump_wall(&self, ms: i64) {
        let mut wall = lock(&self.0.wall);
        *wall = wall.plus_ms(ms);
    }

    fn elapsed_ms(&self) -> u64 {
        let elapsed = tokio::time::Instant::now().duration_since(self.0.began);
        u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)
    }
}

impl Clock for TestWorld {
    fn wall(&self) -> Time {
        lock(&self.0.wall).plus_ms(i64::try_from(self.elapsed_ms()).unwrap_or(i64::MAX))
    }

    fn boot_ms(&self) -> u64 {
        BOOT_MS + self.elapsed_ms()
    }

    fn boot_id(&self) -> Uuid {
        Uuid::from_u128(1)
    }
}

#[async_trait]
impl World for TestWorld {
    async fn sleep_ms(&self, ms: u64) {
        let until_ms = self.elapsed_ms().saturating_add(ms.max(1)).min(FAR_MS);
        // The runtime's timer rounds up to whole milliseconds since it was made, and then goes on by whole
        // ones: asked for just after the millisecond before, it wakes at this one and not a millisecond late.
        let until = Duration::from_millis(until_ms) - Duration::from_nanos(999_999);
        tokio::time::sleep_until(self.0.began + until).await;
    }

    fn chance(&self) -> u64 {
        lock(&self.0.chance).u64(..)
    }

    fn runs_in_place(&self) -> bool {
        true
    }
}

/// Whether time stands still already: the runtime does not say, but its clock does.
#[expect(clippy::disallowed_methods, reason = "the machine's clock, to compare the runtime's with")]
fn stands_still() -> bool {
    let (before, real) = (tokio::time::Instant::now(), std::time::Instant::now());
    while real.elapsed() < Duration::from_micros(1) {
        std::hint::spin_loop();
    }
    tokio::time::Instant::now() == before
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
