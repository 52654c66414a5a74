//! Articles without a state, and the states that they are given.

use rusqlite::{OptionalExtension, params};
use windlass_engine::core::time::Time;

use super::{Database, DatabaseError, day, moment};

/// How much of an article a model is given.
const CONTENT_CHARS_MAX: usize = 60_000;
const DAY_MS: i64 = 86_400_000;

/// The newest prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Prompt {
    pub id: i64,
    pub text: String,
}

/// What a model is given of an article.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct AssignText {
    pub title: String,
    pub content: String,
}

/// What a model said of an article.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Assignment<'a> {
    pub article: i64,
    pub state: Option<i64>,
    pub categorizer: i64,
    pub prompt: i64,
    pub in_the_us: bool,
    pub reasoning: &'a str,
}

impl Database {
    /// Up to `count` articles without a state that are at most `days` old, newest first.
    pub(crate) fn unassigned(&self, days: u64, count: u64, now: Time) -> Result<Vec<i64>, DatabaseError> {
        let days = i64::try_from(days).unwrap_or(i64::MAX);
        let cutoff = day(now.plus_ms(days.saturating_mul(-DAY_MS)));
        let mut statement = self.connection.prepare(include_str!("../../sql/unassigned.sql"))?;
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        let ids = statement.query_map(params![cutoff, count], |row| row.get(0))?;
        Ok(ids.collect::<Result<_, _>>()?)
    }

    /// Title and content of an article; nothing when it is gone.
    pub(crate) fn assign_text(&self, article: i64) -> Result<Option<AssignText>, DatabaseError> {
        let mut statement = self.connection.prepare_cached(include_str!("../../sql/assign_text.sql"))?;
        let row = statement.query_row([article], |row| {
            let title: Option<String> = row.get(0)?;
            let contents: [Option<String>; 3] = [row.get(2)?, row.get(3)?, row.get(1)?];
            Ok((title.unwrap_or_default(), contents))
        });
        let Some((title, contents)) = row.optional()? else { return Ok(None) };
        let content = contents.into_iter().flatten().find(|text| !text.trim().is_empty()).unwrap_or_default();
        let content = content.chars().take(CONTENT_CHARS_MAX).collect();
        Ok(Some(AssignText { title, content }))
    }

    /// The newest prompt, if there is any.
    pub(crate) fn prompt(&self) -> Result<Option<Prompt>, DatabaseError> {
        let row = self.connection.query_row(include_str!("../../sql/prompt.sql"), [], |row| {
            Ok(Prompt { id: row.get(0)?, text: row.get(1)? })
        });
        Ok(row.optional()?)
    }

    /// As [`Self::prompt`]; without one there is nothing to ask.
    pub(crate) fn known_prompt(&self) -> Result<Prompt, DatabaseError> {
        self.prompt()?.ok_or_else(|| {
            DatabaseError(
                "the table Prompts is empty: run `windlass news-nexus init`, or add the prompt as a row of it".to_owned(),
            )
        })
    }

    /// The state of a name or an abbreviation.
    pub(crate) fn state(&self, name: &str) -> Result<Option<i64>, DatabaseError> {
        let name = name.split_whitespace().collect::<Vec<_>>().join(" ");
        let row =
            self.connection.query_row(include_str!("../../sql/state_find.sql"), [name], |row| row.get(0));
        Ok(row.optional()?)
    }

    /// Writes down what a model said; false when the article is gone.
    pub(crate) fn save_assignment(
        &mut self,
        said: &Assignment<'_>,
        now: Time,
    ) -> Result<bool, DatabaseError> {
        let Assignment { article, state, categorizer, prompt, in_the_us, reasoning } = said;
        let written = self.connection.execute(
            include_str!("../../sql/assignment_add.sql"),
            params![article, state, categorizer, prompt, in_the_us, reasoning, moment(now)],
        )?;
        Ok(written == 1)
    }
}
