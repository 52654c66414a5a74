//! What a store knows of its own set-up.

use serde::{Deserialize, Serialize};

/// Something in the set-up of a store that may lose something, or slows it down.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Risk {
    /// What it is, in a sentence.
    pub what: String,
    /// What to do about it.
    pub next: String,
}

impl Risk {
    /// A risk and what to do about it.
    pub fn new(what: impl Into<String>, next: impl Into<String>) -> Self {
        Self { what: what.into(), next: next.into() }
    }
}
