//! The worker in one process: a real database, real HTTP, real files.

mod canaries;
mod claims;
mod errors;
mod happy;
mod ladder;
mod migrate;
mod notes;
mod operators;
mod people;
mod recordings;
mod safety;
mod scene;
mod tables;
mod weaknesses;
mod webhook;
