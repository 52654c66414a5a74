//! Hears of entries that other programs write, and wakes who waits for work.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::StreamExt;
use mongodb::bson::{Document, doc};
use windlass_core::wake::Work;

use crate::store::Shared;

/// How long to wait before listening again after it failed. Meanwhile workers find their work by asking.
const PAUSE: Duration = Duration::from_secs(1);

/// Listens until it is stopped.
pub(crate) async fn listen(shared: Arc<Shared>) {
    loop {
        if let Err(error) = listen_once(&shared).await {
            tracing::debug!(%error, "the journal is not heard");
        }
        // What was not heard may have been work, or the end of the journal that we know.
        shared.is_unsure.store(true, Ordering::Release);
        shared.wake(&Work::Anywhere);
        drop(tokio::time::timeout(PAUSE, std::future::pending::<()>()).await);
    }
}

async fn listen_once(shared: &Shared) -> Result<(), mongodb::error::Error> {
    let foreign =
        doc! { "$match": { "operationType": "insert", "fullDocument.by": { "$ne": shared.program } } };
    let bare = doc! { "$project": { "_id": 1, "operationType": 1, "ns": 1, "documentKey": 1 } };
    let entries = shared.journal.entries().clone_with_type::<Document>();
    let mut heard = entries.watch().pipeline([foreign, bare]).await?;
    while let Some(entry) = heard.next().await {
        entry?;
        shared.wake(&Work::Anywhere);
    }
    Ok(())
}
