//! Who runs the verbs: the one thread that writes (group commit), the connections that read, and what a write works with.

pub(crate) mod crew;
pub(crate) mod many;
pub(crate) mod others;
pub(crate) mod readers;
pub(crate) mod tx;
pub(crate) mod wake;
pub(crate) mod writer;
