//! Admission control: who decides whether a worker claims now, and what becomes of work that its source refuses.
//!
//! Layers stand around attempts, and a breaker leaves one kind alone. This is for what concerns all of a worker's work: a provider
//! that everything needs is away, credentials are wrong, an operator has to act first.

use std::time::Duration;

use async_trait::async_trait;
use windlass_core::error::StoreError;
use windlass_core::store::{Leased, Settlement, Written};
use windlass_core::transition::Outcome;

/// What may be claimed now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admit {
    /// As much as there is room for.
    All,
    /// At most so many, and at least one.
    AtMost(usize),
    /// One, which [`Admission::choose`] chooses of at most so many that are claimed for it, also where fewer slots are free. The
    /// others are given back at once. For a trial whether a trouble is over, by a job that is not at fault itself.
    OneOf(u32),
    /// Nothing. It is asked again after so long at the latest, and earlier when there is new work.
    Nothing {
        /// After how long.
        again_in: Duration,
    },
}

/// What becomes of an attempt whose end the source refuses for good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unsettled {
    /// It ends otherwise.
    Instead(Outcome),
    /// Its lease is kept, and its end written again now and then, until the source takes it.
    Hold,
    /// Its lease is not held any more; when it runs out, that counts as a crash.
    LetGo,
}

/// Decides whether a worker claims, and hears what became of it. Only [`Admission::admit`] has to be written.
///
/// It is called from the worker's own loops, which wait for it: whoever takes long holds up the work.
#[async_trait]
pub trait Admission: Send + Sync + 'static {
    /// Asked before each claim: what may be claimed now.
    async fn admit(&self) -> Admit;

    /// After [`Admit::OneOf`]: which of these begins, by its place. There are at least two.
    fn choose(&self, leases: &[Leased]) -> usize {
        let _ = leases;
        0
    }

    /// Told what a claim gave, also when that is nothing, before any of it begins.
    async fn claimed(&self, leases: &[Leased]) {
        let _ = leases;
    }

    /// Told that a claim was refused, by an error that does not pass by itself.
    async fn unclaimed(&self, error: &StoreError) {
        let _ = error;
    }

    /// Told how an attempt ended, once that is written, or that its lease was lost before.
    async fn settled(&self, end: &Settlement, written: Written) {
        let _ = (end, written);
    }

    /// Asked what becomes of an attempt whose end the source refuses by an error that does not pass by itself. `refusals` are how
    /// often it was refused in a row, this one included: what is answered instead may be refused as well.
    async fn unsettled(&self, end: &Settlement, refusals: u32, error: &StoreError) -> Unsettled {
        let _ = (end, refusals, error);
        Unsettled::LetGo
    }

    /// Whether the worker goes on after an error of its source that would end it, since somebody will put that right. Whoever
    /// answers so says it in the log; the worker does not.
    fn outlives(&self, error: &StoreError) -> bool {
        let _ = error;
        false
    }
}
