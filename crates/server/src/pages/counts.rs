//! How many jobs there are in each state, for the chips above the list: counted by the store, now and then, of as many of
//! the newest jobs as it looks at. Where jobs are searched by their errors, which stores do not, they have no numbers.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::Mutex;
use windlass_engine::core::state::StateName;
use windlass_report::waiting::Split;

use super::filter::View;
use crate::answer::Refusal;
use crate::api::Api;
use crate::api::stats::current;

/// An answer is given again for this long: the store looks at thousands of jobs for it, and a page is made anew whenever something
/// happens to any.
const GOOD_MS: u64 = 5_000;
/// Of how many views the numbers are remembered.
const VIEWS_MAX: usize = 64;

/// The numbers that are remembered, by view.
#[derive(Default)]
pub(crate) struct Counts(Mutex<HashMap<String, (u64, Arc<Numbers>)>>);

/// How many jobs of a view there are.
pub(super) struct Numbers {
    states: [(StateName, u64, bool); StateName::ALL.len()],
    /// What the queued ones wait for, where all jobs are looked at.
    pub split: Option<Split>,
}

impl Numbers {
    /// How many are in a state, and whether there are more.
    pub(super) fn of(&self, state: StateName) -> (u64, bool) {
        self.states
            .iter()
            .find(|(one, ..)| *one == state)
            .map_or((0, false), |(_, count, more)| (*count, *more))
    }
}

impl Counts {
    /// The numbers of a view, in any state. Those who ask while they are counted wait.
    pub(super) async fn of(&self, api: &Api, view: &View) -> Result<Arc<Numbers>, Refusal> {
        let view = view.of_any_state();
        let address = view.query(None);
        let mut known = self.0.lock().await;
        let now_ms = api.world.boot_ms();
        if let Some((at_ms, numbers)) = known.get(&address)
            && now_ms.saturating_sub(*at_ms) < GOOD_MS
        {
            return Ok(numbers.clone());
        }
        let numbers = Arc::new(count(api, &view).await?);
        if known.len() >= VIEWS_MAX {
            known.clear();
        }
        known.insert(address, (api.world.boot_ms(), numbers.clone()));
        Ok(numbers)
    }
}

async fn count(api: &Api, view: &View) -> Result<Numbers, Refusal> {
    let mut states = StateName::ALL.map(|state| (state, 0, false));
    let counted = api.store.count_jobs(view.wanted.filter.clone()).await?;
    for (state, count, more) in &mut states {
        (*count, *more) = (counted.of(*state), counted.more);
    }
    if !view.is_empty() {
        return Ok(Numbers { states, split: None });
    }
    // Of all jobs, these two are counted by the store.
    let stats = current(api).await?;
    for (state, count, more) in &mut states {
        match state {
            StateName::Queued => (*count, *more) = (stats.queued, false),
            StateName::Running => (*count, *more) = (stats.running, false),
            _ => {}
        }
    }
    Ok(Numbers { states, split: Some(api.waiting().await?.split()) })
}
