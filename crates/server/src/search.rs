//! Jobs that a filter admits, page after page.

use windlass_engine::core::error::StoreError;
use windlass_engine::core::job::Job;
use windlass_engine::core::query::{JobFilter, ListRequest, PAGE_MAX};
use windlass_engine::core::store::Store;

/// All jobs that a filter admits, newest first, up to `limit`.
pub async fn find(store: &dyn Store, filter: &JobFilter, limit: usize) -> Result<Vec<Job>, StoreError> {
    let (mut found, mut after) = (Vec::new(), None);
    while found.len() < limit {
        let page = u32::try_from(limit - found.len()).unwrap_or(PAGE_MAX).min(PAGE_MAX);
        let page = store.list(ListRequest { filter: filter.clone(), limit: page, after }).await?;
        found.extend(page.jobs);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    Ok(found)
}
