//! Streams: what is asked for, how it is read, and what becomes of it.
//!
//! One shared stream per instance serves all lanes that are at its position. A lane that is behind is caught up by a
//! stream of its own kind, and joins the shared one at a position that both have.

mod batch;
pub(crate) mod catch_up;
pub(crate) mod definitions;
mod desk;
pub(crate) mod gap;
mod lookup;
pub(crate) mod plan;
pub(crate) mod shared;
pub(crate) mod tail;
