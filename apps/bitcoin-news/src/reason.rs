//! Why a step has no value, or not yet: a code for programs, and how it is written.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A code of a family and a kind: `fetch_failed: timeout`. It is shown to people and counted by `status`, so it
/// never holds anything that came from a page, a provider or a model.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Reason(String);

impl Reason {
    /// The page could not be had.
    pub fn fetch(code: &str) -> Self {
        Self(format!("fetch_failed: {code}"))
    }

    /// The model is down, slow or over its quota.
    pub fn model_away(code: &str) -> Self {
        Self(format!("model_away: {code}"))
    }

    /// A setting of the model is wrong.
    pub fn model_settings(code: &str) -> Self {
        Self(format!("model_settings: {code}"))
    }

    /// The model's answer was refused or cannot be read.
    pub fn model_answer(code: &str) -> Self {
        Self(format!("model_answer: {code}"))
    }

    /// The page is not about its headline.
    pub fn mismatch() -> Self {
        Self("content_mismatch".to_owned())
    }

    /// The article has no address.
    pub fn no_link() -> Self {
        Self("no_link".to_owned())
    }

    /// Every attempt died in the middle of the call.
    pub fn crashed() -> Self {
        Self("crashed".to_owned())
    }

    /// More waited than may.
    pub fn pending_list_full() -> Self {
        Self("pending_list_full".to_owned())
    }

    /// So many newer ones came that it is not shown any more.
    pub fn left_the_index() -> Self {
        Self("left_the_index".to_owned())
    }

    /// An import said so.
    pub fn imported(text: &str) -> Self {
        let plain: String = text.chars().filter(|letter| !letter.is_control()).take(100).collect();
        Self(format!("imported: {plain}"))
    }

    /// Whether an article that ends with it has failed: a page that is about something else, or none, is no
    /// failure of anybody's.
    pub fn is_failure(&self) -> bool {
        !matches!(self.0.as_str(), "content_mismatch" | "no_link")
    }

    /// The reason as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
