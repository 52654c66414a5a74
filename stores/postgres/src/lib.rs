//! The Postgres store: the way to many machines.
//!
//! The database decides: its clock is the clock, its locks and unique indexes
//! are the last guard, and what has to happen in one piece is one function in
//! the database (`sql/functions`), so that a claim, an enqueue and a completion
//! are one round trip each. Every statement is sent unnamed with its types, so
//! nothing is left in a session and a transaction pooler may stand in between.
//!
//! Moves that are not on the hot path are decided by `windlass_core::transition`
//! on locked rows; there is no second version of that logic here.
//!
//! What this deliberately does not do: it takes no session locks, it keeps no
//! state of its own beside the connections, and it knows nothing of the engine.

#![forbid(unsafe_code)]

pub mod adopted;
mod budgets;
mod claim;
mod connect;
mod driver;
mod enqueue;
mod epoch;
mod error;
mod events;
mod find;
mod gather;
mod hosts;
mod link;
mod migrate;
mod moves;
mod numbers;
mod offers;
mod options;
mod pooler;
mod pulse;
mod queues;
mod records;
mod risks;
mod row;
mod scan;
mod schedules;
mod scribe;
mod settle;
mod store;
mod tls;
mod wake;
mod warm;
mod worker;

pub use connect::pool_of;
pub use enqueue::enqueue_in;
pub use options::Options;
pub use store::PostgresStore;
