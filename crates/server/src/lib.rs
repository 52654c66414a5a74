//! Windlass over HTTP: the API for every language, its events, its metrics,
//! the dashboard, and who may do what.
//!
//! Everything that can be called is in one table, `calls`: the
//! router, the roles, the OpenAPI document and the test that walks over all
//! routes without a token are made from it, so none of them can forget one.
//!
//! Deliberately absent: a store of its own (it gets one), TLS (a proxy does
//! that better), and any state that a restart would miss. Sessions of the
//! dashboard and paced retries live in memory and are simply asked for again.

#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod secret;
mod settings;

mod server;

mod calls;

mod access;
mod answer;
mod api;
mod ask;

mod feed;
mod metrics;
mod object;
mod openapi;
mod pages;
mod rooms;
mod roster;
mod sample;
mod wake;

pub use sample::Sample;
pub use secret::Secret;
pub use server::{Server, serve};
pub use settings::{Limits, Role, Settings, SettingsError, Token};
