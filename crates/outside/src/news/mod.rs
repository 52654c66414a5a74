//! News from the providers that sell them: one form of article and one way to turn pages, whoever it is.
//!
//! A provider makes one call per page and says in types what became of it. When to stop turning pages, what is
//! new, and what a call may cost is for those who ask.

mod apitube;
mod article;
mod cursor;
mod document;
mod error;
mod field;
mod newsdata;

use async_trait::async_trait;

pub use apitube::{Apitube, URL as APITUBE_URL};
pub use article::{NewsArticle, Sentiment};
pub use cursor::Cursor;
pub use document::{document, document_id};
pub use error::NewsError;
pub use newsdata::{Newsdata, URL as NEWSDATA_URL};

/// How many articles of a page are taken. Providers give 10 to 50; a page of more is a mistake of somebody's.
pub const PAGE_ARTICLES_MAX: usize = 500;

/// One page of news, newest first as far as the provider keeps to it.
#[derive(Debug, Clone, PartialEq)]
pub struct NewsPage {
    /// The articles, in the provider's order.
    pub articles: Vec<NewsArticle>,
    /// Where the next page is, if there is one.
    pub next: Option<Cursor>,
    /// How many items were left out: without an id, without a title, or over [`PAGE_ARTICLES_MAX`].
    pub skipped: usize,
    /// How many calls are left in the provider's window, when it says so.
    pub calls_left: Option<u64>,
}

/// Somebody who gives pages of news.
#[async_trait]
pub trait NewsProvider: Send + Sync {
    /// The word before the colon in the ids of its articles.
    fn name(&self) -> &'static str;

    /// One page: the first, or the one that a cursor of an earlier page leads to.
    async fn page(&self, cursor: Option<&Cursor>) -> Result<NewsPage, NewsError>;
}
