//! Gates: all ready jobs of one queue, kind and set of budgets are held back by
//! the same things, so a claim looks at the first of each.

use windlass_core::job::JobSpec;

/// The gate of a job: a hash that never changes, since it is stored. Two that
/// collide cost a claim time and nothing else: the job's own queue, kind and
/// budgets are what is checked.
pub fn of(spec: &JobSpec) -> i64 {
    let mut hash = Fnv(0xcbf2_9ce4_8422_2325);
    hash.field(spec.queue.as_str());
    hash.field(spec.kind.as_str());
    for budget in &spec.budgets {
        hash.field(budget.as_str());
    }
    // Low bits of FNV are the better mixed ones; all 64 are kept.
    hash.0.cast_signed()
}

/// FNV-1a, 64 bits.
struct Fnv(u64);

impl Fnv {
    /// Names hold no control characters, so a NUL parts them.
    fn field(&mut self, text: &str) {
        for byte in text.bytes().chain([0]) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_core::id::{BudgetName, Kind, QueueName};
    use windlass_core::json::Json;

    fn spec(queue: &str, kind: &str, budgets: &[&str]) -> JobSpec {
        let mut spec = JobSpec::new(Kind::new(kind).unwrap(), QueueName::new(queue).unwrap(), Json::null());
        spec.budgets = budgets.iter().map(|name| BudgetName::new(name).unwrap()).collect();
        spec
    }

    /// The number is stored: with another one, jobs of one sort would stand at two gates.
    #[test]
    fn a_gate_never_changes() {
        assert_eq!(of(&spec("default", "mail", &[])), 2_903_981_690_631_753_339);
        assert_ne!(of(&spec("a", "bc", &[])), of(&spec("ab", "c", &[])));
        assert_ne!(of(&spec("a", "b", &["c"])), of(&spec("a", "b", &["c", "d"])));
    }
}
