//! What is left of listeners that are gone: gaps that nobody will look through, and documents that nobody will do again.
//! They would be told of for ever. What is over is kept, and so is the history of documents.

use std::collections::HashSet;

use futures::TryStreamExt;
use mongodb::bson::{Document, doc};
use mongodb::error::Error;

use crate::event::id_text;
use crate::home::Home;

/// The state of what nobody waits for any more.
const DROPPED: &str = "dropped";

/// Drops what is open of listeners that do not exist, whoever deleted them and whether anybody heard of it.
pub(crate) async fn forget(home: &Home) -> Result<(), Error> {
    let of_gaps = doc! { "$in": [ "open" ] };
    let of_dead = doc! { "$in": [ "dead", "waiting" ] };
    let mut known: Option<HashSet<String>> = None;
    for (collection, states) in [(&home.gaps, of_gaps), (&home.dead, of_dead)] {
        let named = collection.distinct("listener", doc! { "state": states.clone() }).await?;
        if named.is_empty() {
            continue;
        }
        let there = match &known {
            Some(there) => there,
            None => known.insert(listeners(home).await?),
        };
        let gone: Vec<_> = named.into_iter().filter(|name| !there.contains(&id_text(name))).collect();
        if !gone.is_empty() {
            let open = doc! { "listener": { "$in": &gone }, "state": states };
            let dropped = collection.update_many(open, doc! { "$set": { "state": DROPPED } }).await?;
            tracing::info!(
                listeners = gone.len(),
                dropped = dropped.modified_count,
                "What was open of listeners that are gone is dropped"
            );
        }
    }
    Ok(())
}

/// The ids of all listeners, as texts.
async fn listeners(home: &Home) -> Result<HashSet<String>, Error> {
    let found = home.listeners.find(doc! {}).projection(doc! { "_id": 1 }).await?;
    let found: Vec<Document> = found.try_collect().await?;
    Ok(found.iter().filter_map(|listener| listener.get("_id").map(id_text)).collect())
}

#[cfg(test)]
mod tests {
    use mongodb::bson::oid::ObjectId;

    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn what_is_open_of_a_listener_that_is_gone_is_dropped() {
        let place = crate::testing::Place::new().await;
        let home = place.home().await;
        let there = ObjectId::new();
        let paused = doc! { "_id": there, "collection": "people", "jobName": "j", "isActive": false };
        home.listeners.insert_one(paused).await.unwrap();
        let states = async |listener: &str| {
            let mut states = Vec::new();
            for collection in [&home.gaps, &home.dead] {
                let found =
                    collection.find(doc! { "listener": listener }).sort(doc! { "_id": 1 }).await.unwrap();
                let found: Vec<Document> = found.try_collect().await.unwrap();
                states.extend(found.iter().map(|entry| entry.get_str("state").unwrap().to_owned()));
            }
            states
        };
        for listener in [there.to_hex(), "gone".to_owned()] {
            let entry = |state: &str| doc! { "_id": format!("{state}-{listener}"), "listener": &listener, "state": state };
            home.gaps.insert_many(["open", "reconciled"].map(entry)).await.unwrap();
            home.dead.insert_many(["again", "dead", "waiting"].map(entry)).await.unwrap();
        }
        forget(&home).await.unwrap();
        let before = ["open", "reconciled", "again", "dead", "waiting"];
        assert_eq!(states(&there.to_hex()).await, before, "a paused one is there");
        assert_eq!(states("gone").await, ["dropped", "reconciled", "again", "dropped", "dropped"]);
    }
}
