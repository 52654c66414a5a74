//! What the tests of Windlass share. Only ever a dev-dependency.
//!
//! A store proves itself with five lines: it implements [`subject::Subject`]
//! and calls [`conformance!`] on it. [`memory::MemoryStore`] is the reference
//! that needs no disk and no server.

pub mod binary;
pub mod clock;
pub mod eventually;
mod keeper;
pub mod model;
pub mod needs;
pub mod program;
pub mod relay;
pub mod small_disk;
pub mod soak;
pub mod subject;

pub mod conformance;
pub mod memory;
#[cfg(feature = "mongo")]
pub mod mongo;
pub mod postgres;
