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
mod idle;
mod jobs;
mod left_out;
mod listening;
mod mcp;
mod snippets;
mod soak;
mod steer;
mod tidy;
mod words;
