//! Who is refused waits for that answer: guessing is slow. A bulkhead: only so many wait at once, so that those who
//! guess take no connections and no memory from those who know.

use tokio::sync::Semaphore;
use windlass_engine::world::World;

/// Refused callers who wait for their answer.
pub struct Refusals(Semaphore);

/// As many wait as may: this one is answered at once, without having been told whether it guessed well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many refused callers wait")]
pub struct TooMany;

impl Refusals {
    /// How many wait at the same time.
    pub const WAITING_MAX: usize = 64;
    /// When one who was not let wait should come again, in seconds.
    pub const AGAIN_S: u32 = 5;

    /// Waits as long as every refused caller waits.
    pub async fn wait(&self, world: &dyn World, ms: u64) -> Result<(), TooMany> {
        let Ok(_waiting) = self.0.try_acquire() else { return Err(TooMany) };
        world.sleep_ms(ms).await;
        Ok(())
    }
}

impl Default for Refusals {
    fn default() -> Self {
        Self(Semaphore::new(Self::WAITING_MAX))
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use futures::future::join_all;
    use windlass_engine::world::SimWorld;

    use super::*;

    /// Fault 69: so many wait and no more, those behind them do not wait at all, and whoever goes makes room.
    #[tokio::test]
    async fn fault_69_only_so_many_wait() {
        let (world, refusals) = (SimWorld::new(1), Refusals::default());
        let mut waiting: Vec<_> =
            (0..Refusals::WAITING_MAX).map(|_| Box::pin(refusals.wait(&world, 250))).collect();
        assert!(waiting.iter_mut().all(|one| one.as_mut().now_or_never().is_none()));
        assert_eq!(refusals.wait(&world, 250).now_or_never(), Some(Err(TooMany)));
        drop(waiting.pop());
        let last = Box::pin(refusals.wait(&world, 250));
        waiting.push(last);
        assert!(waiting.last_mut().unwrap().as_mut().now_or_never().is_none(), "one has hung up");
        world.advance(250);
        assert!(join_all(waiting).await.iter().all(Result::is_ok));
    }
}
