//! Bitcoin News: an updater that fetches news, a processor that has each article read, and a feed.
//!
//! The store is the truth: articles are records beside their jobs ([`archive`]), and every move of one is a pure
//! function (`moves.rs`). The four documents that an earlier design kept in Workers KV are views of it
//! (`documents.rs`), and so is the feed (`feed.rs`).
//!
//! What it deliberately does not do: it knows no store, decides nothing by what Workers KV says, and never takes
//! an unknown sentiment for a neutral one.

#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod archive;
pub mod article;
pub mod breaker;
pub mod documents;
pub mod feed;
pub mod import;
pub mod jobs;
pub mod moves;
pub mod operate;
pub mod process;
pub mod publish;
pub mod reason;
pub mod scan;
pub mod settings;
pub mod sources;
pub mod staff;
pub mod status;
pub mod update;

mod app;
mod bounds;
mod cache;
mod clock;
mod metrics;
mod questions;
mod routes;
mod server;
mod syndication;
mod time;
mod verbs;

#[cfg(test)]
mod sample;

pub use app::BitcoinNews;
