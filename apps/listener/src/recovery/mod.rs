//! Recovery: documents that want to be done again, jobs that failed, gaps and backfills.
//!
//! It never races the stream: a document that has no status waits for its event. What is taken up here was asked for
//! by a null, was recorded as a gap, or was there before its listener.

mod again;
mod collision;
mod failed;
mod ledger;
mod redo;
mod rows;
mod sweep;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use futures::StreamExt;
use mongodb::IndexModel;
use mongodb::bson::{Bson, DateTime, Document, doc};
use mongodb::error::Error;
use mongodb::options::IndexOptions;
use windlass_app::AppError;

use crate::context::Context;
use crate::home::is_passing;
use crate::lane::{Following, Handle};
use crate::listener::{Listener, Target};
use crate::settings::JobsTarget;
use crate::sink::Trouble;
use crate::status_field::StatusField;

use self::failed::{Failed, Looked};
pub(crate) use ledger::entry_id;

/// What recovery remembers between two looks; a hint.
#[derive(Default)]
struct Memory {
    /// Collections whose index is there.
    indexed: Mutex<HashSet<String>>,
    /// The last document of a lane and database that a look came to, where it did not come to the end.
    reached: Mutex<HashMap<String, Bson>>,
    /// Lanes of whose scans something is left.
    left: Mutex<HashSet<String>>,
}

impl Memory {
    fn reached(&self, place: &str) -> Option<Bson> {
        self.reached.lock().unwrap_or_else(PoisonError::into_inner).get(place).cloned()
    }

    fn left(&self) -> HashSet<String> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn leave(&self, lane: &str, is_left: bool) {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        match is_left {
            true => left.insert(lane.to_owned()),
            false => left.remove(lane),
        };
    }

    fn reach(&self, place: String, at: Option<Bson>) {
        let mut reached = self.reached.lock().unwrap_or_else(PoisonError::into_inner);
        match at {
            Some(at) => reached.insert(place, at),
            None => reached.remove(&place),
        };
    }
}

/// Lanes that are looked at at once.
const LANES_AT_ONCE: usize = 4;
/// How soon is looked again for the first lane that may be looked at.
const FIRST_PAUSE_MS: u64 = 250;
/// How soon scans go on of which something is left.
const TURN_PAUSE_MS: u64 = 50;

/// Recovers at the start, when it is told to, and every so often. Several lanes at once, and of a long scan some pages
/// at a time, so that none of them holds up the others.
pub(crate) async fn run(context: Arc<Context>) -> Result<(), AppError> {
    let memory = Memory::default();
    let mut looked = Looked::default();
    let mut due_boot_ms = 0;
    loop {
        let is_whole = context.home.world.boot_ms() >= due_boot_ms;
        let has_lane = context.registry.all().iter().any(|handle| listener_of(&context, handle).is_some());
        if is_whole && !has_lane {
            // At the start nobody has a lane yet: what asks then would wait for the whole time otherwise.
            due_boot_ms = context.home.world.boot_ms() + FIRST_PAUSE_MS;
        } else if is_whole {
            look(&context, &memory, &mut looked).await;
            due_boot_ms = context.home.world.boot_ms() + context.work.recovery.as_millis() as u64;
        } else {
            let left = memory.left();
            let lanes = context.registry.all().into_iter().filter(|lane| left.contains(&lane.name));
            let scans = lanes.map(|handle| {
                let (context, memory) = (&context, &memory);
                async move { ended(context, &handle, scan(context, memory, &handle).await) }
            });
            futures::stream::iter(scans).for_each_concurrent(LANES_AT_ONCE, |lane| lane).await;
        }
        let left = due_boot_ms.saturating_sub(context.home.world.boot_ms());
        let wait = if memory.left().is_empty() { left } else { left.min(TURN_PAUSE_MS) };
        tokio::select! {
            () = context.stop.wait() => return Ok(()),
            () = context.home.world.sleep_ms(wait) => {}
            () = context.recover_now.notified() => due_boot_ms = 0,
        }
    }
}

/// One look at all lanes.
async fn look(context: &Arc<Context>, memory: &Memory, looked: &mut Looked) {
    let failed = failed::of_store(context, looked).await.unwrap_or_else(|trouble| {
        tracing::warn!(
            error = trouble.why(),
            "Failed jobs of the store cannot be looked at now, and will be"
        );
        Vec::new()
    });
    let told = Mutex::new(Vec::new());
    let lanes = context.registry.all().into_iter().map(|handle| {
        let (failed, told) = (&failed, &told);
        async move {
            if !context.stop.is_asked() {
                ended(context, &handle, recover(context, memory, &handle, failed, told).await);
            }
        }
    });
    futures::stream::iter(lanes).for_each_concurrent(LANES_AT_ONCE, |lane| lane).await;
    looked.remember(told.into_inner().unwrap_or_else(PoisonError::into_inner));
}

/// One listener that fails never holds up another.
fn ended(context: &Context, handle: &Handle, ended: Result<(), Trouble>) {
    let Err(trouble) = ended else { return };
    handle.failed(&trouble.why());
    context.metrics.failed(&handle.name, trouble.code());
    if !trouble.passes() {
        tracing::warn!(listener = %handle.name, code = trouble.code(), error = trouble.why(), "Recovery of a listener failed");
    }
}

/// The listener of a lane that may be looked at now. One that is behind hears of its documents soon.
fn listener_of(context: &Context, handle: &Handle) -> Option<Arc<Listener>> {
    let seen = handle.seen();
    let is_live = seen.following == Following::Live && !handle.stop.load(Ordering::Relaxed);
    seen.listener.filter(|listener| listener.is_active && is_live && context.holds())
}

async fn recover(
    context: &Arc<Context>,
    memory: &Memory,
    handle: &Arc<Handle>,
    failed: &[Failed],
    told: &Mutex<Vec<(String, DateTime)>>,
) -> Result<(), Trouble> {
    let Some(listener) = listener_of(context, handle) else { return Ok(()) };
    let mut parts = Parts::default();
    parts.end(match context.home.target {
        JobsTarget::Agenda => failed::note_rows(context, handle, &listener).await,
        JobsTarget::Windlass => failed::note_jobs(context, handle, &listener, failed, told).await,
    })?;
    parts.end(again::due(context, handle, &listener).await)?;
    for database in databases(context, &listener.target).await? {
        if let Some(field) = &listener.status_field {
            ensure_index(context, memory, &database, &listener, field).await?;
            parts.end(again::wished(context, memory, handle, &listener, &database, field).await)?;
        }
    }
    parts.end(scan(context, memory, handle).await)?;
    parts.trouble.map_or(Ok(()), Err)
}

/// Some pages of what a lane has to look through.
async fn scan(context: &Context, memory: &Memory, handle: &Arc<Handle>) -> Result<(), Trouble> {
    memory.leave(&handle.name, false);
    let Some(listener) = listener_of(context, handle) else { return Ok(()) };
    let gaps = sweep::gaps(context, handle, &listener).await;
    let backfill = sweep::backfill(context, handle, &listener).await;
    memory.leave(&handle.name, matches!(gaps, Ok(false)) || matches!(backfill, Ok(false)));
    gaps.and(backfill).map(drop)
}

/// Parts of a look at a listener. What never passes in one of them leaves the others alone.
#[derive(Default)]
struct Parts {
    trouble: Option<Trouble>,
}

impl Parts {
    fn end(&mut self, part: Result<(), impl Into<Trouble>>) -> Result<(), Trouble> {
        match part.map_err(Into::into) {
            Err(trouble) if !trouble.passes() => {
                self.trouble.get_or_insert(trouble);
                Ok(())
            }
            other => other,
        }
    }
}

/// The databases that a listener watches, as they are now.
async fn databases(context: &Context, target: &Target) -> Result<Vec<String>, Error> {
    match target {
        Target::Database(name) => Ok(vec![name.clone()]),
        Target::Prefix(_) => {
            let names = context.home.client.list_database_names().await?;
            let mut names: Vec<String> = names.into_iter().filter(|name| target.includes(name)).collect();
            // In an order that a scan can go on in.
            names.sort();
            Ok(names)
        }
    }
}

/// An index of the documents that ask, and of no others. It is made once, where there is a collection.
async fn ensure_index(
    context: &Context,
    memory: &Memory,
    database: &str,
    listener: &Listener,
    field: &StatusField,
) -> Result<(), Error> {
    let name = format!("{database}.{}.{}", listener.collection, field.path());
    if memory.indexed.lock().unwrap_or_else(PoisonError::into_inner).contains(&name) {
        return Ok(());
    }
    let database = context.home.client.database(database);
    if database.list_collection_names().filter(doc! { "name": &listener.collection }).await?.is_empty() {
        return Ok(());
    }
    let collection = database.collection::<Document>(&listener.collection);
    for only in field.wishes() {
        let Some((path, value)) = only.iter().next().map(|(path, value)| (path.clone(), value.clone()))
        else {
            continue;
        };
        let index = match value.as_str() {
            Some(word) => format!("windlassAgain_{path}_{word}"),
            None => format!("windlassAgain_{path}"),
        };
        let options = IndexOptions::builder().partial_filter_expression(only).name(index).build();
        let model = IndexModel::builder().keys(doc! { path: 1 }).options(options).build();
        if let Err(error) = collection.create_index(model).await {
            if is_passing(&error) {
                return Err(error);
            }
            tracing::warn!(collection = name, error = %error.kind, "The index of documents that ask cannot be made; they are looked for without");
        }
    }
    memory.indexed.lock().unwrap_or_else(PoisonError::into_inner).insert(name);
    Ok(())
}
