//! What is wrong, for the top of the overview: looked for now and then, once for everybody.

use std::sync::Arc;

use windlass_report::doctor::{Finding, epoch_pause, look_beside};

use super::Api;
use crate::answer::Refusal;

/// An answer is given again for this long.
pub(super) const CACHE_MS: u64 = 5_000;
/// How many running and failed jobs are looked at.
const JOBS_MAX: usize = 200;

/// What is wrong.
pub(crate) async fn current(api: &Api) -> Result<Arc<Vec<Finding>>, Refusal> {
    let look = async {
        let waiting = api.waiting().await?;
        let mut findings = look_beside(&*api.store, &waiting, JOBS_MAX).await?;
        findings.extend(epoch_pause(&api.store.epoch().await?).map(Finding::from));
        Ok(findings)
    };
    api.trouble.get(&*api.world, look).await
}
