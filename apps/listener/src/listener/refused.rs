//! Listeners that do not run, whoever wrote them: what cannot be understood, what can never match, and the second of
//! two that would write into one field.

use std::collections::{BTreeMap, HashMap};

use mongodb::bson::{DateTime, Document};

use super::{Listener, Neighbour, validate};

/// Of all listeners' documents those that are refused, by id, and why. Every instance answers the same for the same
/// documents. A paused one is in nobody's way.
pub(crate) fn refused(
    documents: &[Document],
    own_database: &str,
    own: &[String],
) -> BTreeMap<String, String> {
    let mut refused = BTreeMap::new();
    // By collection, since only there they meet.
    let mut fit: HashMap<String, Vec<Listener>> = HashMap::new();
    for document in in_order(documents) {
        let id = document.get("_id").map(crate::event::id_text).unwrap_or_default();
        let collection = document.get_str("collection").unwrap_or_default();
        let before = fit.entry(collection.to_owned()).or_default();
        let neighbours: Vec<Neighbour<'_>> = before.iter().map(Neighbour).collect();
        let is_paused = document.get_bool("isActive").is_ok_and(|is_active| !is_active);
        match validate(document, own_database, own, if is_paused { &[] } else { &neighbours }) {
            Ok(listener) if !is_paused => before.push(listener),
            Ok(_) => {}
            Err(wrong) => _ = refused.insert(id, wrong.join("; ")),
        }
    }
    refused
}

/// Who was there first: those that somebody has had, then by the time at which they were made, then by id.
fn in_order(documents: &[Document]) -> Vec<&Document> {
    let mut documents: Vec<&Document> = documents.iter().collect();
    documents.sort_by_cached_key(|document| {
        let made = document.get_datetime("createdAt").copied().unwrap_or(DateTime::MAX);
        let id = document.get("_id").map(crate::event::id_text).unwrap_or_default();
        (!document.contains_key("fence"), made, id)
    });
    documents
}

#[cfg(test)]
mod tests {
    use mongodb::bson::doc;

    use super::*;

    fn ids(documents: &[Document]) -> Vec<String> {
        refused(documents, "airank", &[]).into_keys().collect()
    }

    #[test]
    fn the_second_of_two_that_write_into_one_field_is_refused() {
        let with = |id: &str, more: Document| {
            let mut document = doc! { "_id": id, "collection": "people", "jobName": "j" };
            document.extend(more);
            document
        };
        assert_eq!(ids(&[with("a", doc! {}), with("b", doc! {})]), ["b"]);
        assert_eq!(ids(&[with("a", doc! {}), with("b", doc! { "fence": 1_i64 })]), ["a"], "who runs stays");
        let earlier = doc! { "createdAt": DateTime::from_millis(1) };
        assert_eq!(ids(&[with("a", doc! {}), with("b", earlier)]), ["a"]);
        assert!(ids(&[with("a", doc! { "isActive": false }), with("b", doc! {})]).is_empty());
        assert!(ids(&[with("a", doc! {}), with("b", doc! { "collection": "other" })]).is_empty());
        assert_eq!(ids(&[with("a", doc! { "filter": { "fullDocument.x": 1 } })]), ["a"]);
        let third = [with("a", doc! {}), with("b", doc! {}), with("c", doc! { "statusField": "x" })];
        assert_eq!(ids(&third), ["b"]);
    }
}
