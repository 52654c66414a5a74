//! Vela: shops that are kept in sync with Etsy.
//!
//! A task is a job: download a shop, take all of it anew, or send what users
//! have changed. The key sees to it that a shop is worked on by one worker at a
//! time. What a task knows between its attempts (listings, cursors, tokens, the
//! ledger of calls) are records beside the jobs, written under the task's lease.
//!
//! What this deliberately does not do: it never activates or renews a listing
//! by itself, which would cost the seller money, and it never throws away what
//! a user has changed.

#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod fields;
pub mod listing;
pub mod merge;
pub mod settings;
pub mod shop;
pub mod task;

mod app;
mod book;
mod caller;
mod counter;
mod csv;
#[cfg(test)]
mod days;
mod desk;
mod gate;
mod http;
mod jobs;
mod keyring;
mod ladder;
mod ledger;
mod metrics;
mod office;
mod service;
mod shown;
mod status;
mod sync;
mod tasks;
mod trouble;
mod variants;
mod verbs;

pub use app::VelaApp;
