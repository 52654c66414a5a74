//! The listener as its users meet it: the built program on real replica sets, with the server's own history of every
//! write as the oracle.

mod agenda;
mod cable;
mod commands;
mod documents;
mod ends;
mod faults;
mod ledger;
mod limits;
mod owners;
mod page;
mod poison;
mod recovery;
mod rest;
mod scene;
mod soak;
mod split;
mod store;
mod streams;
