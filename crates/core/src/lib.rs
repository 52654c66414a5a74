//! The pure heart of Windlass.
//!
//! `core` decides: what a job is, which moves it may make, which job may be
//! claimed next, what a budget still allows. It does no I/O, reads no clock,
//! draws no random number and knows no runtime: the time of every decision is
//! an argument, and so is every id.
//!
//! Read it in this order: [`job`], [`state`], [`lease`], [`holding`] and [`epoch`] (the nouns), [`transition`]
//! (one function for every move), [`eligible`] (who may run, and why not), [`pick`] (which of them a claim takes),
//! [`policy`] (ladders, budgets, queues, schedules), [`book`] (all of it
//! together, in memory: the model that every store is compared with), [`memory`]
//! (a store that is nothing but that), and [`store`] (what a source and a store must do; [`ticket`] is what they hand out as a hint).

#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod id;
pub mod time;
pub mod timekeeper;

pub mod epoch;
pub mod holding;
pub mod incarnation;
pub mod job;
pub mod lease;
pub mod long_leases;
pub mod state;
pub mod step;

pub mod transition;

pub mod eligible;
pub mod pick;

pub mod policy;

pub mod book;

pub mod audit;
pub mod decorate;
pub mod event;
pub mod log;
pub mod memory;
pub mod named;
pub mod query;
pub mod record;
pub mod risk;
pub mod secret;
pub mod steer;
pub mod store;
pub mod ticket;
pub mod trace;
pub mod wake;

pub mod error;
pub mod json;
