//! How a claim finds ready jobs without looking at any that are not: gates, lines of keys, and what the picker reads.

pub(crate) mod emptied;
pub(crate) mod gate;
pub(crate) mod keys;
pub(crate) mod lanes;
pub(crate) mod line;
pub(crate) mod pick;
pub(crate) mod slot;
pub(crate) mod upcoming;
