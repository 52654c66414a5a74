//! The engine on the reference store, in a world whose time the tests move.

mod admission;
mod bad_input;
mod ending;
mod faulty;
mod forgetful;
mod library;
mod outage;
mod process;
mod shelves;
mod spans;
mod stage;
mod standstill;
mod stopping;
mod threads;
mod trouble;
mod working;
