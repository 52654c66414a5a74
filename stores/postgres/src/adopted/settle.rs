//! The ends of attempts.

use tokio_postgres::types::Type;
use windlass_core::job::{Start, bounded_error};
use windlass_core::store::{Settlement, Written};
use windlass_core::transition::Outcome;

use super::lease::Held;
use super::source::AdoptedTable;
use super::write::{Batch, ids};
use crate::error::Fault;
use crate::link::{Link, Param};

/// What an end writes into a row.
struct End {
    outcome: &'static str,
    word: String,
    error: Option<String>,
    /// When the row is tried again; a row without that is over.
    again: Option<Start>,
    give_back: bool,
}

impl AdoptedTable {
    pub(super) async fn settle_once(&self, settlements: &[Settlement]) -> Result<Vec<Written>, Fault> {
        let link = self.connections.reserved_link().await?;
        self.settle_on(&link, settlements).await
    }

    pub(super) async fn settle_on(
        &self,
        link: &Link,
        settlements: &[Settlement],
    ) -> Result<Vec<Written>, Fault> {
        let held = settlements.iter().map(|one| self.leases.of(&one.lease));
        let held: Vec<Option<Held>> = held.collect();
        let ends: Vec<(&Held, End)> = held
            .iter()
            .zip(settlements)
            .filter_map(|(held, one)| held.as_ref().map(|held| (held, self.end(&one.outcome, held))))
            .collect();
        let mut written =
            if ends.is_empty() { Default::default() } else { self.write_ends(link, &ends).await? };
        // A final word that the same lease has written: the answer was lost.
        let unknown: Vec<&(&Held, End)> = ends
            .iter()
            .filter(|(held, end)| end.again.is_none() && !written.contains(&held.row_id))
            .collect();
        if !unknown.is_empty() {
            let batch = Batch::of(unknown.iter().map(|(held, _)| *held));
            let words: Vec<&str> = unknown.iter().map(|(_, end)| end.word.as_str()).collect();
            let mut params: Vec<Param<'_>> = batch.params().into();
            params.push((&words, Type::TEXT_ARRAY));
            written.extend(ids(link, &self.statements.settled, &params).await?);
        }
        settlements.iter().for_each(|one| self.leases.end(one.lease));
        let done = |held: &Option<Held>| held.as_ref().is_some_and(|held| written.contains(&held.row_id));
        Ok(held.iter().map(|held| if done(held) { Written::Done } else { Written::Lost }).collect())
    }

    async fn write_ends(
        &self,
        link: &Link,
        ends: &[(&Held, End)],
    ) -> Result<std::collections::HashSet<String>, Fault> {
        let (now, batch) = (self.connections.given_now(), Batch::of(ends.iter().map(|(held, _)| *held)));
        let outcomes: Vec<&str> = ends.iter().map(|(_, end)| end.outcome).collect();
        let words: Vec<&str> = ends.iter().map(|(_, end)| end.word.as_str()).collect();
        let errors: Vec<Option<&str>> = ends.iter().map(|(_, end)| end.error.as_deref()).collect();
        let after: Vec<Option<i64>> = ends.iter().map(|(_, end)| end.again.and_then(after_ms)).collect();
        let at: Vec<Option<i64>> = ends.iter().map(|(_, end)| end.again.and_then(at_ms)).collect();
        let give_back: Vec<bool> = ends.iter().map(|(_, end)| end.give_back).collect();
        let mut params: Vec<Param<'_>> = vec![(&now, Type::INT8)];
        params.extend(batch.params());
        params.extend::<[Param<'_>; 6]>([
            (&outcomes, Type::TEXT_ARRAY),
            (&words, Type::TEXT_ARRAY),
            (&errors, Type::TEXT_ARRAY),
            (&after, Type::INT8_ARRAY),
            (&at, Type::INT8_ARRAY),
            (&give_back, Type::BOOL_ARRAY),
        ]);
        ids(link, &self.statements.settle, &params).await
    }

    fn end(&self, outcome: &Outcome, held: &Held) -> End {
        let (mapping, words) = (&self.mapping, &self.mapping.words);
        let over = |outcome, word: &str, error: Option<&str>| End {
            outcome,
            word: word.to_owned(),
            error: error.map(bounded_error),
            again: None,
            give_back: false,
        };
        let again = |outcome, start, error: Option<&str>, give_back| End {
            outcome,
            word: words.retry.clone(),
            error: error.map(bounded_error),
            again: Some(start),
            give_back,
        };
        match outcome {
            Outcome::Completed { .. } => {
                End { give_back: mapping.counts_failures, ..over("completed", &words.done, None) }
            }
            Outcome::Failed { error } => over("failed", mapping.failed_word(error), Some(error)),
            Outcome::Canceled => over("canceled", mapping.canceled_word(), Some("canceled")),
            Outcome::Retry { error, when } => match mapping.retry_rule().delay_ms(held.tries) {
                None => over("failed", &words.failed, Some(error)),
                Some(delay_ms) => {
                    again("retry", when.unwrap_or(Start::AfterMs(delay_ms)), Some(error), false)
                }
            },
            Outcome::Parked { until } => again("parked", *until, None, true),
            Outcome::Released => again("released", Start::AfterMs(mapping.release_ms), None, true),
        }
    }
}

fn after_ms(start: Start) -> Option<i64> {
    match start {
        Start::Now => Some(0),
        Start::AfterMs(ms) => Some(i64::try_from(ms).unwrap_or(i64::MAX / 2)),
        Start::At(_) => None,
    }
}

fn at_ms(start: Start) -> Option<i64> {
    match start {
        Start::At(at) => Some(at.ms()),
        Start::Now | Start::AfterMs(_) => None,
    }
}
