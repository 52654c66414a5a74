//! A cache of one answer: what is dear to find out is looked for now and then, once for everybody.

use std::sync::Arc;

use tokio::sync::Mutex;
use windlass_engine::world::World;

/// The newest answer, given again for a while. Those who ask while it is made wait for it.
pub(crate) struct Cached<T> {
    good_ms: u64,
    newest: Mutex<Option<(u64, Arc<T>)>>,
}

impl<T> Cached<T> {
    /// For answers that are good for so long.
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
        if let Some((at_ms, answer)) = &*newest
            && now_ms.saturating_sub(*at_ms) < self.good_ms
        {
            return Ok(answer.clone());
        }
        let answer = Arc::new(make.await?);
        *newest = Some((world.boot_ms(), answer.clone()));
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
}
