//! What every app has, so that an app is only its own domain: settings from a
//! table ([`settings`]), a log in a form of its own ([`log`]), a door for HTTP
//! ([`door`]), parts that start and end together ([`Parts`]), and its place in
//! the command line ([`App`]).
//!
//! What this deliberately does not do: it opens no store (whoever starts an
//! app does, by [`Stores`]), and it knows no other service and no app. By its
//! feature `postgres` it gives on what an app says of a table that is adopted.

#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod app;
mod check;
mod host;
mod init;
mod parts;
mod stop;

pub mod environment;
pub mod settings;

pub mod door;
pub mod log;
pub mod output;

pub use app::{App, AppError, Exit, Needs, command, run};
pub use check::{Check, Finding, say_findings};
pub use environment::Environment;
#[cfg(feature = "postgres")]
pub use host::Lack;
pub use host::{Host, QueueFileWish, Stores};
pub use parts::{PartError, Parts};
pub use settings::{Reading, Setting, SettingsError};
pub use stop::Stop;
/// What a table of somebody else's looks like, for [`Stores::adopt`].
#[cfg(feature = "postgres")]
pub use windlass_postgres::adopted::mapping;
