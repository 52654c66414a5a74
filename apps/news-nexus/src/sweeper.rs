//! Takes away the files of jobs that are gone.

use std::collections::HashSet;

use windlass_engine::core::error::StoreError;
use windlass_engine::core::id::JobId;
use windlass_engine::core::query::{JobFilter, ListRequest, PAGE_MAX};
use windlass_engine::core::store::Store;
use windlass_engine::world::World;

use crate::job_files::JobFiles;

/// A day.
pub(crate) const DAY_MS: u64 = 86_400_000;

/// Files of jobs that are gone go too: at the start and once a day.
pub(crate) async fn sweep_daily(store: &dyn Store, files: &JobFiles, world: &dyn World) {
    loop {
        match kept(store).await {
            Ok(kept) => match files.sweep(&kept, world.wall()) {
                Ok(0) => {}
                Ok(swept) => tracing::info!(swept, "Removed files of jobs that are gone"),
                Err(error) => tracing::error!(%error, "Files of jobs that are gone could not be removed"),
            },
            Err(error) => tracing::error!(%error, "The queue could not be read"),
        }
        world.sleep_ms(DAY_MS).await;
    }
}

async fn kept(store: &dyn Store) -> Result<HashSet<JobId>, StoreError> {
    let mut request = ListRequest { filter: JobFilter::default(), limit: PAGE_MAX, after: None };
    let mut kept = HashSet::new();
    loop {
        let page = store.list(request.clone()).await?;
        kept.extend(page.jobs.iter().map(|job| job.id));
        let Some(next) = page.next else { return Ok(kept) };
        request.after = Some(next);
    }
}
