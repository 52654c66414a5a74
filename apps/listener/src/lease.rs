//! Who has a lane: a lease by the server's clock, and a fence that rises with each change of owner.

use std::collections::{BTreeMap, BTreeSet};

use futures::TryStreamExt;
use mongodb::bson::{Bson, DateTime, Document, doc};
use mongodb::error::Error;
use mongodb::options::ReturnDocument;
use mongodb::{ClientSession, Collection};

use crate::event::id_text;
use crate::home::{Home, number};
use crate::lane::{Handle, LaneId};
use crate::listener::{Listener, refused};
use crate::split;

/// Where the lock of a lane is: in the listener's own document, or for a part of one in a document of ours.
struct Seat<'a> {
    documents: &'a Collection<Document>,
    id: Bson,
}

fn seat<'a>(home: &'a Home, lane: &LaneId) -> Seat<'a> {
    match lane.part {
        None => Seat { documents: &home.listeners, id: lane.listener.clone() },
        Some(_) => Seat { documents: &home.partitions, id: Bson::String(lane.text()) },
    }
}

/// A lane that is ours now.
pub(crate) struct Claimed {
    pub(crate) fence: i64,
    /// Its position, as the owner before us left it.
    pub(crate) position: Document,
    /// The listener as it is.
    pub(crate) document: Document,
    /// Whether it was taken from somebody who was not heard of.
    pub(crate) stolen: bool,
}

/// Takes a lane that is free, or whose owner has not been heard of for the length of a lease. Lock and fence are one
/// transaction, so that of two who reach for a lane one has both.
pub(crate) async fn claim(
    home: &Home,
    instance: &str,
    lane: &LaneId,
    lock_ms: i64,
) -> Result<Option<Claimed>, Error> {
    let mut session = home.session().await?;
    session.start_transaction().await?;
    match within(home, &mut session, instance, lane, lock_ms).await {
        Ok(Some(claimed)) => {
            session.commit_transaction().await?;
            Ok(Some(claimed))
        }
        Ok(None) => {
            let _ = session.abort_transaction().await;
            Ok(None)
        }
        Err(error) => {
            let _ = session.abort_transaction().await;
            Err(error)
        }
    }
}

async fn within(
    home: &Home,
    session: &mut ClientSession,
    instance: &str,
    lane: &LaneId,
    lock_ms: i64,
) -> Result<Option<Claimed>, Error> {
    let Seat { documents, id } = seat(home, lane);
    let stale = doc! { "$lt": [ "$lockInfo.lastHeartbeat", { "$subtract": [ "$$NOW", lock_ms ] } ] };
    let free = doc! {
        "_id": id.clone(), "isActive": { "$ne": false },
        "$or": [ { "lockInfo.instanceId": Bson::Null }, { "$expr": stale } ],
    };
    let held = doc! { "$set": { "lockInfo": { "instanceId": instance, "lastHeartbeat": "$$NOW" } } };
    let before = documents
        .find_one_and_update(free, vec![held])
        .return_document(ReturnDocument::Before)
        .session(&mut *session)
        .await?;
    let Some(before) = before else { return Ok(None) };
    let listener = doc! { "_id": lane.listener.clone(), "isActive": { "$ne": false } };
    let document = home.listeners.find_one(listener).session(&mut *session).await?;
    let lanes = document.as_ref().and_then(|document| Listener::read(document).ok());
    let lanes = lanes.map(|listener| LaneId::of(&listener)).unwrap_or_default();
    let Some(document) = document.filter(|_| lanes.contains(lane)) else { return Ok(None) };
    let mut set = doc! { "listener": lane.listener.clone() };
    if let Some((part, of)) = lane.part {
        set.extend(doc! { "part": i64::from(part), "of": i64::from(of) });
    }
    let raised = doc! { "$inc": { "fence": 1_i64 }, "$set": set };
    let position = home
        .positions
        .find_one_and_update(doc! { "_id": lane.text() }, raised)
        .upsert(true)
        .return_document(ReturnDocument::After)
        .session(&mut *session)
        .await?;
    let mut position = position.unwrap_or_default();
    if !position.contains_key("token") || position.contains_key("splitAt") {
        let Some(start) = split::inherit(home, session, lane, &lanes).await? else { return Ok(None) };
        if !start.is_empty() {
            let begun = doc! { "$set": start.clone(), "$unset": { "splitAt": "" } };
            home.positions.update_one(doc! { "_id": lane.text() }, begun).session(&mut *session).await?;
            position.extend(start);
            position.remove("splitAt");
        }
    }
    let fence = number(&position, "fence");
    documents
        .update_one(doc! { "_id": id }, doc! { "$set": { "fence": fence } })
        .session(&mut *session)
        .await?;
    let stolen = before.get_document("lockInfo").is_ok_and(|lock| lock.get_str("instanceId").is_ok());
    Ok(Some(Claimed { fence, position, document, stolen }))
}

/// Says that we are alive, in one write for all listeners. Answers which lanes are ours by what the server has.
pub(crate) async fn heartbeat(
    home: &Home,
    instance: &str,
    expected: usize,
    has_parts: bool,
) -> Result<Option<BTreeSet<String>>, Error> {
    let mine = doc! { "lockInfo.instanceId": instance };
    let beat = vec![doc! { "$set": { "lockInfo.lastHeartbeat": "$$NOW" } }];
    let mut touched = home.listeners.update_many(mine.clone(), beat.clone()).await?.matched_count;
    if has_parts {
        touched += home.partitions.update_many(mine.clone(), beat).await?.matched_count;
    }
    if touched >= expected as u64 {
        return Ok(None);
    }
    let mut found = BTreeSet::new();
    for documents in [&home.listeners, &home.partitions] {
        let mut held = documents.find(mine.clone()).projection(doc! { "_id": 1 }).await?;
        while let Some(document) = held.try_next().await? {
            found.extend(document.get("_id").map(id_text));
        }
    }
    Ok(Some(found))
}

/// The fence of a transaction that moves no position: renews the lock of a lane, if it is still ours. Whoever takes
/// the lane over meanwhile writes the same document, so that of the two transactions one is committed. Not the
/// position, with which the stream's own transactions would collide.
pub(crate) async fn fence(
    home: &Home,
    session: &mut ClientSession,
    instance: &str,
    handle: &Handle,
) -> Result<bool, Error> {
    let Seat { documents, id } = seat(home, &handle.id);
    let ours = doc! { "_id": id, "fence": handle.fence, "lockInfo.instanceId": instance };
    let beat = vec![doc! { "$set": { "lockInfo.lastHeartbeat": "$$NOW" } }];
    Ok(documents.update_one(ours, beat).session(session).await?.matched_count > 0)
}

/// Lets a lane go.
pub(crate) async fn release(home: &Home, instance: &str, lane: &LaneId) -> Result<(), Error> {
    let Seat { documents, id } = seat(home, lane);
    let mine = doc! { "_id": id, "lockInfo.instanceId": instance };
    documents.update_one(mine, doc! { "$unset": { "lockInfo": 1 } }).await?;
    Ok(())
}

/// Lets everything go.
pub(crate) async fn release_all(home: &Home, instance: &str) -> Result<u64, Error> {
    // Whoever hears of a lock that is free counts us no more.
    home.instances.update_one(doc! { "_id": instance }, doc! { "$unset": { "lastSeen": "" } }).await?;
    let (mine, free) = (doc! { "lockInfo.instanceId": instance }, doc! { "$unset": { "lockInfo": 1 } });
    let whole = home.listeners.update_many(mine.clone(), free.clone()).await?.modified_count;
    let parts = home.partitions.update_many(mine, free).await?.modified_count;
    home.instances.delete_one(doc! { "_id": instance }).await?;
    Ok(whole + parts)
}

/// Says that this instance is there.
pub(crate) async fn register(home: &Home, instance: &str, lanes: usize, pid: u32) -> Result<(), Error> {
    let set = doc! { "$set": { "lastSeen": "$$NOW", "lanes": lanes as i64, "pid": i64::from(pid), "startedAt": { "$ifNull": [ "$startedAt", "$$NOW" ] } } };
    home.instances.update_one(doc! { "_id": instance }, vec![set]).upsert(true).await?;
    Ok(())
}

/// A lane, and who has it.
#[derive(Debug, Clone)]
pub(crate) struct Held {
    pub(crate) lane: LaneId,
    pub(crate) owner: Option<String>,
    pub(crate) heartbeat: Option<DateTime>,
}

/// All lanes that somebody should have, and who does.
pub(crate) struct Holdings {
    pub(crate) lanes: Vec<Held>,
    pub(crate) documents: BTreeMap<String, Document>,
    /// Instances that were heard of within a lease.
    pub(crate) instances: BTreeSet<String>,
    /// Listeners that nobody should have, by id, and why.
    pub(crate) refused: BTreeMap<String, String>,
    /// The same by their ids as they are in the collection.
    pub(crate) refused_keys: Vec<Bson>,
}

/// Looks at all listeners.
pub(crate) async fn holdings(home: &Home, lock_ms: i64) -> Result<Holdings, Error> {
    let mut lanes = Vec::new();
    let mut documents = BTreeMap::new();
    let active = home.listeners.find(doc! { "isActive": { "$ne": false } }).await?;
    let active: Vec<Document> = active.try_collect().await?;
    let refused = refused(&active, &home.database, &home.own_names());
    let mut refused_keys = Vec::new();
    for document in active {
        if refused.contains_key(&document.get("_id").map(id_text).unwrap_or_default()) {
            refused_keys.extend(document.get("_id").cloned());
            continue;
        }
        let Ok(listener) = Listener::read(&document) else { continue };
        let parts = LaneId::of(&listener);
        if let [lane] = parts.as_slice()
            && lane.part.is_none()
        {
            lanes.push(held(lane.clone(), Some(&document)));
        } else {
            seats(home, &parts, &mut lanes).await?;
        }
        documents.insert(listener.id(), document);
    }
    let live = doc! { "$expr": { "$gte": [ "$lastSeen", { "$subtract": [ "$$NOW", lock_ms ] } ] } };
    let mut instances = BTreeSet::new();
    let mut found = home.instances.find(live).projection(doc! { "_id": 1 }).await?;
    while let Some(instance) = found.try_next().await? {
        instances.extend(instance.get_str("_id").map(str::to_owned));
    }
    Ok(Holdings { lanes, documents, instances, refused, refused_keys })
}

/// The seats of the parts of a listener, which are made when they are first asked for.
async fn seats(home: &Home, parts: &[LaneId], lanes: &mut Vec<Held>) -> Result<(), Error> {
    let ids: Vec<String> = parts.iter().map(LaneId::text).collect();
    let mut there: BTreeMap<String, Document> = BTreeMap::new();
    let mut found = home.partitions.find(doc! { "_id": { "$in": &ids } }).await?;
    while let Some(seat) = found.try_next().await? {
        there.insert(seat.get_str("_id").unwrap_or_default().to_owned(), seat);
    }
    for part in parts {
        let seat = there.get(&part.text());
        if seat.is_none() {
            let new = doc! { "$setOnInsert": { "listener": part.listener.clone() } };
            home.partitions.update_one(doc! { "_id": part.text() }, new).upsert(true).await?;
        }
        lanes.push(held(part.clone(), seat));
    }
    Ok(())
}

fn held(lane: LaneId, document: Option<&Document>) -> Held {
    let lock = document.and_then(|document| document.get_document("lockInfo").ok());
    let owner = lock.and_then(|lock| lock.get_str("instanceId").ok()).map(str::to_owned);
    let heartbeat = lock.and_then(|lock| lock.get_datetime("lastHeartbeat").ok()).copied();
    Held { lane, owner, heartbeat }
}

#[cfg(test)]
mod tests {
    use mongodb::bson::Timestamp;

    use super::*;
    use crate::lane::Registry;
    use crate::testing::Place;
    use crate::token::Token;

    /// Whoever was taken over from passes no fence any more; and of one who passes it and one who takes over at the same
    /// time, one transaction is committed.
    #[tokio::test(flavor = "multi_thread")]
    async fn b02_the_lock_is_a_fence_within_a_transaction() {
        let place = Place::new().await;
        let home = place.home().await;
        let listener = doc! { "_id": "l", "collection": "people", "jobName": "j", "isActive": true };
        home.listeners.insert_one(listener).await.unwrap();
        let lane = LaneId { listener: Bson::String("l".to_owned()), part: None };
        let claimed = claim(&home, "a", &lane, 30_000).await.unwrap().unwrap();
        let start = Token::before(Timestamp { time: 1, increment: 1 });
        let handle = Registry::default().add(lane.clone(), claimed.fence, start, 0);
        let mut session = home.session().await.unwrap();
        session.start_transaction().await.unwrap();
        assert!(fence(&home, &mut session, "a", &handle).await.unwrap());
        // A lease of no length is stale at once.
        assert!(claim(&home, "b", &lane, -60_000).await.is_err(), "it collides with the transaction");
        session.commit_transaction().await.unwrap();
        let taken = claim(&home, "b", &lane, -60_000).await.unwrap().unwrap();
        assert!(taken.stolen && taken.fence > handle.fence);
        session.start_transaction().await.unwrap();
        assert!(!fence(&home, &mut session, "a", &handle).await.unwrap(), "it is another's");
        session.abort_transaction().await.unwrap();
    }
}
