//! What the tests of Windlass share. Only ever a dev-dependency.

pub mod clock;
pub mod subject;
