//! A listener that is split anew: its lanes of before are put down, and those that come after go on where they stood.
//!
//! A position says how far the documents of one lane are done. Lanes of another split have other documents, so that one
//! of them begins at the earliest of all positions before it, and knows of each how far it came: what has its job there
//! is not made again. A lane of before that somebody reads for is waited for: whoever has it comes to the edit and lets it
//! go. One whose owner is not heard of is fenced off, and so are the writes of an owner who wakes.

use std::collections::{BTreeMap, BTreeSet};

use futures::TryStreamExt;
use mongodb::ClientSession;
use mongodb::bson::{Bson, Document, doc};
use mongodb::error::Error;
use windlass_mongo::agenda::row_id;

use crate::event::id_text;
use crate::home::{Home, number};
use crate::lane::{Inherited, LaneId};
use crate::lease::Holdings;
use crate::listener::Listener;
use crate::token::Token;

/// Sees to lanes of before: fences those that nobody has, and forgets them once all that come after have begun.
pub(crate) async fn retire(home: &Home, holdings: &Holdings, lock_ms: i64) -> Result<(), Error> {
    let mut lanes: BTreeMap<String, Vec<LaneId>> = BTreeMap::new();
    for (id, document) in &holdings.documents {
        if let Ok(listener) = Listener::read(document) {
            lanes.insert(id.clone(), LaneId::of(&listener));
        }
    }
    let texts: Vec<String> = lanes.values().flatten().map(LaneId::text).collect();
    let elsewhere = doc! { "$nin": texts };
    let wanted = doc! { "$or": [ { "_id": elsewhere.clone() }, { "splitAt": { "$exists": true } } ] };
    let found: Vec<Document> = home.positions.find(wanted).await?.try_collect().await?;
    // Seats that a look made which did not know of the edit yet, and that nobody has taken.
    let free = doc! { "_id": elsewhere, "lockInfo.instanceId": Bson::Null };
    let empty: Vec<Document> = home.partitions.find(free).await?.try_collect().await?;
    for seat in empty {
        let is_known = lanes.contains_key(&seat.get("listener").map(id_text).unwrap_or_default());
        let was_taken = found.iter().any(|position| position.get("_id") == seat.get("_id"));
        if is_known && !was_taken {
            let id = seat.get("_id").cloned().unwrap_or(Bson::Null);
            let this = doc! { "_id": id, "lockInfo.instanceId": Bson::Null };
            home.partitions.delete_one(this).await?;
        }
    }
    let mut before: BTreeMap<String, Vec<Document>> = BTreeMap::new();
    for position in found {
        let listener = position.get("listener").map(id_text).unwrap_or_default();
        if lanes.contains_key(&listener) {
            before.entry(listener).or_default().push(position);
        }
    }
    for (listener, before) in before {
        let mut is_settled = true;
        for position in before.iter().filter(|position| !position.contains_key("splitAt")) {
            is_settled &= settle(home, position, lock_ms).await?;
        }
        if is_settled {
            forget(home, &lanes[&listener], &before).await?;
        }
    }
    Ok(())
}

/// Fences a lane of before, unless somebody has it. False when somebody does.
async fn settle(home: &Home, position: &Document, lock_ms: i64) -> Result<bool, Error> {
    let id = position.get("_id").cloned().unwrap_or(Bson::Null);
    let (seats, seat) = match part(position) {
        Some(_) => (&home.partitions, id.clone()),
        None => (&home.listeners, position.get("listener").cloned().unwrap_or(Bson::Null)),
    };
    let heard = doc! { "$gte": [ "$lockInfo.lastHeartbeat", { "$subtract": [ "$$NOW", lock_ms ] } ] };
    let held = doc! { "_id": seat.clone(), "lockInfo.instanceId": { "$type": "string" }, "$expr": heard };
    if seats.find_one(held).await?.is_some() {
        return Ok(false);
    }
    // One that was killed may have the position in a transaction that is still open.
    let silent = seats.find_one(doc! { "_id": seat }).await?.unwrap_or_default();
    if let Ok(owner) = silent.get_document("lockInfo").and_then(|lock| lock.get_str("instanceId")) {
        home.end_sessions_of(owner).await?;
    }
    let fenced =
        doc! { "splitAt": { "$ifNull": [ "$token", "" ] }, "fence": { "$add": [ "$fence", 1_i64 ] } };
    let this = doc! { "_id": id, "splitAt": { "$exists": false }, "fence": number(position, "fence") };
    home.positions.update_one(this, vec![doc! { "$set": fenced }]).await?;
    Ok(true)
}

/// Forgets lanes of before, where each of those that come after has a position of its own.
async fn forget(home: &Home, lanes: &[LaneId], before: &[Document]) -> Result<(), Error> {
    let texts: Vec<String> = lanes.iter().map(LaneId::text).collect();
    let begun =
        doc! { "_id": { "$in": &texts }, "token": { "$exists": true }, "splitAt": { "$exists": false } };
    if home.positions.count_documents(begun).await? < lanes.len() as u64 {
        return Ok(());
    }
    let old: BTreeSet<&str> = before.iter().filter_map(|position| position.get_str("_id").ok()).collect();
    let old: Vec<&str> = old.into_iter().filter(|old| !texts.iter().any(|text| text == old)).collect();
    // What is left to look through of a gap is looked through by those who come after.
    let open = doc! { "lane": { "$in": &old }, "state": "open" };
    let gaps: Vec<Document> = home.gaps.find(open).await?.try_collect().await?;
    for gap in gaps {
        for lane in &texts {
            let mut copy = gap.clone();
            copy.remove("_id");
            copy.remove("cursor");
            copy.insert("lane", lane);
            let from = gap.get_str("fromToken").unwrap_or_default();
            let id = row_id(&[b"gap", lane.as_bytes(), from.as_bytes()]).to_hex();
            home.gaps.update_one(doc! { "_id": id }, doc! { "$setOnInsert": copy }).upsert(true).await?;
        }
        home.gaps.delete_one(doc! { "_id": gap.get("_id").cloned().unwrap_or(Bson::Null) }).await?;
    }
    home.partitions.delete_many(doc! { "_id": { "$in": &old } }).await?;
    home.positions.delete_many(doc! { "_id": { "$in": &old }, "splitAt": { "$exists": true } }).await?;
    Ok(())
}

/// Where a lane begins that has no position, or one of before: at the earliest of those before it, with what is known of
/// each. An empty document where there is none; nothing while one of them is not fenced yet.
pub(crate) async fn inherit(
    home: &Home,
    session: &mut ClientSession,
    lane: &LaneId,
    lanes: &[LaneId],
) -> Result<Option<Document>, Error> {
    let texts: Vec<String> = lanes.iter().map(LaneId::text).collect();
    let of_before = [doc! { "_id": { "$nin": texts } }, doc! { "splitAt": { "$exists": true } }];
    let query = doc! { "listener": lane.listener.clone(), "$or": of_before.to_vec() };
    let mut found = home.positions.find(query).session(&mut *session).await?;
    let before: Vec<Document> = found.stream(session).try_collect().await?;
    if before.iter().any(|position| !position.contains_key("splitAt")) {
        return Ok(None);
    }
    Ok(Some(start(&before)))
}

fn start(before: &[Document]) -> Document {
    let token = |position: &Document, name: &str| position.get_str(name).ok().and_then(Token::of_text);
    let known = before.iter().filter_map(|position| Some((token(position, "token")?, position)));
    let Some((earliest, first)) = known.clone().min_by(|one, other| one.0.cmp(&other.0)) else {
        return Document::new();
    };
    let status = before.iter().filter_map(|position| token(position, "statusToken")).min();
    let status = status.map_or_else(|| earliest.clone(), |status| status.min(earliest.clone()));
    let inherits: Vec<Document> = known
        .map(|(token, position)| {
            let mut entry = doc! { "token": token.text() };
            if let Some((part, of)) = part(position) {
                entry.extend(doc! { "part": i64::from(part), "of": i64::from(of) });
            }
            entry
        })
        .collect();
    let mut start = doc! {
        "token": earliest.text(), "statusToken": status.text(), "clusterTime": earliest.cluster_time(),
        "inherits": inherits,
    };
    for name in ["applied", "refused"] {
        start.extend(first.get(name).map(|value| (name.to_owned(), value.clone())));
    }
    // Jobs of a document are due behind all that there are.
    let last = before.iter().filter_map(|position| position.get_datetime("runAtMax").ok()).max();
    start.extend(last.map(|last| ("runAtMax".to_owned(), Bson::DateTime(*last))));
    // What one of them had yet to look at is looked at again; what has its job is known by it.
    let filled: Option<Vec<&Bson>> = before.iter().map(|position| position.get("backfilledAt")).collect();
    let filled = filled.and_then(|filled| filled.first().copied().cloned());
    start.extend(filled.map(|at| ("backfilledAt".to_owned(), at)));
    start
}

/// What a position says of lanes before its own.
pub(crate) fn inherited(position: &Document) -> Vec<Inherited> {
    let entries = position.get_array("inherits").map(Vec::as_slice).unwrap_or_default();
    let entries = entries.iter().filter_map(Bson::as_document);
    entries
        .filter_map(|entry| {
            let token = Token::of_text(entry.get_str("token").ok()?)?;
            Some(Inherited { part: part(entry), token })
        })
        .collect()
}

fn part(document: &Document) -> Option<(u32, u32)> {
    let number = |name: &str| u32::try_from(number(document, name)).ok();
    document.contains_key("of").then(|| Some((number("part")?, number("of")?.max(1)))).flatten()
}

#[cfg(test)]
mod tests {
    use mongodb::bson::{DateTime, Timestamp};

    use super::*;

    #[test]
    fn a_lane_begins_at_the_earliest_and_knows_how_far_each_came() {
        let token = |seconds: u32| Token::before(Timestamp { time: seconds, increment: 1 });
        let position = |part: i64, seconds: u32, ran_ms: i64| {
            doc! { "part": part, "of": 2_i64, "token": token(seconds).text(), "statusToken": token(seconds - 1).text(),
            "applied": { "n": i64::from(seconds) }, "runAtMax": DateTime::from_millis(ran_ms), "splitAt": "x" }
        };
        let start = start(&[position(0, 20, 7), position(1, 10, 9)]);
        assert_eq!(start.get_str("token").unwrap(), token(10).text());
        assert_eq!(start.get_str("statusToken").unwrap(), token(9).text());
        assert_eq!(start.get_document("applied").unwrap(), &doc! { "n": 10_i64 });
        assert_eq!(start.get_datetime("runAtMax").unwrap().timestamp_millis(), 9);
        let parts = inherited(&start);
        assert_eq!(parts[0], Inherited { part: Some((0, 2)), token: token(20) });
        assert_eq!(parts[1], Inherited { part: Some((1, 2)), token: token(10) });
        assert!(super::start(&[]).is_empty());
    }
}
