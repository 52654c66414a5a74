//! Articles without a score, and their scores.

use rusqlite::{OptionalExtension, params};
use windlass_engine::core::time::Time;

use super::{Database, DatabaseError, moment};

/// How much of a text is looked at; the model reads far less.
const TEXT_CHARS_MAX: usize = 10_000;

/// An article and the text that is to be scored; nothing when it has none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ScoreText {
    pub article: i64,
    pub text: Option<String>,
}

/// The keyword that an article is nearest to.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Score<'a> {
    pub article: i64,
    pub keyword: &'a str,
    pub rating: f64,
}

impl Database {
    /// The articles that this categorizer has not scored yet, by rising id.
    /// Only ids: of a quarter of a million articles a few thousand are new.
    pub(crate) fn unscored(&self, categorizer: i64) -> Result<Vec<i64>, DatabaseError> {
        let mut statement = self.connection.prepare(include_str!("../../sql/unscored.sql"))?;
        let ids = statement.query_map([categorizer], |row| row.get(0))?;
        Ok(ids.collect::<Result<_, _>>()?)
    }

    /// The texts of some articles: the description, else the approved text,
    /// else the title. Articles that are gone have none.
    pub(crate) fn score_texts(&self, ids: &[i64]) -> Result<Vec<ScoreText>, DatabaseError> {
        let mut statement = self.connection.prepare_cached(include_str!("../../sql/score_text.sql"))?;
        let mut texts = Vec::with_capacity(ids.len());
        for &article in ids {
            let row = statement.query_row([article], |row| {
                let fields: [Option<String>; 3] = [row.get(0)?, row.get(2)?, row.get(1)?];
                Ok(fields)
            });
            let fields = row.optional()?.unwrap_or_default();
            let text = fields.into_iter().flatten().find(|text| !text.trim().is_empty());
            texts.push(ScoreText { article, text: text.map(cut) });
        }
        Ok(texts)
    }

    /// Writes scores, all or none. Answers which articles are gone.
    pub(crate) fn save_scores(
        &mut self,
        categorizer: i64,
        scores: &[Score<'_>],
        now: Time,
    ) -> Result<Vec<i64>, DatabaseError> {
        let mut gone = Vec::new();
        if scores.is_empty() {
            return Ok(gone);
        }
        let transaction = self.transaction()?;
        {
            let mut statement = transaction.prepare_cached(include_str!("../../sql/score_add.sql"))?;
            for Score { article, keyword, rating } in scores {
                if statement.execute(params![article, categorizer, keyword, rating, moment(now)])? == 0 {
                    gone.push(*article);
                }
            }
        }
        transaction.commit()?;
        Ok(gone)
    }
}

fn cut(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(TEXT_CHARS_MAX) {
        text.truncate(end);
    }
    text
}
