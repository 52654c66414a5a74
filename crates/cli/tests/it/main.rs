//! The whole of it: real programs, real stores, real kills.

mod cli;
mod crash;
mod demo;
mod documents;
mod edges;
mod examples;
mod faults;
mod features;
mod files;
mod history;
mod jobs;
mod left_out;
mod snippets;
mod steer;
mod tidy;
mod words;
