//! The store's time, asked for once and carried on by this machine's own clock.

use std::sync::Arc;

use windlass_engine::StoreError;
use windlass_engine::core::store::Store;
use windlass_engine::world::World;

/// What the time is by the store's clock.
#[derive(Clone)]
pub struct StoreTime {
    world: Arc<dyn World>,
    asked_ms: i64,
    boot_ms: u64,
}

impl StoreTime {
    /// Asks the store.
    pub async fn ask(store: &dyn Store, world: &Arc<dyn World>) -> Result<Self, StoreError> {
        let asked_ms = store.now().await?.ms();
        Ok(Self { world: world.clone(), asked_ms, boot_ms: world.boot_ms() })
    }

    /// Milliseconds since 1970.
    pub fn ms(&self) -> i64 {
        let passed = self.world.boot_ms().saturating_sub(self.boot_ms);
        self.asked_ms.saturating_add(i64::try_from(passed).unwrap_or(i64::MAX))
    }
}
