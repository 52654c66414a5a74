//! The four documents, with the names and shapes that they had when they were the store. They are views: each
//! is made from the records, and nothing ever reads one back to decide something.

use serde_json::{Map, Value, json};
use windlass_engine::{Entry, ShelfError};

use crate::archive::Archive;
use crate::article::{Article, State, Step};
use crate::time::iso;

/// The list of articles that wait.
pub const PENDING: &str = "BTC_PENDING_LIST";
/// What is being done, was done, and is tried later.
pub const CHECKPOINT: &str = "BTC_CHECKPOINT";
/// The ids of all articles that were begun, newest first.
pub const INDEX: &str = "BTC_ID_INDEX";
/// What comes before an id in the key of an article.
pub const ARTICLE: &str = "article:";

/// All documents at one time.
#[derive(Debug, Clone, PartialEq)]
pub struct Documents {
    /// [`PENDING`].
    pub pending: Value,
    /// [`CHECKPOINT`].
    pub checkpoint: Value,
    /// [`INDEX`].
    pub index: Value,
    /// Articles of the index, by key.
    pub articles: Vec<(String, Value)>,
}

impl Documents {
    /// Makes them.
    pub async fn make(archive: &Archive) -> Result<Self, ShelfError> {
        let index = archive.index().await?;
        let begun: Vec<&Article> =
            index.iter().map(|entry| &entry.value).filter(|article| article.has_begun()).collect();
        Ok(Self {
            pending: pending(archive).await?,
            checkpoint: checkpoint(archive, &index).await?,
            index: begun.iter().map(|article| article.id()).collect(),
            articles: begun.iter().map(|one| (format!("{ARTICLE}{}", one.id()), article(one))).collect(),
        })
    }
}

/// One document by its key; nothing when there is none.
pub async fn get(archive: &Archive, key: &str) -> Result<Option<Value>, ShelfError> {
    match key {
        PENDING => pending(archive).await.map(Some),
        CHECKPOINT => checkpoint(archive, &archive.index().await?).await.map(Some),
        INDEX => Documents::make(archive).await.map(|documents| Some(documents.index)),
        key => {
            let Some(id) = key.strip_prefix(ARTICLE) else { return Ok(None) };
            let found = archive.find(id).await?.map(|entry| entry.value);
            Ok(found.filter(|one| !matches!(one.state, State::Dropped { .. })).map(|one| article(&one)))
        }
    }
}

async fn pending(archive: &Archive) -> Result<Value, ShelfError> {
    let waiting = archive.labeled(State::Pending.label()).await?;
    let entry = |entry: &Entry<Article>| {
        let one = &entry.value;
        json!({"id": one.id(), "article": article(one), "addedAt": one.queued_ms})
    };
    Ok(waiting.iter().map(entry).collect())
}

async fn checkpoint(archive: &Archive, index: &[Entry<Article>]) -> Result<Value, ShelfError> {
    let current = archive.labeled("current").await?;
    let since = |article: &Article| match article.state {
        State::Current { since_ms } | State::Later { since_ms } => since_ms,
        _ => 0,
    };
    let current = current.iter().map(|entry| &entry.value).min_by_key(|article| since(article));
    let later = archive.labeled("later").await?;
    let mut later: Vec<&Article> = later.iter().map(|entry| &entry.value).collect();
    later.sort_by_key(|article| since(article));
    let try_later = later.iter().map(|one| {
        let reason = one.reason().map(|reason| reason.as_str()).unwrap_or_default();
        json!({"id": one.id(), "article": article(one), "failedAt": since(one), "reason": reason})
    });
    let try_later: Value = try_later.collect();
    let over = index.iter().map(|entry| &entry.value).filter(|article| article.state.is_over());
    let processed: Value = over.map(|article| article.id()).collect();
    // Of what the processor wrote: news that nobody has begun are in the list of those that wait.
    let begun = index.iter().filter(|entry| entry.value.has_begun() || entry.value.state != State::Pending);
    let last_ms = begun.map(|entry| entry.written_at.ms()).max();
    Ok(json!({
        "currentArticleId": current.map(Article::id),
        "currentArticle": current.map(article),
        "processedIds": processed,
        "tryLater": try_later,
        "lastUpdate": last_ms,
    }))
}

/// An article as it stood under its key. The text of its page never stands in it.
pub fn article(article: &Article) -> Value {
    let mut all = shown(article);
    let over = article.state.is_over();
    all.insert("needsSentiment".to_owned(), json!(article.sentiment.is_open() && !over));
    all.insert("needsSummary".to_owned(), json!(article.summary.is_open() && !over));
    if let (Step::Open { attempts, .. }, false) = (&article.content, over)
        && *attempts > 0
    {
        all.insert("contentTimeout".to_owned(), json!(attempts));
    }
    let why =
        article.state.reason().or_else(|| article.summary.reason()).or_else(|| article.content.reason());
    if let Some(reason) = why.or_else(|| article.sentiment.reason()) {
        all.insert("summaryError".to_owned(), json!(reason));
    }
    all.insert("queuedAt".to_owned(), json!(article.queued_ms));
    if let Some(processed_ms) = article.processed_ms {
        all.insert("processedAt".to_owned(), json!(processed_ms));
    }
    Value::Object(all)
}

/// When it was published, in the provider's words if they mean a time.
fn pub_date(article: &Article) -> String {
    let meant = article.news.published_ms.and(article.news.published.clone());
    meant.unwrap_or_else(|| iso(article.published_ms()))
}

/// What of an article everybody may see. A value that is not known yet is null; one that never came is empty.
pub fn shown(article: &Article) -> Map<String, Value> {
    let news = &article.news;
    let over = article.state.is_over();
    let empty = |is_open: bool| if is_open && !over { Value::Null } else { json!("") };
    let sentiment = article.sentiment.value().map(|value| json!(value.as_str()));
    let summary = article.summary.value().map(|value| json!(value));
    let members = [
        ("id", json!(news.id)),
        ("article_id", json!(news.id)),
        ("title", json!(news.title)),
        ("description", json!(news.description)),
        ("link", json!(news.link)),
        ("pubDate", json!(pub_date(article))),
        ("source_id", json!(news.source_id)),
        ("source_name", json!(news.source_name)),
        ("source_url", json!(news.source_url)),
        ("source_icon", json!(news.source_icon)),
        ("image_url", json!(news.image_url)),
        ("language", json!(news.language)),
        ("country", json!(news.country)),
        ("category", json!(news.category)),
        ("sentiment", sentiment.unwrap_or_else(|| empty(article.sentiment.is_open()))),
        ("aiSummary", summary.unwrap_or_else(|| empty(article.summary.is_open()))),
    ];
    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
