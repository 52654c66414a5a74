//! Pairs that fit, and batches of them that fit one call.

use serde_json::json;

/// The longest key.
pub const KEY_BYTES_MAX: usize = 512;
/// The largest value.
pub const VALUE_BYTES_MAX: usize = 25 * 1024 * 1024;
/// The shortest time that a pair can be kept for.
pub const TTL_SECONDS_MIN: u64 = 60;
/// How many pairs one call may write.
pub const BULK_PAIRS_MAX: usize = 10_000;
/// How large one call may be.
pub const BULK_BYTES_MAX: usize = 100_000_000;

/// Why a pair cannot be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// Empty, a dot, two dots, or too long.
    #[error("a key has 1 to 512 bytes and is neither . nor ..")]
    Key,
    /// Too large.
    #[error("a value has at most 25 MiB")]
    Value,
    /// Too short.
    #[error("a pair is kept for at least 60 seconds")]
    Ttl,
}

/// A key and its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    key: String,
    value: String,
    ttl_seconds: Option<u64>,
}

impl Pair {
    /// A pair, kept for so many seconds or for ever.
    pub fn new(
        key: impl Into<String>,
        value: impl Into<String>,
        ttl_seconds: Option<u64>,
    ) -> Result<Self, Unfit> {
        let (key, value) = (key.into(), value.into());
        if key.is_empty() || key.len() > KEY_BYTES_MAX || matches!(key.as_str(), "." | "..") {
            return Err(Unfit::Key);
        }
        if value.len() > VALUE_BYTES_MAX {
            return Err(Unfit::Value);
        }
        if ttl_seconds.is_some_and(|seconds| seconds < TTL_SECONDS_MIN) {
            return Err(Unfit::Ttl);
        }
        Ok(Self { key, value, ttl_seconds })
    }

    /// The key.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The value.
    pub fn value(&self) -> &str {
        &self.value
    }

    pub(super) fn ttl_seconds(&self) -> Option<u64> {
        self.ttl_seconds
    }

    fn written(&self) -> String {
        let mut pair = json!({"key": self.key, "value": self.value});
        if let Some(seconds) = self.ttl_seconds {
            pair["expiration_ttl"] = json!(seconds);
        }
        pair.to_string()
    }
}

/// Pairs that one call can write, as its body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    body: String,
    pairs: u64,
}

impl Batch {
    /// As few batches as the limits of a call allow, in the order of the pairs. Of pairs with one key only the
    /// last is written: the others would cost a write each, and nobody would see them.
    pub fn of(pairs: &[Pair]) -> Vec<Self> {
        Self::within(pairs, BULK_PAIRS_MAX, BULK_BYTES_MAX)
    }

    fn within(pairs: &[Pair], pairs_max: usize, bytes_max: usize) -> Vec<Self> {
        let last: std::collections::HashMap<&str, usize> =
            pairs.iter().enumerate().map(|(at, pair)| (pair.key(), at)).collect();
        let mut batches: Vec<Self> = Vec::new();
        for (at, pair) in pairs.iter().enumerate() {
            if last.get(pair.key()) != Some(&at) {
                continue;
            }
            let written = pair.written();
            match batches.last_mut() {
                // The comma and the closing bracket count too.
                Some(batch)
                    if batch.pairs < pairs_max as u64
                        && batch.body.len() + written.len() + 2 <= bytes_max =>
                {
                    batch.body.push(',');
                    batch.body.push_str(&written);
                    batch.pairs += 1;
                }
                _ => batches.push(Self { body: format!("[{written}"), pairs: 1 }),
            }
        }
        batches.iter_mut().for_each(|batch| batch.body.push(']'));
        batches
    }

    /// How many pairs it has: so many writes it costs.
    pub fn pairs(&self) -> u64 {
        self.pairs
    }

    pub(super) fn body(&self) -> &str {
        &self.body
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_that_fit() {
        let long = "k".repeat(KEY_BYTES_MAX + 1);
        for (key, ttl, expected) in [
            ("a", None, None),
            (&long[1..], Some(60), None),
            (&long[..], None, Some(Unfit::Key)),
            ("", None, Some(Unfit::Key)),
            (".", None, Some(Unfit::Key)),
            ("..", None, Some(Unfit::Key)),
            ("a", Some(59), Some(Unfit::Ttl)),
        ] {
            assert_eq!(Pair::new(key, "v", ttl).err(), expected);
        }
        assert_eq!(Pair::new("a", "v".repeat(VALUE_BYTES_MAX + 1), None).err(), Some(Unfit::Value));
    }

    #[test]
    fn batches_keep_both_limits() {
        let pairs: Vec<Pair> =
            (0..25).map(|n| Pair::new(format!("key-{n:02}"), "value \"x\"", Some(60)).unwrap()).collect();
        let counts = |batches: &[Batch]| batches.iter().map(Batch::pairs).collect::<Vec<_>>();
        assert_eq!(counts(&Batch::within(&pairs, 10, 1_000_000)), [10, 10, 5]);
        let one = pairs[0].written().len() + 2;
        let small = Batch::within(&pairs, 100, 3 * one);
        assert!(
            small.iter().all(|batch| batch.body.len() <= 3 * one && batch.pairs == 3 || batch.pairs == 1)
        );
        let written: usize = small
            .iter()
            .map(|batch| serde_json::from_str::<Vec<serde_json::Value>>(&batch.body).unwrap().len())
            .sum();
        assert_eq!(written, 25);
        assert_eq!(Batch::of(&[]), []);
        let twice = [
            Pair::new("a", "1", None).unwrap(),
            Pair::new("b", "2", None).unwrap(),
            Pair::new("a", "3", None).unwrap(),
        ];
        assert_eq!(Batch::of(&twice)[0].body, r#"[{"key":"b","value":"2"},{"key":"a","value":"3"}]"#);
    }
}
