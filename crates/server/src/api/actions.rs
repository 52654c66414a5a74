//! Who did what: the calls that changed something and need an admin, as records beside the jobs, and told among the events.
//!
//! They are written after the fact, by a task of its own: an answer does not wait for them, and what a server had not
//! written when it was killed is missing. What is done with a store itself, without a server, is in no list.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::{Mutex, mpsc};
use windlass_engine::core::error::StoreError;
use windlass_engine::core::event;
use windlass_engine::core::id::{RecordKey, ShelfName};
use windlass_engine::core::json::Json;
use windlass_engine::core::record::{
    IfRev, Keep, Order, Put, RECORD_BYTES_MAX, RecordBatch, RecordWrite, Records, Scan,
};
use windlass_engine::core::time::Time;
use windlass_engine::world::new_id;
use windlass_report::schema::Moment;

use super::Api;
use crate::answer::{Answered, Refusal, ok};
use crate::ask::Ask;

/// The shelf.
const SHELF: &str = "windlass.actions";
/// How long an action is known.
const KEEP_MS: u64 = 30 * 86_400_000;
/// How many are kept: beyond this the oldest go.
const KEPT_MAX: u64 = 10_000;
/// After so many writes it is looked whether there are too many.
const TRIM_EVERY: u32 = 100;
/// How many wait to be written; more are dropped, with a warning.
const WAITING_MAX: usize = 1_000;
/// How many are shown.
const SHOWN_MAX: u32 = 200;

/// One thing that somebody did.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Action")]
pub(crate) struct Action {
    #[schemars(with = "Moment")]
    pub at: Time,
    /// The name of the token.
    pub by: String,
    /// The call, as the document of the API names it.
    pub call: String,
    /// What it was done to: the path.
    pub on: String,
}

/// The actions, newest first.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Actions")]
pub(crate) struct ActionsView {
    actions: Vec<Action>,
}

/// Where actions are handed in, and from where they are written down.
pub(crate) struct Actions {
    sender: mpsc::Sender<Action>,
    receiver: Mutex<mpsc::Receiver<Action>>,
}

impl Default for Actions {
    fn default() -> Self {
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        Self { sender, receiver: Mutex::new(receiver) }
    }
}

impl Actions {
    /// Hands in one.
    pub(crate) fn note(&self, action: Action) {
        if let Err(refused) = self.sender.try_send(action) {
            tracing::warn!(%refused, "an action is not written down");
        }
    }
}

/// Writes down what is done, for as long as it is let.
pub(crate) async fn write_down(api: Arc<Api>) {
    let mut receiver = api.actions.receiver.lock().await;
    let mut written = 0_u32;
    while let Some(action) = receiver.recv().await {
        write_one(&api, &action).await;
        written = written.wrapping_add(1);
        if written.is_multiple_of(TRIM_EVERY)
            && let Ok(records) = api.store.records()
            && let Err(error) = trim(&api, records).await
        {
            tracing::warn!(%error, "old actions are not forgotten");
        }
    }
}

/// Writes down what is left when the server ends.
pub(crate) async fn write_rest(api: &Api) {
    let mut receiver = api.actions.receiver.lock().await;
    while let Ok(action) = receiver.try_recv() {
        write_one(api, &action).await;
    }
}

/// The record comes first: a page that is told of the action reads it. A store that keeps no records still tells.
async fn write_one(api: &Api, action: &Action) {
    let written = match api.store.records() {
        Ok(records) => put(api, records, action).await,
        Err(_) => Ok(()),
    };
    for done in [written, tell(api, action).await] {
        if let Err(error) = done {
            tracing::warn!(%error, call = action.call, "an action is not written down");
        }
    }
}

/// Tells it to whoever follows the events.
async fn tell(api: &Api, Action { at: _, by, call, on }: &Action) -> Result<(), StoreError> {
    let part = |text: &str| {
        let clean: String = text.chars().filter(|letter| !letter.is_control()).collect();
        clean[..clean.floor_char_boundary(event::Action::PART_BYTES_MAX)].to_owned()
    };
    api.store.act(event::Action { by: part(by), call: part(call), on: part(on) }).await
}

async fn put(api: &Api, records: &dyn Records, action: &Action) -> Result<(), StoreError> {
    let id = new_id(&*api.world).0;
    let value = Json::from_value("an action", action, RECORD_BYTES_MAX)?;
    let put = Put { value, sort: action.at.ms(), label: None, keep: Keep::ForMs(KEEP_MS) };
    let key = RecordKey::new(id.to_string())?;
    let write = RecordWrite { shelf: ShelfName::new(SHELF)?, key, if_rev: IfRev::Any, put: Some(put) };
    records.write(RecordBatch { writes: vec![write], ..RecordBatch::new(id) }).await?;
    Ok(())
}

/// Forgets the oldest beyond what is kept.
async fn trim(api: &Api, records: &dyn Records) -> Result<(), StoreError> {
    let shelf = ShelfName::new(SHELF)?;
    let there: u64 = records.count(shelf.clone(), String::new()).await?.iter().map(|(_, count)| count).sum();
    let surplus = u32::try_from(there.saturating_sub(KEPT_MAX)).unwrap_or(u32::MAX);
    if surplus == 0 {
        return Ok(());
    }
    let oldest = Scan { order: Order::Rev, limit: surplus, ..Scan::of(shelf.clone()) };
    let gone = records.scan(oldest).await?.records.into_iter();
    let delete = |key| RecordWrite { shelf: shelf.clone(), key, if_rev: IfRev::Any, put: None };
    let writes = gone.map(|record| delete(record.key)).collect();
    records.write(RecordBatch { writes, ..RecordBatch::new(new_id(&*api.world).0) }).await?;
    Ok(())
}

/// The newest actions; none where the store keeps no records.
pub(crate) async fn newest(api: &Api) -> Result<Vec<Action>, Refusal> {
    let Ok(records) = api.store.records() else { return Ok(Vec::new()) };
    let shelf = ShelfName::new(SHELF)?;
    let scan = Scan { order: Order::Rev, descending: true, limit: SHOWN_MAX, ..Scan::of(shelf) };
    let found = records.scan(scan).await?.records;
    Ok(found.into_iter().filter_map(|record| record.value.read().ok()).collect())
}

/// `GET /v1/actions`
pub(crate) async fn list(ask: Ask) -> Answered {
    ok(&ActionsView { actions: newest(&ask.api).await? })
}
