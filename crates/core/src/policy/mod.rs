//! Policies: what a queue, a ladder, a budget and a schedule allow, as data and arithmetic.

pub mod budget;
pub mod cron;
pub mod ladder;
pub mod queue;
pub mod schedule;
