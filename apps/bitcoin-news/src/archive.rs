//! Where everything is kept: shelves of records in the store, each with one kind of thing on it.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass_engine::{Batch, Client, Entry, PutOptions, Shelf, ShelfError};

use crate::article::{Article, State};
use crate::jobs::Work;
use crate::scan::Scan;
use crate::settings::Bounds;
use crate::update::Report;

/// How long an id is remembered after its article was first seen: much longer than any article is kept.
const SEEN: Duration = Duration::from_secs(400 * 86_400);
/// How long an article that was dropped is still there, for those who follow the changes.
const DROPPED: Duration = Duration::from_secs(86_400);
/// The key of the one record on its shelf.
const TAKEN: &str = "newest";
/// The words before the colon in ids. Ids of before had none.
pub const PROVIDERS: [&str; 2] = ["newsdata", "apitube"];

/// The shelves.
#[derive(Clone)]
pub struct Archive {
    /// The store's client.
    pub client: Client,
    /// Articles by id, in the order of publication.
    pub articles: Shelf<Article>,
    /// Texts of pages, until their summaries are there.
    pub texts: Shelf<String>,
    /// Ids that were ever seen: tombstones, when the article is gone.
    pub seen: Shelf<Seen>,
    /// How far the updater is, by provider.
    pub progress: Shelf<Progress>,
    /// What was published to Workers KV, by key.
    pub published: Shelf<Published>,
    /// How many writes to Workers KV are under way.
    pub publishing: Shelf<u32>,
    /// When an article was last taken away, which is a change of what is shown that no article tells of.
    pub taken: Shelf<Taken>,
    bounds: Bounds,
}

/// That an id was seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// When.
    pub at_ms: i64,
}

/// That an article was taken away.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taken {
    /// When.
    pub at_ms: i64,
}

/// How far the updater is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Progress {
    /// Which pages were seen.
    pub scan: Scan,
    /// How the last run went.
    #[serde(default)]
    pub last: Option<LastRun>,
    /// How many articles were skipped since the first run.
    #[serde(default)]
    pub skipped: u64,
}

/// How the last run of the updater went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastRun {
    /// When it ended.
    pub at_ms: i64,
    /// What it did.
    pub report: Report,
    /// Why it ended early, if it did.
    pub trouble: Option<String>,
}

/// A document as it was published.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Published {
    /// A digest of its value.
    pub digest: String,
    /// When.
    pub at_ms: i64,
}

impl Archive {
    /// The shelves of a store.
    pub fn new(client: Client, bounds: Bounds) -> Self {
        Self {
            articles: client.shelf("bitcoin-news/articles"),
            texts: client.shelf("bitcoin-news/texts"),
            seen: client.shelf("bitcoin-news/seen"),
            progress: client.shelf("bitcoin-news/progress"),
            published: client.shelf("bitcoin-news/published"),
            publishing: client.shelf("bitcoin-news/publishing"),
            taken: client.shelf("bitcoin-news/taken"),
            client,
            bounds,
        }
    }

    /// How much is kept.
    pub fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// Puts an article into a batch, with its place and its label.
    pub fn put<'b>(&self, batch: &'b mut Batch, article: &Article) -> PutOptions<'b> {
        let is_dropped = matches!(article.state, State::Dropped { .. });
        let keep = if is_dropped { self.bounds.keep.min(DROPPED) } else { self.bounds.keep };
        let put = batch.put(&self.articles, article.id(), article);
        put.sort(article.published_ms()).label(article.state.label()).keep(keep)
    }

    /// Puts the text of a page into a batch.
    pub fn put_text(&self, batch: &mut Batch, id: &str, text: &String) {
        batch.put(&self.texts, id, text).keep(self.bounds.keep);
    }

    /// Puts that an id was seen into a batch.
    pub fn put_seen<'b>(&self, batch: &'b mut Batch, id: &str, now_ms: i64) -> PutOptions<'b> {
        batch.put(&self.seen, id, &Seen { at_ms: now_ms }).keep(SEEN.max(self.bounds.keep))
    }

    /// Puts that an article was taken away into a batch. It outlives the article, so that the feed's time never
    /// goes back.
    pub fn put_taken(&self, batch: &mut Batch, now_ms: i64) {
        batch.put(&self.taken, TAKEN, &Taken { at_ms: now_ms });
    }

    /// When an article was last taken away.
    pub async fn taken_ms(&self) -> Result<Option<i64>, ShelfError> {
        Ok(self.taken.get(TAKEN).await?.map(|entry| entry.value.at_ms))
    }

    /// Which of these ids were seen before, also under the id that they had when ids had no provider.
    pub async fn known(&self, ids: &[&str]) -> Result<Vec<bool>, ShelfError> {
        let keys: Vec<&str> = ids.iter().flat_map(|id| [*id, bare(id)]).collect();
        let found = self.seen.get_many(keys).await?;
        Ok(found.chunks(2).map(|pair| pair.iter().any(Option::is_some)).collect())
    }

    /// An article by its id, with or without its provider.
    pub async fn find(&self, id: &str) -> Result<Option<Entry<Article>>, ShelfError> {
        let mut keys = vec![id.to_owned()];
        match PROVIDERS
            .iter()
            .any(|provider| id.strip_prefix(provider).is_some_and(|rest| rest.starts_with(':')))
        {
            true => keys.push(bare(id).to_owned()),
            false => keys.extend(PROVIDERS.iter().map(|provider| format!("{provider}:{id}"))),
        }
        let keys = keys.into_iter().filter(|key| is_key(key));
        Ok(self.articles.get_many(keys).await?.into_iter().flatten().next())
    }

    /// The articles that are shown: the newest, without those that were dropped.
    pub async fn index(&self) -> Result<Vec<Entry<Article>>, ShelfError> {
        let mut index: Vec<Entry<Article>> = Vec::new();
        let mut after = None;
        loop {
            let left = self.bounds.stored_max - index.len();
            let limit = u32::try_from(left.clamp(1, 1_000)).unwrap_or(1_000);
            let page = self.articles.scan().by_sort().descending().limit(limit).after(after).await?;
            let shown = |entry: &Entry<Article>| !matches!(entry.value.state, State::Dropped { .. });
            index.extend(page.entries.into_iter().filter(shown));
            after = page.next;
            if index.len() >= self.bounds.stored_max || after.is_none() {
                index.truncate(self.bounds.stored_max);
                return Ok(index);
            }
        }
    }

    /// The articles with a label, newest first.
    pub async fn labeled(&self, label: &str) -> Result<Vec<Entry<Article>>, ShelfError> {
        self.articles.scan().by_sort().descending().label(label).all().await
    }

    /// Sees to it that every article that is not over has a job; answers how many had none.
    pub async fn repair(&self) -> Result<u64, ShelfError> {
        let now_ms = self.client.store().now().await?.ms();
        let mut made = 0;
        for label in State::OPEN {
            for entries in self.labeled(label).await?.chunks(500) {
                let mut batch = self.client.batch();
                for entry in entries {
                    batch.enqueue(Work::of(&entry.value, now_ms));
                }
                let jobs = batch.commit().await?.jobs;
                made += jobs.iter().filter(|job| !job.deduplicated).count() as u64;
            }
        }
        Ok(made)
    }
}

/// An id without its provider.
pub fn bare(id: &str) -> &str {
    match id.split_once(':') {
        Some((provider, rest)) if PROVIDERS.contains(&provider) && !rest.is_empty() => rest,
        _ => id,
    }
}

/// Whether something that anybody may have written can be a key.
fn is_key(key: &str) -> bool {
    !key.is_empty() && key.len() <= 400 && !key.chars().any(char::is_control)
}
