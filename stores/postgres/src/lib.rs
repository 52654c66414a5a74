//! The Postgres store: the way to many machines.
//!
//! The database decides: its clock is the clock, its locks and unique indexes
//! are the last guard, and what has to happen in one piece is one function in
//! the database (`sql/functions`), so that a claim, an enqueue and a completion
//! are one round trip each; a claim that limits, budgets or crossed keys bound is
//! picked by `windlass_core::pick`, in two (`survey.rs`). Statements have names, which the server keeps for a
//! session; where a transaction pooler stands in between (`pooler.rs`), each is
//! sent unnamed with its types, and none relies on one before it in its session.
//!
//! Moves that are not on the hot path are decided by `windlass_core::transition`
//! on locked rows; there is no second version of that logic here.
//!
//! A process remembers nothing of what it leased. What a settlement need not look up is in the ticket of each lease
//! (`ticket.rs`), which its holder hands back; all that it says is compared with the rows. A source over an adopted table
//! is another matter: which rows it holds, it alone knows (`adopted/lease.rs`).
//!
//! What this deliberately does not do: it takes no session locks, it believes no
//! cache about whether a lease is held, and it knows nothing of the engine.

#![forbid(unsafe_code)]

#[macro_use]
mod sql;

pub mod adopted;
mod audit;
mod bounds;
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
mod news;
mod offers;
mod options;
mod pooler;
mod pulse;
mod queues;
mod records;
mod risks;
mod room;
mod row;
mod scan;
mod schedules;
mod scribe;
mod settle;
mod steer;
mod store;
mod survey;
mod ticket;
mod tls;
mod wake;
mod warm;
mod worker;

pub use connect::pool_of;
pub use enqueue::enqueue_in;
pub use options::Options;
pub use risks::Limits;
pub use store::PostgresStore;
/// The driver, in the version whose transactions [`enqueue_in`] takes.
pub use tokio_postgres;
