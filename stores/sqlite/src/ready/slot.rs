//! Slots: the key of a queue as a number, so that lines are found by numbers.

use uuid::Uuid;

/// Made for this and for nothing else.
const NAMESPACE: Uuid = Uuid::from_u128(0x6b1f_5a0c_2d5e_4e0b_9c64_7d1f_3f0a_82e6);

/// The slot of a key: a hash that never changes, since it is stored. Of a hash that nobody can aim at another's key;
/// two keys that had the same by chance would take turns, and nothing else.
pub fn of(queue: &str, key: &str) -> i64 {
    // Names hold no control characters, so a NUL parts them.
    let mut name = Vec::with_capacity(queue.len() + 1 + key.len());
    name.extend_from_slice(queue.as_bytes());
    name.push(0);
    name.extend_from_slice(key.as_bytes());
    let (high, low) = Uuid::new_v5(&NAMESPACE, &name).as_u64_pair();
    // A few bits of each half say that it is a UUID; those of the other half make up for them.
    (high ^ low.rotate_left(32)).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number is stored: with another one, jobs of one key would stand in two lines.
    #[test]
    fn a_slot_never_changes() {
        assert_eq!(of("default", "shop"), 7_849_315_497_802_297_040);
        assert_ne!(of("a", "bc"), of("ab", "c"));
        assert_ne!(of("a", "b"), of("b", "a"));
    }
}
