//! The ends of attempts.

use tokio_postgres::types::Type;
use windlass_core::job::{Start, bounded_error};
use windlass_core::store::{Settlement, Written};
use windlass_core::transition::Outcome;

use super::lease::Held;
use super::source::AdoptedTable;
use super::write::{Batch, Wrote};
use crate::error::Fault;
use crate::link::{Link, Param};

/// What an end writes into a row.
struct End {
    outcome: &'static str,
    word: String,
    error: Option<String>,
    /// What the row says if it is over by this.
    last_word: Option<String>,
    /// When the row is tried again, if that is not for the ladder to say.
    again: Option<Start>,
    give_back: bool,
}

impl End {
    /// Whether the row may be tried again.
    fn gives_back(&self) -> bool {
        self.again.is_some() || self.outcome == "retry"
    }
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
        let held = self.held(link, settlements.iter().map(|one| &one.lease)).await?;
        let ends: Vec<(&Held, End)> = held
            .iter()
            .zip(settlements)
            .filter_map(|(held, one)| held.as_ref().map(|held| (held, self.end(&one.outcome))))
            .collect();
        let mut written =
            if ends.is_empty() { Wrote::default() } else { self.write_ends(link, &ends).await? };
        // A final word that the same lease has written: the answer was lost.
        let unknown: Vec<(&Held, &str)> = ends
            .iter()
            .filter(|(held, _)| !written.has(held))
            .filter_map(|(held, end)| Some((*held, end.last_word.as_deref()?)))
            .collect();
        if !unknown.is_empty() {
            let batch = Batch::of(unknown.iter().map(|(held, _)| *held));
            let words: Vec<&str> = unknown.iter().map(|(_, word)| *word).collect();
            let mut params: Vec<Param<'_>> = batch.params().into();
            params.push((&words, Type::TEXT_ARRAY));
            written.add(Wrote::by(link, &self.statements.settled, &params).await?);
        }
        if ends.iter().any(|(_, end)| end.gives_back()) {
            self.given_back.notify_one();
        }
        let done = |held: &Option<Held>| held.as_ref().is_some_and(|held| written.has(held));
        Ok(held.iter().map(|held| if done(held) { Written::Done } else { Written::Lost }).collect())
    }

    async fn write_ends(&self, link: &Link, ends: &[(&Held, End)]) -> Result<Wrote, Fault> {
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
        Wrote::by(link, &self.statements.settle, &params).await
    }

    fn end(&self, outcome: &Outcome) -> End {
        let (mapping, words) = (&self.mapping, &self.mapping.words);
        let over = |outcome, word: &str, error: Option<&str>| End {
            outcome,
            word: word.to_owned(),
            last_word: Some(word.to_owned()),
            error: error.map(bounded_error),
            again: None,
            give_back: false,
        };
        let again = |outcome, start, error: Option<&str>, give_back| End {
            outcome,
            word: words.retry.clone(),
            last_word: None,
            error: error.map(bounded_error),
            again: start,
            give_back,
        };
        match outcome {
            Outcome::Completed { .. } => {
                End { give_back: mapping.counts_failures, ..over("completed", &words.done, None) }
            }
            Outcome::Failed { error } => over("failed", mapping.failed_word(error), Some(error)),
            Outcome::Canceled => over("canceled", mapping.canceled_word(), Some("canceled")),
            // Whether there is another try, and when, the statement knows.
            Outcome::Retry { error, when } => {
                End { last_word: Some(words.failed.clone()), ..again("retry", *when, Some(error), false) }
            }
            Outcome::Parked { until } => again("parked", Some(*until), None, true),
            Outcome::Released => again("released", Some(Start::AfterMs(mapping.release_ms)), None, true),
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
