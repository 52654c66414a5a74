//! Bitcoin News: an updater that fetches news, a processor that has each article read, and a feed.

#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod archive;
mod article;
mod bounds;
mod clock;
mod documents;
mod feed;
mod jobs;
mod moves;
mod once;
mod process;
mod publish;
mod questions;
mod reason;
mod scan;
mod settings;
mod sources;
mod time;
mod update;

#[cfg(test)]
mod sample;
