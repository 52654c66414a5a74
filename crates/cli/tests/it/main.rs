//! The whole of it: real programs, real stores, real kills.

mod cli;
mod crash;
mod edges;
mod examples;
mod faults;
mod features;
mod history;
