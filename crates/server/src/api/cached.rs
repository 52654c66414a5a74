//! A cache of one answer: what is dear to find out is looked for now and then, once for everybody.

use std::sync::Arc;

use tokio::sync::Mutex;
use windlass_engine::world::World;

/// An answer that took long is good for this many times as long, so that finding it out is never more than a small part
/// of what the server does.
const SHARE: u64 = 20;

/// The newest answer, given again for a while. Those who ask while it is made wait for it.
pub(crate) struct Cached<T> {
    good_ms: u64,
    /// Until when it is good, and what it is.
    newest: Mutex<Option<(u64, Arc<T>)>>,
}

impl<T> Cached<T> {
    /// For answers that are good for so long, at least.
    pub(crate) fn new(good_ms: u64) -> Self {
        Self { good_ms, newest: Mutex::new(None) }
    }

    /// The newest answer, or what `make` finds out. What fails is not remembered.
    pub(crate) async fn get<E>(
        &self,
        world: &dyn World,
        make: impl Future<Output = Result<T, E>>,
    ) -> Result<Arc<T>, E> {
        let mut newest = self.newest.lock().await;
        let now_ms = world.boot_ms();
        if let Some((until_ms, answer)) = &*newest
            && now_ms < *until_ms
        {
            return Ok(answer.clone());
        }
        let answer = Arc::new(make.await?);
        let took_ms = world.boot_ms().saturating_sub(now_ms);
        let good_ms = self.good_ms.max(took_ms * SHARE);
        *newest = Some((world.boot_ms() + good_ms, answer.clone()));
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use windlass_engine::world::SimWorld;

    use super::*;

    #[tokio::test]
    async fn an_answer_is_made_once_while_it_is_good() {
        let world = SimWorld::new(1);
        let cached = Cached::new(1_000);
        let made = AtomicU32::new(0);
        let ask = async |fails: bool| {
            cached
                .get(&world, async {
                    let number = made.fetch_add(1, Ordering::Relaxed) + 1;
                    if fails { Err(number) } else { Ok(number) }
                })
                .await
                .map(|answer| *answer)
        };
        assert_eq!(ask(true).await, Err(1), "nothing is remembered of it");
        assert_eq!(ask(false).await, Ok(2));
        world.advance(999);
        assert_eq!(ask(true).await, Ok(2));
        world.advance(1);
        assert_eq!(ask(false).await, Ok(3));
    }

    #[tokio::test]
    async fn an_answer_that_took_long_is_good_for_longer() {
        let world = SimWorld::new(1);
        let cached = Cached::new(1_000);
        let ask = async |answer: u32| {
            let slow = async {
                world.advance(300);
                Ok::<_, ()>(answer)
            };
            cached.get(&world, slow).await.map(|answer| *answer)
        };
        assert_eq!(ask(1).await, Ok(1));
        world.advance(300 * SHARE - 1);
        assert_eq!(ask(2).await, Ok(1));
        world.advance(1);
        assert_eq!(ask(2).await, Ok(2));
    }
}
