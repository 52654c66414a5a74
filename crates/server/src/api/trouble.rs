//! What is wrong, for the top of the overview: looked for now and then, once for everybody.

use std::sync::Arc;

use super::Api;
use crate::answer::Refusal;
use crate::doctor::{Finding, look};

/// An answer is given again for this long.
pub(super) const CACHE_MS: u64 = 5_000;
/// How many jobs of each state are looked at.
const JOBS_MAX: usize = 200;

/// What is wrong.
pub(crate) async fn current(api: &Api) -> Result<Arc<Vec<Finding>>, Refusal> {
    Ok(api.trouble.get(&*api.world, look(&*api.store, JOBS_MAX)).await?)
}
