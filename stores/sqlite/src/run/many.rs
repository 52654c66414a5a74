//! Many values as one parameter, for statements that work on many rows at once.

use std::rc::Rc;

use rusqlite::types::Value;
use rusqlite::vtab::array::Array;

/// Numbers, as the parameter of `rarray`.
pub fn numbers(numbers: impl IntoIterator<Item = i64>) -> Array {
    Rc::new(numbers.into_iter().map(Value::Integer).collect())
}

/// What belongs together, in the order in which the first of each sort came.
#[derive(Debug)]
pub struct Grouped<K, V>(pub Vec<(K, Vec<V>)>);

impl<K, V> Default for Grouped<K, V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K: PartialEq + Clone, V> Grouped<K, V> {
    /// Adds one. Sorts are few: the newest is looked at first, then all.
    pub fn add(&mut self, sort: &K, value: V) {
        match self.0.iter_mut().rev().find(|(known, _)| known == sort) {
            Some((_, values)) => values.push(value),
            None => self.0.push((sort.clone(), vec![value])),
        }
    }
}
