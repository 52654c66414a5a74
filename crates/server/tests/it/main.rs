//! The server as its callers know it: over a real connection, on a real store.

mod house;

mod admin;
mod bites;
mod claims;
mod counting;
mod door;
mod events;
mod gate;
mod guide;
mod jobs;
mod limits;
mod looking;
mod pages;
mod remote;
mod schemathesis;
mod secrets;
mod steer;
mod tickets;
mod wakes;
