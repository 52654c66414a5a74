//! The worker in one process: a real database, real HTTP, real files.

mod canaries;
mod claims;
mod errors;
mod happy;
mod ladder;
mod migrate;
mod notes;
mod people;
mod scene;
mod weaknesses;
mod webhook;
