//! What is wrong, for the top of the overview: looked for now and then, once for everybody.

use std::sync::Arc;

use tokio::sync::Mutex;

use super::Api;
use crate::answer::Refusal;
use crate::doctor::{Finding, look};

/// An answer is given again for this long.
const CACHE_MS: u64 = 5_000;
/// How many jobs of each state are looked at.
const JOBS_MAX: usize = 200;

/// The newest answer, and when it was made.
#[derive(Default)]
pub(crate) struct Cache(Mutex<Option<(u64, Arc<Vec<Finding>>)>>);

/// What is wrong.
pub(crate) async fn current(api: &Api) -> Result<Arc<Vec<Finding>>, Refusal> {
    let mut cached = api.trouble.0.lock().await;
    let now_ms = api.world.boot_ms();
    if let Some((at_ms, findings)) = &*cached
        && now_ms.saturating_sub(*at_ms) < CACHE_MS
    {
        return Ok(findings.clone());
    }
    let findings = Arc::new(look(&*api.store, JOBS_MAX).await?);
    *cached = Some((api.world.boot_ms(), findings.clone()));
    Ok(findings)
}
