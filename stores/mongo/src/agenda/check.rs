//! What a collection lacks, in plain words.

use futures::TryStreamExt;
use mongodb::bson::{Bson, Document, doc};
use mongodb::error::Error;
use mongodb::{Collection, IndexModel};
use windlass_core::error::StoreError;

use super::index::{INDEX_NAME, LOCKED_INDEX_NAME, index_keys};
use crate::error::failed;

/// A collection that is not there.
const NAMESPACE_NOT_FOUND: i32 = 26;

/// Something that a collection lacks, and what would put it right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What is missing or wrong.
    pub what: String,
    /// What to do about it.
    pub then: String,
    /// Whether the collection can be worked all the same.
    pub only_slow: bool,
    /// Whether nothing is wrong, as far as can be seen from here.
    pub is_note: bool,
}

/// What a collection of Agenda's lacks, where a lock lasts so long. Changes nothing.
pub async fn check(rows: &Collection<Document>, lock_lifetime_ms: u32) -> Result<Vec<Finding>, StoreError> {
    findings(rows, lock_lifetime_ms).await.map_err(failed)
}

async fn findings(rows: &Collection<Document>, lock_lifetime_ms: u32) -> Result<Vec<Finding>, Error> {
    let (mut found, namespace) = (Vec::new(), &rows.namespace().to_string());
    let seconds = f64::from(lock_lifetime_ms) / 1e3;
    let Some(indexes) = indexes(rows).await? else {
        let what = format!("there is no collection {namespace} yet");
        let then = "it comes with the first job; check again then".to_owned();
        return Ok(vec![Finding { what, then, only_slow: true, is_note: true }]);
    };
    found.extend(missing_index(namespace, &indexes));
    if !indexes.iter().any(|index| name(index) == Some(LOCKED_INDEX_NAME)) {
        found.push(Finding {
            what: format!("{namespace} has no index {LOCKED_INDEX_NAME}: looking for locks that have run out reads all that waits"),
            then: "create it on { lockedAt: 1 }, for rows whose lockedAt is a date".to_owned(),
            only_slow: true,
            is_note: false,
        });
    }
    let strange = doc! { "_id": { "$not": { "$type": "objectId" } } };
    if let Some(row) = rows.find_one(strange).projection(doc! { "name": 1 }).await? {
        let name = row.get_str("name").unwrap_or("?");
        found.push(Finding {
            what: format!("{namespace} has rows whose _id is no ObjectId, such as one of {name:?}; they are left to Agenda 4 and 5"),
            then: "let MongoDB choose the ids".to_owned(),
            only_slow: false,
            is_note: false,
        });
    }
    found.push(Finding {
        what: format!("a lock of {namespace} is taken back after {seconds} s without being touched"),
        then: format!("let LOCK_LIFETIME_SECONDS be the lockLifetime of every Node definition (here {seconds} s; Agenda's own default is 600 s): each side takes back the other's locks by its own idea of it"),
        only_slow: true,
        is_note: true,
    });
    Ok(found)
}

async fn indexes(rows: &Collection<Document>) -> Result<Option<Vec<IndexModel>>, Error> {
    match rows.list_indexes().await {
        Ok(cursor) => Ok(Some(cursor.try_collect().await?)),
        Err(error) if crate::error::code(&error) == Some(NAMESPACE_NOT_FOUND) => Ok(None),
        Err(error) => Err(error),
    }
}

fn missing_index(namespace: &str, indexes: &[IndexModel]) -> Option<Finding> {
    let then = format!("create it on {}, or let Agenda do so (@hokify/agenda: ensureIndex)", index_keys());
    let what = match indexes.iter().find(|index| name(index) == Some(INDEX_NAME)) {
        None => format!(
            "{namespace} has no index {INDEX_NAME}: every claim reads the whole collection, and sorts it"
        ),
        Some(index) if !same_keys(index) => {
            format!("the index {INDEX_NAME} of {namespace} is on {}, which no claim can use", index.keys)
        }
        Some(_) => return None,
    };
    Some(Finding { what, then, only_slow: true, is_note: false })
}

fn name(index: &IndexModel) -> Option<&str> {
    index.options.as_ref()?.name.as_deref()
}

/// Node writes 1 as a double, or as an integer.
fn same_keys(index: &IndexModel) -> bool {
    let number = |bson: &Bson| match bson {
        Bson::Int32(number) => i64::from(*number),
        Bson::Int64(number) => *number,
        Bson::Double(number) => *number as i64,
        _ => 0,
    };
    let plain = |keys: &Document| -> Vec<(String, i64)> {
        keys.iter().map(|(key, order)| (key.clone(), number(order))).collect()
    };
    plain(&index.keys) == plain(&index_keys())
}
