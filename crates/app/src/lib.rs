//! What every app has, so that an app is only its own domain: settings from a
//! table ([`settings`]), a log in a form of its own ([`log`]), a door for HTTP
//! ([`door`]), parts that start and end together ([`Parts`]), and its place in
//! the command line ([`App`]).
//!
//! What this deliberately does not do: it knows no store (whoever starts an
//! app opens them, by [`Stores`]), no other service and no app.

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
pub use check::{Check, Finding};
pub use environment::Environment;
pub use host::{Host, Lack, QueueFileWish, Stores};
pub use parts::{PartError, Parts};
pub use settings::{Reading, Setting, SettingsError};
pub use stop::Stop;
