//! The clock of this machine: an embedded store has no other.

use rustix::time::{ClockId, clock_gettime};
use uuid::Uuid;
use windlass_core::time::{Clock, Time};

/// The machine's clocks.
#[derive(Debug, Clone, Copy)]
pub struct MachineClock {
    boot_id: Uuid,
}

impl MachineClock {
    /// The clock of this machine.
    pub fn new() -> Self {
        // Where the kernel does not tell, all its starts are taken for one long one.
        let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok();
        let boot_id = boot_id.and_then(|text| Uuid::parse_str(text.trim()).ok()).unwrap_or(Uuid::nil());
        Self { boot_id }
    }
}

fn ms(clock: ClockId) -> i64 {
    let now = clock_gettime(clock);
    now.tv_sec.saturating_mul(1_000).saturating_add(now.tv_nsec / 1_000_000)
}

impl Clock for MachineClock {
    fn wall(&self) -> Time {
        Time::from_ms(ms(ClockId::Realtime))
    }

    fn boot_ms(&self) -> u64 {
        ms(ClockId::Boottime).unsigned_abs()
    }

    fn boot_id(&self) -> Uuid {
        self.boot_id
    }
}
