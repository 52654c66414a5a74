//! The file on the disk: how it is opened, whose it is, whether it is the one that it was, and room for when it is full.

pub(crate) mod ballast;
pub(crate) mod file;
pub(crate) mod incarnation;
pub(crate) mod log;
pub(crate) mod machine;
pub(crate) mod mark;
pub(crate) mod migrate;
pub(crate) mod watch;
