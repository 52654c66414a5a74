//! The crate as its users see it.

mod hostile;
mod reference;
mod stopping;
mod tiny;
