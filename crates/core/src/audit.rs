//! An audit in bites: what contradicts itself in a store is looked for a piece at a time, so that a call over a network ends in time
//! however large the store is, and whoever waits sees how far it is. Stores that hold their jobs in memory or in a file of
//! this machine do it in one bite, or two.
//!
//! Each bite sees one moment of the store. What is written between two bites may be seen by both or by neither, so nothing is
//! concluded from two bites together.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::Invalid;

/// An audit ends early when it has found as much as this, and a bite names no more.
pub const FINDINGS_MAX: usize = 1_000;

/// Where a bite begins. What its numbers mean is the store's own affair; the default is the beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AuditFrom {
    /// Which part of the store.
    pub part: u32,
    /// Where in it.
    pub at: u64,
}

impl fmt::Display for AuditFrom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.part, self.at)
    }
}

impl FromStr for AuditFrom {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let read = || {
            let (part, at) = text.split_once('.')?;
            Some(Self { part: part.parse().ok()?, at: at.parse().ok()? })
        };
        read().ok_or_else(|| Invalid::new("from", "must be what the bite before said, or 0.0"))
    }
}

/// What a bite of an audit found, and how far the audit is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AuditBite {
    /// What contradicts itself, in sentences.
    pub findings: Vec<String>,
    /// Where the next bite begins; nothing when this was the last.
    pub next: Option<AuditFrom>,
    /// How much was looked at, this bite included.
    pub done: u64,
    /// Of how much, as far as is known now.
    pub of: u64,
}

impl AuditBite {
    /// All of it in one bite.
    pub fn whole(findings: Vec<String>) -> Self {
        Self { findings, next: None, done: 1, of: 1 }
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_as_it_was_written() {
        let from = AuditFrom { part: 3, at: u64::MAX };
        assert_eq!(from.to_string().parse(), Ok(from));
        assert_eq!("0.0".parse(), Ok(AuditFrom::default()));
        for wrong in ["", "1", "1.", ".1", "1.2.3", "-1.2", "4294967296.0", "1.18446744073709551616"] {
            assert!(wrong.parse::<AuditFrom>().is_err(), "{wrong:?}");
        }
    }
}
