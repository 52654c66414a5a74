//! How many jobs run at once in this program: of each listener that says so, and in all.
//!
//! A job that waits for its turn has a slot of its kind meanwhile. What Node's workers run is theirs to limit.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use mongodb::error::Error;
use serde::Deserialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use windlass_engine::core::json::Json;
use windlass_engine::core::policy::budget::BudgetPolicy;
use windlass_engine::core::store::Store;
use windlass_engine::{BudgetName, Context as JobContext, Failure, Layer, Next};

use crate::home::{Home, number};
use crate::listener::Listener;
use crate::office;
use crate::settings::JobsTarget;
use crate::sink::Trouble;

/// How long what a listener says is remembered.
const REMEMBERED_MS: u64 = 2_000;

/// Stands around every job.
#[derive(Clone)]
pub(crate) struct Turns(Arc<Inner>);

struct Inner {
    home: Home,
    all: Option<Arc<Semaphore>>,
    listeners: Mutex<HashMap<String, OfListener>>,
}

#[derive(Clone)]
struct OfListener {
    limit: usize,
    turns: Arc<Semaphore>,
    asked_boot_ms: u64,
}

/// What is read of a job.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Data {
    listener_id: Option<String>,
}

impl Turns {
    pub(crate) fn new(home: Home, in_all: Option<usize>) -> Self {
        let all = in_all.map(|many| Arc::new(Semaphore::new(many)));
        Self(Arc::new(Inner { home, all, listeners: Mutex::new(HashMap::new()) }))
    }

    /// The turns of a listener, where it limits them. Jobs of the store are limited by a budget instead, over all
    /// programs.
    async fn of(&self, context: &JobContext) -> Option<Arc<Semaphore>> {
        let Inner { home, listeners, .. } = &*self.0;
        if home.target == JobsTarget::Windlass {
            return None;
        }
        let id = context.payload_as::<Data>().ok()?.listener_id?;
        let now = home.world.boot_ms();
        let known = listeners.lock().unwrap_or_else(PoisonError::into_inner).get(&id).cloned();
        if let Some(known) = known.as_ref().filter(|known| now < known.asked_boot_ms + REMEMBERED_MS) {
            return (known.limit > 0).then(|| known.turns.clone());
        }
        // What cannot be asked now is as it was.
        let limit = match office::show(home, &id).await {
            Ok(listener) => usize::try_from(number(&listener, "concurrency")).unwrap_or(0),
            Err(_) => known.as_ref().map_or(0, |known| known.limit),
        };
        let mut listeners = listeners.lock().unwrap_or_else(PoisonError::into_inner);
        let same = listeners.get(&id).filter(|known| known.limit == limit).map(|known| known.turns.clone());
        let turns = same.unwrap_or_else(|| Arc::new(Semaphore::new(limit)));
        listeners.insert(id, OfListener { limit, turns: turns.clone(), asked_boot_ms: now });
        (limit > 0).then_some(turns)
    }
}

/// Has jobs of the store of a listener limited by a budget of its own, or no more.
pub(crate) async fn set_budget(home: &Home, listener: &Listener, was_limited: bool) -> Result<(), Trouble> {
    if home.target != JobsTarget::Windlass {
        return Ok(());
    }
    match listener.own_budget() {
        Some((name, slots)) => {
            let policy = BudgetPolicy { slots: Some(slots), ..BudgetPolicy::default() };
            home.store().await?.put_budget(BudgetName::new(name).map_err(Error::custom)?, policy).await?;
        }
        None if was_limited => {
            let name = BudgetName::new(format!("listener:{}", listener.id())).map_err(Error::custom)?;
            home.store().await?.delete_budget(name).await?;
        }
        None => {}
    }
    Ok(())
}

/// Waits for a turn, unless it is time to stop.
async fn turn(
    context: &JobContext,
    turns: Option<Arc<Semaphore>>,
) -> Result<Option<OwnedSemaphorePermit>, Failure> {
    let Some(turns) = turns else { return Ok(None) };
    tokio::select! {
        turn = turns.acquire_owned() => Ok(turn.ok()),
        _ = context.stopping() => context.go_on().await.map(|()| None),
    }
}

#[async_trait]
impl Layer for Turns {
    async fn around(&self, context: JobContext, next: Next) -> Result<Option<Json>, Failure> {
        // The listener's first: whoever waits for that is in nobody else's way.
        let of_listener = turn(&context, self.of(&context).await).await?;
        let in_all = turn(&context, self.0.all.clone()).await?;
        let ended = next.run(context).await;
        drop((of_listener, in_all));
        ended
    }
}
