//! The three-way merge: what users changed, what it was then, what it is at Etsy now.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::fields::{Fields, is_quantity};

/// Both sides have changed a field, and not to the same. The user's word was taken; both are kept for the seller.
/// Or the answer to a quantity was lost, and fewer are there than were sent: what is there was taken.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Conflict {
    /// The field.
    pub field: String,
    /// What it was when the user changed it.
    pub base: Value,
    /// What it was at Etsy when the change was sent.
    pub remote: Value,
    /// What was sent.
    pub local: Value,
}

/// What comes of a merge.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Merged {
    /// What is to be sent.
    pub send: Fields,
    /// Where both sides had changed.
    pub conflicts: Vec<Conflict>,
    /// What Etsy does not know any more, such as a variant that was taken away.
    pub unknown: Vec<String>,
}

/// Merges a user's changes into what is at Etsy.
///
/// A quantity is sent as a difference, because buyers change it on the other
/// side: whoever took three away took three away, however many there are now.
pub fn merge(local: &Fields, base: &Fields, remote: &Fields) -> Merged {
    let mut merged = Merged::default();
    for (field, local) in local {
        let Some(remote) = remote.get(field) else {
            merged.unknown.push(field.clone());
            continue;
        };
        let base = base.get(field).unwrap_or(&Value::Null);
        if is_quantity(field) {
            let wanted = by_difference(local, base, remote);
            if wanted != *remote {
                merged.send.insert(field.clone(), wanted);
            }
            continue;
        }
        if local == remote {
            continue;
        }
        if base != remote {
            merged.conflicts.push(Conflict {
                field: field.clone(),
                base: base.clone(),
                remote: remote.clone(),
                local: local.clone(),
            });
        }
        merged.send.insert(field.clone(), local.clone());
    }
    merged
}

fn by_difference(local: &Value, base: &Value, remote: &Value) -> Value {
    match (local.as_i64(), base.as_i64(), remote.as_i64()) {
        (Some(local), Some(base), Some(remote)) => json!((remote + local - base).clamp(0, 999)),
        _ => local.clone(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn fields(pairs: &[(&str, Value)]) -> Fields {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
    }

    #[test]
    fn three_ways() {
        for (base, remote, local, sent, conflicts) in
            [("a", "a", "b", Some("b"), 0), ("a", "b", "b", None, 0), ("a", "c", "b", Some("b"), 1)]
        {
            let one = |value: &str| fields(&[("title", json!(value))]);
            let merged = merge(&one(local), &one(base), &one(remote));
            let found = merged.send.get("title").and_then(Value::as_str);
            assert_eq!((found, merged.conflicts.len()), (sent, conflicts), "{base} {remote} {local}");
        }
    }

    #[test]
    fn a_variant_that_is_gone_is_said() {
        let local = fields(&[("variants/Size=S/price", json!(3.0))]);
        assert_eq!(merge(&local, &Fields::new(), &Fields::new()).unknown, ["variants/Size=S/price"]);
    }

    proptest! {
        /// However sales and edits follow each other: what is left is what was there, less what was sold, with the
        /// user's difference; never below nothing.
        #[test]
        fn quantities_are_differences(base in 0i64..100, sold in 0i64..100, wanted in 0i64..100) {
            let remote = (base - sold).max(0);
            let one = |value: i64| fields(&[("quantity", json!(value))]);
            let merged = merge(&one(wanted), &one(base), &one(remote));
            let after = merged.send.get("quantity").and_then(Value::as_i64).unwrap_or(remote);
            prop_assert_eq!(after, (remote + wanted - base).max(0));
            prop_assert!(merged.conflicts.is_empty());
        }
    }
}
