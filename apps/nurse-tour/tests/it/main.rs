//! The program, with a real database, real HTTP, real files; and, where a test steps a clock of its own, the
//! worker inside of the test (`inside`).

mod canaries;
mod claims;
mod deploy;
mod errors;
mod happy;
mod idle;
mod inside;
mod ladder;
mod migrate;
mod notes;
mod operators;
mod people;
mod program;
mod recordings;
mod safety;
mod scene;
mod tables;
mod ways;
mod weaknesses;
mod webhook;
