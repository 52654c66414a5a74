//! Jobs that are wanted, page after page.

use windlass_engine::core::error::StoreError;
use windlass_engine::core::job::Job;
use windlass_engine::core::query::{Cursor, JobFilter, ListRequest, PAGE_MAX, Page};
use windlass_engine::core::store::Store;

use crate::fold::folded;

/// How many pages of a store are looked at for one page of jobs with an error.
const LOOKS_MAX: usize = 25;

/// Which jobs: what stores filter by, and what an error says, which they do not.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Wanted {
    /// What stores filter by.
    pub filter: JobFilter,
    /// Their newest error says this: in its text, or folded as a group of failures is.
    pub error: Option<String>,
}

impl From<JobFilter> for Wanted {
    fn from(filter: JobFilter) -> Self {
        Self { filter, error: None }
    }
}

impl Wanted {
    /// Whether the newest error of a job is the one that is wanted.
    pub fn admits(&self, job: &Job) -> bool {
        let Some(wanted) = &self.error else { return true };
        job.last_error().is_some_and(|error| says(error, wanted))
    }
}

fn says(error: &str, wanted: &str) -> bool {
    folded(error) == wanted || error.to_ascii_lowercase().contains(&wanted.to_ascii_lowercase())
}

/// A page of the jobs that are wanted, newest first. It can be short, even empty, and still have a cursor.
pub async fn page(
    store: &dyn Store,
    wanted: &Wanted,
    limit: u32,
    after: Option<Cursor>,
) -> Result<Page, StoreError> {
    let request = |limit, after| ListRequest { filter: wanted.filter.clone(), limit, after };
    if wanted.error.is_none() {
        return store.list(request(limit, after)).await;
    }
    let mut found = Page { jobs: Vec::new(), next: after };
    for _ in 0..LOOKS_MAX {
        let Page { jobs, next } = store.list(request(PAGE_MAX, found.next)).await?;
        for job in jobs.into_iter().filter(|job| wanted.admits(job)) {
            if found.jobs.len() == limit as usize {
                found.next = found.jobs.last().map(|last: &Job| Cursor(last.seq));
                return Ok(found);
            }
            found.jobs.push(job);
        }
        found.next = next;
        if next.is_none() {
            break;
        }
    }
    Ok(found)
}

/// All jobs that are wanted, newest first, up to `limit`.
pub async fn find(store: &dyn Store, wanted: &Wanted, limit: usize) -> Result<Vec<Job>, StoreError> {
    let (mut found, mut after) = (Vec::new(), None);
    while found.len() < limit {
        let few = wanted.error.is_none().then_some(limit - found.len());
        let most = few.and_then(|few| u32::try_from(few).ok()).unwrap_or(PAGE_MAX).min(PAGE_MAX);
        let page = store.list(ListRequest { filter: wanted.filter.clone(), limit: most, after }).await?;
        found.extend(page.jobs.into_iter().filter(|job| wanted.admits(job)));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    found.truncate(limit);
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_found_by_its_text_and_by_its_group() {
        for (wanted, found) in
            [("row # of #", true), ("row 17", true), ("ROW 17", true), ("row 18", false), ("row #", false)]
        {
            assert_eq!(says("row 17 of 200\nmore", wanted), found, "{wanted}");
        }
    }
}
