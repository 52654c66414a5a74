//! The job server of the News Nexus system.
//!
//! It takes jobs by HTTP, keeps them in a JSON file, and runs them one at a
//! time, each in a process of its own: searches of Google News by a workbook,
//! scores of articles by a sentence model, states assigned by a language model.
//! The three work on a SQLite database that other programs use, too.
//!
//! What it deliberately does not do: retry, run two jobs at once, go on after a
//! restart with what was unfinished, or change a table that it found.

#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod app;
mod init;
mod look;
mod server;
mod start_error;
mod sweeper;

mod settings;

mod answer;
mod routes;

mod job_files;
mod queue;
mod queue_file;
mod record;
mod repair;

mod child;
mod jobs;
mod report;

mod database;
mod files;
mod log;

pub use app::NewsNexus;
