//! What is left of listeners that are gone: gaps that nobody will look through, documents that nobody will do again, and
//! positions. The first would be told of for ever, and one that is made anew under its id would begin at the last.
//! What is over is kept, and so is the history of documents.

use std::collections::HashSet;

use futures::TryStreamExt;
use mongodb::bson::{Bson, Document, doc};
use mongodb::error::Error;

use crate::event::id_text;
use crate::home::Home;

/// The state of what nobody waits for any more.
const DROPPED: &str = "dropped";

/// Drops what is open of listeners that do not exist, whoever deleted them and whether anybody heard of it.
pub(crate) async fn forget(home: &Home, lock_ms: i64) -> Result<(), Error> {
    let of_gaps = doc! { "$in": [ "open" ] };
    let of_dead = doc! { "$in": [ "dead", "waiting" ] };
    let there = listeners(home).await?;
    forget_positions(home, &there, lock_ms).await?;
    for (collection, states) in [(&home.gaps, of_gaps), (&home.dead, of_dead)] {
        let named = collection.distinct("listener", doc! { "state": states.clone() }).await?;
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

/// Forgets positions, and seats of parts, that nobody has moved for two leases: before, somebody may have one who has yet
/// to hear that its listener is gone, or may be about to make the listener of a new one.
async fn forget_positions(home: &Home, there: &HashSet<String>, lock_ms: i64) -> Result<(), Error> {
    let still = doc! { "$expr": { "$lt": [ "$at", { "$subtract": [ "$$NOW", 2 * lock_ms ] } ] } };
    let found = home.positions.find(still.clone()).projection(doc! { "listener": 1 }).await?;
    let mut found: Vec<Document> = found.try_collect().await?;
    found.retain(|position| !there.contains(&position.get("listener").map(id_text).unwrap_or_default()));
    for position in found {
        let of_it = position.get("listener").cloned().unwrap_or(Bson::Null);
        let mut this = doc! { "_id": position.get("_id").cloned().unwrap_or(Bson::Null) };
        this.extend(still.clone());
        home.positions.delete_one(this).await?;
        home.partitions.delete_many(doc! { "listener": of_it }).await?;
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
    use mongodb::bson::DateTime;
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
        let long_ago = DateTime::from_millis(home.now().timestamp_millis() - 61_000);
        for (listener, at) in
            [(Bson::ObjectId(there), long_ago), ("gone".into(), long_ago), ("going".into(), home.now())]
        {
            let position = doc! { "_id": id_text(&listener), "listener": listener, "at": at };
            home.positions.insert_one(position).await.unwrap();
        }
        forget(&home, 30_000).await.unwrap();
        let left: Vec<Bson> = home.positions.distinct("_id", doc! {}).await.unwrap();
        let left: HashSet<String> = left.iter().map(id_text).collect();
        assert_eq!(left, HashSet::from([there.to_hex(), "going".to_owned()]));
        let before = ["open", "reconciled", "again", "dead", "waiting"];
        assert_eq!(states(&there.to_hex()).await, before, "a paused one is there");
        assert_eq!(states("gone").await, ["dropped", "reconciled", "again", "dropped", "dropped"]);
    }
}
