//! What was said, before it has a form.

use std::fmt;

use serde_json::Value;
use tracing::Level;
use tracing::field::{Field, Visit};
use windlass_engine::core::time::Time;

/// Something that was said.
#[derive(Debug, Clone)]
pub struct Line {
    /// When.
    pub at: Time,
    /// How loudly.
    pub level: Level,
    /// The sentence. It may hold anything, line breaks too.
    pub message: String,
    /// What the spans around it say, the outermost first.
    pub scope: Fields,
    /// What was said with it.
    pub said: Fields,
}

impl Line {
    /// All fields: of what was said twice the innermost counts, at its first place.
    pub fn fields(&self) -> Fields {
        let mut all = self.scope.clone();
        self.said.iter().for_each(|(name, value)| all.put(name, value.clone()));
        all
    }
}

/// Names and values, in the order in which they were said.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Fields(Vec<(&'static str, Value)>);

impl Fields {
    /// Said again, a field has its newest value.
    pub fn put(&mut self, name: &'static str, value: impl Into<Value>) {
        let value = value.into();
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, old)) => *old = value,
            None => self.0.push((name, value)),
        }
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = &(&'static str, Value)> {
        self.0.iter()
    }
}

impl IntoIterator for Fields {
    type Item = (&'static str, Value);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// Takes down a message and its fields.
#[derive(Default)]
pub(super) struct Hearing {
    pub(super) message: String,
    pub(super) fields: Fields,
}

impl Visit for Hearing {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            name => self.fields.put(name, format!("{value:?}")),
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => value.clone_into(&mut self.message),
            name => self.fields.put(name, value),
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.fields.put(field.name(), value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.fields.put(field.name(), value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.fields.put(field.name(), value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.fields.put(field.name(), value);
    }
}
