//! What happened to documents, for whoever asks; gone after a month.
//!
//! Jobs that were written together share a page: one document with an index over all that it names costs a fraction of
//! an entry for each. What is rare (failed, done again, given up) is an entry of its own.

use std::sync::Arc;

use futures::TryStreamExt;
use mongodb::bson::{Bson, DateTime, Document, doc};
use mongodb::error::Error;

use crate::context::Context;
use crate::event::id_text;
use crate::home::Home;
use crate::job::{NewJob, Origin};

/// Entries of a document that are shown.
pub(crate) const SHOWN_MAX: usize = 20;

/// Notes that jobs were written. What cannot be noted is not: the rows tell it, too.
pub(crate) async fn note_jobs(context: &Arc<Context>, jobs: &[NewJob]) {
    if jobs.is_empty() {
        return;
    }
    let documents: Vec<String> = jobs.iter().map(|job| id_text(&job.origin.document)).collect();
    let entries: Vec<Document> = jobs.iter().map(|job| part(&job.origin, Some(&job.name))).collect();
    let page = doc! {
        "documents": documents, "what": "job", "instance": &context.instance, "at": context.home.now(),
        "entries": entries,
    };
    if let Err(error) = context.home.history.insert_one(page).await {
        tracing::debug!(error = %error.kind, "The history of documents could not be written");
    }
}

/// Notes what happened to one document.
pub(crate) async fn note(context: &Context, origin: &Origin, what: &str, job: &str, why: Option<&str>) {
    let mut entry = part(origin, Some(job));
    entry
        .extend(doc! { "what": what, "error": why, "instance": &context.instance, "at": context.home.now() });
    if let Err(error) = context.home.history.insert_one(entry).await {
        tracing::debug!(error = %error.kind, "The history of a document could not be written");
    }
}

fn part(origin: &Origin, job: Option<&str>) -> Document {
    doc! {
        "document": id_text(&origin.document),
        "database": &origin.database,
        "collection": &origin.collection,
        "listener": &origin.listener,
        "operationType": origin.operation,
        "jobId": job,
    }
}

/// The newest entries of a document, the newest first.
pub(crate) async fn of(home: &Home, id: &str) -> Result<Vec<Document>, Error> {
    let mut found: Vec<Document> = home
        .history
        .find(doc! { "document": id })
        .projection(doc! { "_id": 0 })
        .sort(doc! { "at": -1 })
        .limit(SHOWN_MAX as i64)
        .await?
        .try_collect()
        .await?;
    let its_own = doc! { "$filter": { "input": "$entries", "cond": { "$eq": [ "$$this.document", { "$literal": id } ] } } };
    let pages = vec![
        doc! { "$match": { "documents": id } },
        doc! { "$sort": { "at": -1 } },
        doc! { "$limit": SHOWN_MAX as i64 },
        doc! { "$project": { "_id": 0, "what": 1, "instance": 1, "at": 1, "entries": its_own } },
    ];
    let mut pages = home.history.aggregate(pages).await?;
    while let Some(mut page) = pages.try_next().await? {
        let Some(Bson::Array(entries)) = page.remove("entries") else { continue };
        // The last of a page came last.
        for entry in entries.into_iter().rev() {
            let Bson::Document(mut entry) = entry else { continue };
            entry.extend(page.clone());
            found.push(entry);
        }
    }
    let at = |entry: &Document| entry.get_datetime("at").copied().unwrap_or(DateTime::MIN);
    found.sort_by_key(|entry| std::cmp::Reverse(at(entry)));
    found.truncate(SHOWN_MAX);
    Ok(found)
}
