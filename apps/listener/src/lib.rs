//! The AI Rank Listener: changes of documents in MongoDB become jobs, exactly one each.
//!
//! A listener says what is watched and which job a change makes. One change stream per instance hears for all of its
//! listeners; each has a position of its own, which moves in the transaction that writes its jobs, and only for the
//! owner that the fence names. Jobs are rows of Agenda's, or jobs of the store.
//!
//! What this deliberately does not do: it keeps nothing about a document but its status, and it never guesses what
//! was in a history that is gone: that is a gap, recorded and looked through.

#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod settings;

mod app;
mod check;
mod commit;
mod context;
mod event;
mod filter;
mod gone;
mod history;
mod home;
mod http;
mod job;
mod keeper;
mod lane;
mod lease;
mod limits;
mod listener;
mod metrics;
mod office;
mod path;
mod recovery;
mod replay;
mod report;
mod runner;
mod service;
mod sink;
mod split;
mod stage;
mod status_field;
mod status_writer;
mod stream;
#[cfg(test)]
mod testing;
mod token;
mod verbs;

pub use app::ListenerApp;
pub use service::Service;
pub use stage::Stage;
