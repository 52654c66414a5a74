//! A Windlass server as a store: the HTTP API behind the trait, so that the
//! command line and a worker can be far away from the database.
//!
//! The server decides everything and keeps house by itself: it takes back
//! leases, fires schedules, prunes and notes who is alive. So those verbs do
//! nothing here.
//!
//! What this deliberately does not do: it keeps nothing, it repeats nothing by
//! itself (every call carries ids, so whoever asked may ask again), and it
//! sends its token to no other host than the one that it was given.

#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod forms;
mod http_call;
mod refusal;
mod source;
mod store;
mod wake;
mod wire;

pub use store::{Options, RemoteStore};
