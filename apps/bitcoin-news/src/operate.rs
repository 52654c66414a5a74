//! What operators do to articles.

use windlass_engine::core::query::{JobFilter, ListRequest, PAGE_MAX};
use windlass_engine::core::store::CancelAnswer;
use windlass_engine::{Job, Kind, QueueName, ShelfError, StateName};

use crate::archive::Archive;
use crate::article::State;
use crate::jobs::{Publish, Update, Work};

/// How often a change is tried again when somebody else has changed the article meanwhile.
const TRIES_MAX: u32 = 50;
/// How many records one commit deletes.
const CLEAR_MAX: usize = 900;

/// What became of the wish to have an article tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retried {
    /// It is tried again.
    Again,
    /// It was taken away, and does not come back.
    TakenAway,
    /// There is no such article.
    Missing,
}

/// Has an article tried again: what has no value is to be done, from the first attempt on.
pub async fn retry(archive: &Archive, id: &str) -> Result<Retried, ShelfError> {
    for _ in 0..TRIES_MAX {
        let Some(entry) = archive.find(id).await? else { return Ok(Retried::Missing) };
        let now_ms = archive.client.store().now().await?.ms();
        let mut article = entry.value;
        if matches!(article.state, State::Dropped { .. }) {
            return Ok(Retried::TakenAway);
        }
        article.revive(now_ms);
        let mut batch = archive.client.batch();
        archive.put(&mut batch, &article).if_rev(entry.rev);
        batch.enqueue(Work::of(&article, now_ms));
        match batch.commit().await {
            Err(ShelfError::Conflict { .. }) => {}
            committed => return committed.map(|_| Retried::Again),
        }
    }
    Err(busy())
}

/// Takes an article away: it is shown nowhere, and never comes back. Nothing when there is no such article.
pub async fn drop_out(archive: &Archive, id: &str) -> Result<bool, ShelfError> {
    for _ in 0..TRIES_MAX {
        let Some(entry) = archive.find(id).await? else { return Ok(false) };
        let now_ms = archive.client.store().now().await?.ms();
        let mut article = entry.value;
        article.drop_out(now_ms);
        let mut batch = archive.client.batch();
        archive.put(&mut batch, &article).if_rev(entry.rev);
        archive.put_seen(&mut batch, article.id(), now_ms);
        archive.put_taken(&mut batch, now_ms);
        batch.delete(&archive.texts, article.id());
        match batch.commit().await {
            Err(ShelfError::Conflict { .. }) => {}
            committed => return committed.map(|_| true),
        }
    }
    Err(busy())
}

fn busy() -> ShelfError {
    let text = "the article was changed again and again meanwhile; try again".to_owned();
    ShelfError::Store(windlass_engine::StoreError::Busy(text))
}

/// The ids of articles that a retry of all is for: those that failed or are tried later.
pub async fn retryable(archive: &Archive) -> Result<Vec<String>, ShelfError> {
    let mut ids = Vec::new();
    for label in ["later", "failed"] {
        ids.extend(archive.labeled(label).await?.into_iter().map(|entry| entry.value.news.id));
    }
    Ok(ids)
}

/// Deletes everything: articles, texts, ids, how far the updater is, what was published, and the jobs that
/// wait. Answers how many articles went.
pub async fn clear(archive: &Archive) -> Result<u64, ShelfError> {
    cancel_all(archive).await?;
    let gone = clear_shelf(archive, &archive.articles).await?;
    clear_shelf(archive, &archive.texts).await?;
    clear_shelf(archive, &archive.seen).await?;
    clear_shelf(archive, &archive.progress).await?;
    clear_shelf(archive, &archive.published).await?;
    clear_shelf(archive, &archive.taken).await?;
    Ok(gone)
}

async fn clear_shelf<T>(archive: &Archive, shelf: &windlass_engine::Shelf<T>) -> Result<u64, ShelfError>
where
    T: serde::de::DeserializeOwned + Send,
{
    let mut gone = 0;
    loop {
        let page = shelf.scan().limit(CLEAR_MAX as u32).await?;
        if page.entries.is_empty() {
            return Ok(gone);
        }
        let mut batch = archive.client.batch();
        for entry in &page.entries {
            batch.delete(shelf, &entry.key);
        }
        batch.commit().await?;
        gone += page.entries.len() as u64;
    }
}

async fn cancel_all(archive: &Archive) -> Result<(), ShelfError> {
    let store = archive.client.store();
    for (queue, kind) in
        [(Work::QUEUE, Work::KIND), (Update::QUEUE, Update::KIND), (Publish::QUEUE, Publish::KIND)]
    {
        let filter = JobFilter {
            states: vec![StateName::Queued],
            queue: Some(QueueName::new(queue)?),
            kind: Some(Kind::new(kind)?),
            ..JobFilter::default()
        };
        loop {
            let page =
                store.list(ListRequest { filter: filter.clone(), limit: PAGE_MAX, after: None }).await?;
            let mut canceled = 0;
            for job in &page.jobs {
                canceled += usize::from(store.cancel(job.id).await? == CancelAnswer::Canceled);
            }
            if canceled == 0 {
                break;
            }
        }
    }
    Ok(())
}
