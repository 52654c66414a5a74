//! What happened to documents, for whoever asks; gone after a month.
//!
//! Jobs that were written together share a page: one document with an index over all that it names costs a fraction of
//! an entry for each, and what is the same for many of them is told once. What is rare (failed, done again, given up) is an entry of its own.

use std::collections::BTreeMap;
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
    let mut kinds: BTreeMap<(&str, &str, &str, &str), i32> = BTreeMap::new();
    let mut of: Vec<Document> = Vec::new();
    let (mut documents, mut names, mut kind_of) = (Vec::new(), Vec::new(), Vec::new());
    for job in jobs {
        let Origin { listener, database, collection, operation, document, .. } = &job.origin;
        let kind = *kinds.entry((listener, database, collection, operation)).or_insert_with(|| {
            of.push(doc! {
                "database": database, "collection": collection, "listener": listener, "operationType": *operation,
            });
            of.len() as i32 - 1
        });
        documents.push(id_text(document));
        names.push(job.name.as_str());
        kind_of.push(kind);
    }
    let page = doc! {
        "documents": documents, "jobs": names, "kinds": kind_of, "of": of, "what": "job",
        "instance": &context.instance, "at": context.home.now(),
    };
    if let Err(error) = context.home.history.insert_one(page).await {
        tracing::debug!(error = %error.kind, "The history of documents could not be written");
    }
}

/// Notes what happened to one document.
pub(crate) async fn note(context: &Context, origin: &Origin, what: &str, job: &str, why: Option<&str>) {
    let entry = doc! {
        "document": id_text(&origin.document), "database": &origin.database, "collection": &origin.collection,
        "listener": &origin.listener, "operationType": origin.operation, "jobId": job, "what": what, "error": why,
        "instance": &context.instance, "at": context.home.now(),
    };
    if let Err(error) = context.home.history.insert_one(entry).await {
        tracing::debug!(error = %error.kind, "The history of a document could not be written");
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
    let told = doc! { "$zip": { "inputs": [ "$documents", "$jobs", "$kinds" ] } };
    let is_its_own = doc! { "$eq": [ { "$first": "$$this" }, { "$literal": id } ] };
    let pages = vec![
        doc! { "$match": { "documents": id } },
        doc! { "$sort": { "at": -1 } },
        doc! { "$limit": SHOWN_MAX as i64 },
        doc! { "$set": { "told": { "$filter": { "input": told, "cond": is_its_own } } } },
        doc! { "$project": { "_id": 0, "documents": 0, "jobs": 0, "kinds": 0 } },
    ];
    let mut pages = home.history.aggregate(pages).await?;
    while let Some(page) = pages.try_next().await? {
        found.extend(entries(page));
    }
    let at = |entry: &Document| entry.get_datetime("at").copied().unwrap_or(DateTime::MIN);
    found.sort_by_key(|entry| std::cmp::Reverse(at(entry)));
    found.truncate(SHOWN_MAX);
    Ok(found)
}

/// The entries of a page that are told, the last first: it came last.
fn entries(mut page: Document) -> Vec<Document> {
    let array = |page: &mut Document, name: &str| match page.remove(name) {
        Some(Bson::Array(found)) => found,
        _ => Vec::new(),
    };
    let (told, of) = (array(&mut page, "told"), array(&mut page, "of"));
    let entry = |told: &Bson| {
        let [document, job, kind] = told.as_array()?.as_slice() else { return None };
        let mut entry = of.get(usize::try_from(kind.as_i32()?).ok()?)?.as_document()?.clone();
        entry.extend(doc! { "document": document.clone(), "jobId": job.clone() });
        entry.extend(page.clone());
        Some(entry)
    };
    told.iter().rev().filter_map(entry).collect()
}
