//! Agenda's collection, adopted: on a real replica set, beside real workers of Node.

mod claims;
mod ends;
mod keys;
mod node;
mod scene;
mod together;
