//! The ledger: every write, with its token, as the server remembers it. Jobs are compared with it.

use std::collections::{BTreeMap, BTreeSet};

use mongodb::Client;
use mongodb::bson::{Document, Timestamp, doc};
use mongodb::options::FullDocumentType;

/// A write.
#[derive(Debug, Clone)]
pub struct Entry {
    pub token: String,
    pub operation: String,
    pub collection: String,
    pub document: String,
    /// The whole event.
    pub event: Document,
}

/// All writes to collections of databases that begin so, from a moment until now, in their order.
pub async fn read(client: &Client, prefix: &str, since: Timestamp) -> Vec<Entry> {
    // Where somebody writes all the time, as into the listener's own database, there is no other end.
    let now = client.database("admin").run_command(doc! { "hello": 1 }).await.unwrap();
    let now = now.get_timestamp("operationTime").unwrap();
    let stages = [doc! { "$match": { "ns.db": { "$regex": format!("^{prefix}") } } }];
    let watch = client.watch().pipeline(stages).start_at_operation_time(since);
    let watch = watch.full_document(FullDocumentType::WhenAvailable);
    let mut stream = watch.await.unwrap().with_type::<Document>();
    let mut entries = Vec::new();
    loop {
        match stream.next_if_any().await.unwrap() {
            Some(event) if event.get_timestamp("clusterTime").is_ok_and(|at| at > now) => return entries,
            Some(event) => entries.extend(entry(event)),
            None => return entries,
        }
    }
}

fn entry(event: Document) -> Option<Entry> {
    let operation = event.get_str("operationType").ok()?.to_owned();
    let ns = event.get_document("ns").ok()?;
    let id = event.get_document("documentKey").ok()?.get("_id")?;
    let document = match id {
        mongodb::bson::Bson::ObjectId(id) => id.to_hex(),
        mongodb::bson::Bson::String(text) => text.clone(),
        other => other.to_string(),
    };
    Some(Entry {
        token: event.get_document("_id").ok()?.get_str("_data").ok()?.to_owned(),
        operation,
        collection: ns.get_str("coll").ok()?.to_owned(),
        document,
        event,
    })
}

/// Each write that is expected has one row, and there are no others; rows of one document run in order.
pub fn exact(what: &str, expected: &[&Entry], rows: &[Document]) {
    let wanted: BTreeSet<&str> = expected.iter().map(|entry| entry.token.as_str()).collect();
    let tokens: Vec<String> = rows.iter().map(token).collect();
    let found: BTreeSet<&str> = tokens.iter().map(String::as_str).collect();
    let missing: Vec<&&Entry> =
        expected.iter().filter(|entry| !found.contains(entry.token.as_str())).collect();
    assert!(
        missing.is_empty(),
        "{what}: {} of {} have no job, such as {:?}",
        missing.len(),
        expected.len(),
        missing[0]
    );
    let extra: Vec<&&str> = found.iter().filter(|token| !wanted.contains(**token)).collect();
    assert!(extra.is_empty(), "{what}: {} jobs too many, such as {:?}", extra.len(), extra[0]);
    assert_eq!(rows.len(), wanted.len(), "{what}: a write has two jobs");
    in_order(what, rows);
}

fn token(row: &Document) -> String {
    row.get_document("data").unwrap().get_str("token").unwrap_or_default().to_owned()
}

/// Rows of one document have a rising `nextRunAt` in the order of their tokens.
pub fn in_order(what: &str, rows: &[Document]) {
    let mut by_document: BTreeMap<String, Vec<(String, i64)>> = BTreeMap::new();
    for row in rows {
        let data = row.get_document("data").unwrap();
        let key = format!("{}/{}", data.get_str("database").unwrap(), data.get_str("documentId").unwrap());
        let due = row.get_datetime("nextRunAt").unwrap().timestamp_millis();
        by_document.entry(key).or_default().push((token(row), due));
    }
    for (document, mut jobs) in by_document {
        jobs.sort();
        let rising = jobs.windows(2).all(|pair| pair[0].1 < pair[1].1);
        assert!(rising, "{what}: jobs of {document} are not in order: {jobs:?}");
    }
}
