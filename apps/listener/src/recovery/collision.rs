//! Retry of transactions that collide: optimistic ones, of which the one that comes second is refused as a whole.
//!
//! Two listeners that are asked for one document write the same document, and a heartbeat writes the lock that is the
//! fence. Whoever comes second is tried again at once, and not a whole round of recovery later.

use windlass_engine::world::{World, half_jittered};

use crate::sink::Trouble;

/// How often a transaction is tried, and how long is waited behind the first try; twice as long behind each further one.
const TRIES_MAX: u32 = 6;
const PAUSE_MS: u64 = 20;

/// The tries of one transaction.
pub(super) struct Tries {
    left: u32,
    pause_ms: u64,
}

impl Tries {
    pub(super) fn new() -> Self {
        Self { left: TRIES_MAX - 1, pause_ms: PAUSE_MS }
    }

    /// Whether a transaction that ended so is to be tried again; waits before it says so. Another trouble than a
    /// collision, and a collision behind the last try, is the end.
    pub(super) async fn again(&mut self, world: &dyn World, trouble: &Trouble) -> bool {
        if self.left == 0 || !trouble.is_collision() {
            return false;
        }
        // By chance, since two that collided would otherwise come back together.
        world.sleep_ms(half_jittered(world, self.pause_ms)).await;
        (self.left, self.pause_ms) = (self.left - 1, self.pause_ms * 2);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Stepped;

    /// Tries a transaction that ends with these, one by one; answers how it ended and how many were left.
    async fn tried(mut ends: Vec<Result<(), Trouble>>) -> (Result<(), Trouble>, usize) {
        let (world, mut waits) = Stepped::new();
        let mut tries = Tries::new();
        loop {
            match ends.pop().unwrap() {
                Err(trouble) if waits.passing(tries.again(&world, &trouble)).await => {}
                ended => return (ended, ends.len()),
            }
        }
    }

    #[tokio::test]
    async fn what_collides_is_tried_again_and_nothing_else_is() {
        let raced = || Err(Trouble::Raced);
        let (ended, left) = tried(vec![Ok(()), raced(), raced()]).await;
        assert!(ended.is_ok() && left == 0);
        let (ended, left) = tried(vec![Ok(()), Err(Trouble::Passing("the network".to_owned()))]).await;
        assert!(ended.is_err() && left == 1, "what takes long by itself is left to the next round");
        let (ended, left) = tried(vec![Ok(()), Err(Trouble::Never("poison".to_owned()))]).await;
        assert!(ended.is_err() && left == 1);
        let (ended, left) = tried((0..10).map(|_| raced()).collect()).await;
        assert!(ended.is_err() && left == 10 - TRIES_MAX as usize, "there is an end");
    }
}
