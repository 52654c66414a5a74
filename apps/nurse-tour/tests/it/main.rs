//! The worker in one process, with a real database, real HTTP, real files; and
//! the program as its operator meets it (`program`, `deploy`).

mod canaries;
mod claims;
mod deploy;
mod errors;
mod happy;
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
mod weaknesses;
mod webhook;
