//! A clock that only moves when a test says so.

use std::sync::{Arc, Mutex, PoisonError};

use uuid::Uuid;
use windlass_core::time::{Clock, Time};

/// A clock in the hands of a test. Clones show the same time.
#[derive(Debug, Clone)]
pub struct FakeClock(Arc<Mutex<Readings>>);

#[derive(Debug, Clone, Copy)]
struct Readings {
    wall: Time,
    boot_ms: u64,
    boot_id: u128,
}

impl Default for FakeClock {
    /// 2026-01-01T00:00:00Z, an hour after the machine was started.
    fn default() -> Self {
        let wall = Time::from_ms(1_767_225_600_000);
        Self(Arc::new(Mutex::new(Readings { wall, boot_ms: 3_600_000, boot_id: 1 })))
    }
}

impl FakeClock {
    /// Lets time pass.
    pub fn advance(&self, ms: u64) {
        self.change(|r| {
            r.wall = r.wall.plus_ms(ms as i64);
            r.boot_ms += ms;
        });
    }

    /// Sets the wall clock forwards or back, as an operator or NTP does. No time passes.
    pub fn jump_wall(&self, ms: i64) {
        self.change(|r| r.wall = r.wall.plus_ms(ms));
    }

    /// Starts the machine anew: the time since its start begins at 0.
    pub fn reboot(&self) {
        self.change(|r| {
            r.boot_id += 1;
            r.boot_ms = 0;
        });
    }

    fn change(&self, change: impl FnOnce(&mut Readings)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn read(&self) -> Readings {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for FakeClock {
    fn wall(&self) -> Time {
        self.read().wall
    }

    fn boot_ms(&self) -> u64 {
        self.read().boot_ms
    }

    fn boot_id(&self) -> Uuid {
        Uuid::from_u128(self.read().boot_id)
    }
}
