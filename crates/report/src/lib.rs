//! What is said of a store, to people and to programs: how things look as
//! text of the API, what is wrong and what to do about it, what queued jobs
//! wait for, which jobs say an error, who crashed.
//!
//! The server answers with it and draws its pages from it; the command line
//! prints it, with or without a server in it. So both say the same.
//!
//! Deliberately absent: anything that listens, writes to a terminal or knows
//! a token. It reads a store that it is given, and changes nothing there.

#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod address;
pub mod crashes;
pub mod doctor;
pub mod fold;
pub mod schema;
pub mod search;
pub mod text;
pub mod view;
pub mod waiting;
pub mod words;
