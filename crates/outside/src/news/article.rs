//! An article as all providers give it.

use serde::{Deserialize, Serialize};

/// What an article means for its subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sentiment {
    /// Good news.
    Positive,
    /// Bad news.
    Negative,
    /// Neither. Not the same as unknown.
    Neutral,
}

impl Sentiment {
    /// The sentiment's word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Positive => "positive",
            Self::Negative => "negative",
            Self::Neutral => "neutral",
        }
    }
}

/// An article of a provider. Everything in it is a stranger's text: cut to a length, without control
/// characters, and addresses are http or https with a host, or not there. Whether an address may be fetched is
/// for the guard to say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewsArticle {
    /// The provider's name, a colon, and its id: `newsdata:4f1c…`, `apitube:123`.
    pub id: String,
    /// The headline.
    pub title: String,
    /// What it is about, in a sentence or two.
    pub description: Option<String>,
    /// Where the article is.
    pub link: Option<String>,
    /// The time of publication, as the provider writes it.
    pub published: Option<String>,
    /// The same in milliseconds since 1970 UTC, when it can be read. Without a zone it is UTC.
    pub published_ms: Option<i64>,
    /// The provider's id of the paper.
    pub source_id: Option<String>,
    /// The name of the paper.
    pub source_name: Option<String>,
    /// The paper's site.
    pub source_url: Option<String>,
    /// The paper's icon.
    pub source_icon: Option<String>,
    /// A picture.
    pub image_url: Option<String>,
    /// The language, in the provider's words.
    pub language: Option<String>,
    /// The countries, in the provider's words.
    pub country: Vec<String>,
    /// The categories, in the provider's words.
    pub category: Vec<String>,
    /// What it means, when the provider says so.
    pub sentiment: Option<Sentiment>,
}
