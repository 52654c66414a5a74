//! Who works, looked at while nothing happens: a worker that comes, goes or falls silent is no event, and pages show it.

use std::collections::BTreeMap;

use windlass_engine::core::id::WorkerName;
use windlass_engine::core::query::WorkerStatus;
use windlass_engine::core::time::Time;

/// How often, while somebody listens. Longer than a worker is silent while it lives.
pub(super) const LOOK_MS: u64 = 30_000;

/// The workers at the last look.
#[derive(Default)]
pub(super) struct Crew(BTreeMap<WorkerName, Heard>);

#[derive(PartialEq, Eq)]
struct Heard {
    at: Time,
    /// It has said nothing since the look before.
    silent: bool,
}

impl Crew {
    /// Notes who there is; answers whether somebody came, went, fell silent or was heard of again.
    pub(super) fn changes(&mut self, workers: &[WorkerStatus]) -> bool {
        let heard = |worker: &WorkerStatus| {
            let silent = self.0.get(&worker.name).is_some_and(|before| before.at == worker.seen_at);
            (worker.name.clone(), Heard { at: worker.seen_at, silent })
        };
        let now = Self(workers.iter().map(heard).collect());
        let changed = !self.shape().eq(now.shape());
        *self = now;
        changed
    }

    fn shape(&self) -> impl Iterator<Item = (&WorkerName, bool)> {
        self.0.iter().map(|(name, heard)| (name, heard.silent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(name: &str, seen_ms: i64) -> WorkerStatus {
        WorkerStatus {
            name: WorkerName::new(name).expect("a name"),
            queues: Vec::new(),
            kinds: None,
            slots: 1,
            running: 0,
            version: None,
            host: None,
            started_at: Time::from_ms(0),
            seen_at: Time::from_ms(seen_ms),
        }
    }

    #[test]
    fn who_comes_goes_or_falls_silent_is_noticed() {
        let mut crew = Crew::default();
        assert!(!crew.changes(&[]));
        assert!(crew.changes(&[worker("a", 1)]), "came");
        assert!(!crew.changes(&[worker("a", 2)]));
        assert!(crew.changes(&[worker("a", 2)]), "silent");
        assert!(!crew.changes(&[worker("a", 2)]), "still silent");
        assert!(crew.changes(&[worker("a", 3)]), "heard of again");
        assert!(crew.changes(&[]), "gone");
    }
}
