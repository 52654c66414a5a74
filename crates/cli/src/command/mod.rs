//! One file for each verb.

pub mod bench;
pub mod migrate;
