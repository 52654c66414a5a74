//! Recovery: documents that want to be done again, jobs that failed, gaps and backfills.
//!
//! It never races the stream: a document that has no status waits for its event. What is taken up here was asked for
//! by a null, was recorded as a gap, or was there before its listener.

mod again;
mod failed;
mod ledger;
mod sweep;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use mongodb::IndexModel;
use mongodb::bson::{Document, doc};
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
}

/// Recovers at the start, when it is told to, and every so often.
pub(crate) async fn run(context: Arc<Context>) -> Result<(), AppError> {
    let memory = Memory::default();
    let mut looked = Looked::default();
    loop {
        let failed = failed::of_store(&context, &mut looked).await.unwrap_or_else(|trouble| {
            tracing::warn!(
                error = trouble.why(),
                "Failed jobs of the store cannot be looked at now, and will be"
            );
            Vec::new()
        });
        for handle in context.registry.all() {
            if context.stop.is_asked() {
                return Ok(());
            }
            if let Err(trouble) = recover(&context, &memory, &handle, &failed, &mut looked).await {
                // One listener that fails never holds up another.
                handle.failed(&trouble.why());
                context.metrics.failed(&handle.id.text(), trouble.code());
                if !trouble.passes() {
                    tracing::warn!(listener = %handle.id.text(), code = trouble.code(), error = trouble.why(), "Recovery of a listener failed");
                }
            }
        }
        tokio::select! {
            () = context.stop.wait() => return Ok(()),
            () = context.home.world.sleep_ms(context.work.recovery.as_millis() as u64) => {}
            () = context.recover_now.notified() => {}
        }
    }
}

async fn recover(
    context: &Arc<Context>,
    memory: &Memory,
    handle: &Arc<Handle>,
    failed: &[Failed],
    looked: &mut Looked,
) -> Result<(), Trouble> {
    let seen = handle.seen();
    let Some(listener) = seen.listener.filter(|listener| listener.is_active) else { return Ok(()) };
    // One that is behind hears of its documents soon.
    if seen.following != Following::Live || handle.stop.load(Ordering::Relaxed) || !context.holds() {
        return Ok(());
    }
    match context.home.target {
        JobsTarget::Agenda => failed::note_rows(context, handle, &listener).await?,
        JobsTarget::Windlass => failed::note_jobs(context, handle, &listener, failed, looked).await?,
    }
    again::due(context, handle, &listener).await?;
    for database in databases(context, &listener.target).await? {
        if let Some(field) = &listener.status_field {
            ensure_index(context, memory, &database, &listener, field).await?;
            again::wished(context, handle, &listener, &database, field).await?;
        }
    }
    sweep::gaps(context, handle, &listener).await?;
    sweep::backfill(context, handle, &listener).await
}

/// The databases that a listener watches, as they are now.
async fn databases(context: &Context, target: &Target) -> Result<Vec<String>, Error> {
    match target {
        Target::Database(name) => Ok(vec![name.clone()]),
        Target::Prefix(_) => {
            let names = context.home.client.list_database_names().await?;
            Ok(names.into_iter().filter(|name| target.includes(name)).collect())
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
    let mut paths = vec![field.part("status"), field.path().to_owned()];
    if field.private() != field.path() {
        paths.push(field.private().to_owned());
    }
    for path in paths {
        let only = doc! { &path: { "$type": 10 } };
        let options = IndexOptions::builder()
            .partial_filter_expression(only)
            .name(format!("windlassAgain_{path}"))
            .build();
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
