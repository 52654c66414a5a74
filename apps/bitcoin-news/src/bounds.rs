//! Bounds: how many articles wait, and how many are kept. What is over is skipped with a state, never silently.

use windlass_engine::{Entry, ShelfError};

use crate::archive::Archive;
use crate::article::{Article, State};
use crate::reason::Reason;

/// How many articles wait for their first attempt: a count that others make smaller and only the updater makes
/// larger, so that it is asked for again only when it says that there is no room.
#[derive(Debug)]
pub struct Pending {
    count: u64,
}

impl Pending {
    /// Counts them.
    pub async fn count(archive: &Archive) -> Result<Self, ShelfError> {
        Ok(Self { count: archive.articles.count("").await?.of(State::Pending.label()) })
    }

    /// Counts them again.
    pub async fn recount(&mut self, archive: &Archive) -> Result<(), ShelfError> {
        *self = Self::count(archive).await?;
        Ok(())
    }

    /// Of those that wait and the new ones, the oldest that are over the bound are skipped. The new ones are
    /// marked, the others are given back with their new state, to be written.
    pub async fn make_room(
        &mut self,
        archive: &Archive,
        new: &mut [Article],
        now_ms: i64,
    ) -> Result<Vec<Entry<Article>>, ShelfError> {
        let bound = archive.bounds().pending_max as u64;
        if self.count + new.len() as u64 <= bound {
            return Ok(Vec::new());
        }
        self.recount(archive).await?;
        let over =
            usize::try_from((self.count + new.len() as u64).saturating_sub(bound)).unwrap_or(usize::MAX);
        if over == 0 {
            return Ok(Vec::new());
        }
        let limit = u32::try_from(over).unwrap_or(u32::MAX);
        let waiting = archive.articles.scan().by_sort().label(State::Pending.label()).limit(limit).await?;
        let mut oldest: Vec<(i64, Result<usize, Entry<Article>>)> = Vec::new();
        oldest.extend(waiting.entries.into_iter().map(|entry| (entry.sort, Err(entry))));
        oldest.extend(new.iter().enumerate().map(|(at, article)| (article.published_ms(), Ok(at))));
        oldest.sort_by_key(|(published_ms, _)| *published_ms);
        let mut given_back = Vec::new();
        for (_, which) in oldest.into_iter().take(over) {
            match which {
                Ok(at) => new[at].skip(Reason::pending_list_full(), now_ms),
                Err(mut entry) => {
                    entry.value.skip(Reason::pending_list_full(), now_ms);
                    given_back.push(entry);
                }
            }
        }
        Ok(given_back)
    }

    /// New ones were stored, and so many others were skipped.
    pub fn added(&mut self, new: &[Article], skipped: usize) {
        let waiting = new.iter().filter(|article| !article.state.is_over()).count();
        self.count = (self.count + waiting as u64).saturating_sub(skipped as u64);
    }
}

/// Articles that have left the index are not worked on any more, and are deleted where that is wished. Answers
/// how many were skipped.
pub async fn tidy(archive: &Archive, now_ms: i64) -> Result<u64, ShelfError> {
    let bounds = archive.bounds();
    if archive.articles.count("").await?.total() <= bounds.stored_max as u64 {
        return Ok(0);
    }
    let index = archive.index().await?;
    let Some(last) = index.last().filter(|_| index.len() >= bounds.stored_max) else { return Ok(0) };
    let edge = (last.sort, last.key.as_str().to_owned());
    let is_out = |entry: &Entry<Article>| (entry.sort, entry.key.as_str()) < (edge.0, edge.1.as_str());
    let mut skipped = 0;
    for label in State::OPEN {
        let waiting = archive.articles.scan().by_sort().label(label).all().await?;
        for entry in
            waiting.into_iter().take_while(|entry| entry.sort <= edge.0).filter(|entry| is_out(entry))
        {
            let mut article = entry.value;
            article.skip(Reason::left_the_index(), now_ms);
            let mut batch = archive.client.batch();
            archive.put(&mut batch, &article).if_rev(entry.rev);
            batch.delete(&archive.texts, article.id());
            match batch.commit().await {
                Ok(_) => skipped += 1,
                // Somebody works on it at this moment; the next time will do.
                Err(ShelfError::Conflict { .. }) => {}
                Err(error) => return Err(error),
            }
        }
    }
    if bounds.delete_old {
        delete_out(archive, &edge).await?;
    }
    Ok(skipped)
}

async fn delete_out(archive: &Archive, edge: &(i64, String)) -> Result<(), ShelfError> {
    let out = archive.articles.scan().from_sort(edge.0).descending().all().await?;
    let out = out.into_iter().filter(|entry| (entry.sort, entry.key.as_str()) < (edge.0, edge.1.as_str()));
    let out: Vec<Entry<Article>> = out.collect();
    for entries in out.chunks(400) {
        let mut batch = archive.client.batch();
        for entry in entries {
            batch.delete(&archive.articles, &entry.key);
            batch.delete(&archive.texts, &entry.key);
        }
        batch.commit().await?;
    }
    Ok(())
}
