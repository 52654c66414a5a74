//! Reading the history again: lanes are put back to a moment. Changes that have their job make no second one.

use mongodb::bson::{DateTime, Timestamp, doc};

use crate::event::id_text;
use crate::home::Home;
use crate::lane::LaneId;
use crate::listener::Listener;
use crate::office::{OfficeError, list, show};
use crate::token::Token;

/// Puts a listener back.
pub(crate) async fn one(home: &Home, id: &str, from: DateTime) -> Result<(), OfficeError> {
    let listener = Listener::read(&show(home, id).await?).map_err(OfficeError::Refused)?;
    let from = remembered(home, from).await?;
    let start = Token::before(from);
    for lane in LaneId::of(&listener) {
        // One that is not there yet comes to it by itself, and nothing of what lies before it is left out.
        let behind = doc! { "_id": lane.text(), "clusterTime": { "$gt": from } };
        // The fence rises, so that whoever has the lane lets it go and the next begins here.
        let set = doc! { "$inc": { "fence": 1_i64 }, "$set": { "token": start.text(), "statusToken": start.text(), "clusterTime": from }, "$unset": { "inherits": "" } };
        home.positions.update_one(behind, set).await?;
    }
    Ok(())
}

/// Puts all listeners back that can be understood.
pub(crate) async fn all(home: &Home, from: DateTime) -> Result<(), OfficeError> {
    for document in list(home).await? {
        if Listener::read(&document).is_ok() {
            one(home, &document.get("_id").map(id_text).unwrap_or_default(), from).await?;
        }
    }
    Ok(())
}

/// A moment of which the server still knows what came behind it.
async fn remembered(home: &Home, from: DateTime) -> Result<Timestamp, OfficeError> {
    let refused = |why: String| Err(OfficeError::Refused(vec![why]));
    let now = home.after_everything().await?;
    let from = Timestamp { time: u32::try_from(from.timestamp_millis() / 1_000).unwrap_or(0), increment: 1 };
    if from.time > now.time {
        return refused("that moment has yet to come by the server's clock".to_owned());
    }
    // Who may not read the oplog is not told; what is gone is a gap then.
    let oldest = home.oldest().await.ok().flatten().unwrap_or(from);
    // Moments are told in seconds, so that the one which is named here can be asked for.
    if from.time < oldest.time {
        let oldest = DateTime::from_millis(i64::from(oldest.time) * 1_000);
        let oldest = oldest.try_to_rfc3339_string().unwrap_or_default();
        return refused(format!("the server remembers changes since {oldest} only"));
    }
    Ok(from.max(oldest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::home::number;

    /// A lane that is behind the moment comes to it by itself: to put it there would leave out what lies between.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_replay_moves_nobody_forward() {
        let place = crate::testing::Place::new().await;
        let home = place.home().await;
        let listener = doc! { "_id": "l", "collection": "people", "jobName": "j" };
        home.listeners.insert_one(listener).await.unwrap();
        let oldest = home.oldest().await.unwrap().unwrap();
        let moment = |at: Timestamp| DateTime::from_millis(i64::from(at.time) * 1_000);
        let place_at = async |at: Timestamp| {
            let position =
                doc! { "$set": { "clusterTime": at, "token": Token::before(at).text(), "fence": 1_i64 } };
            home.positions.update_one(doc! { "_id": "l" }, position).upsert(true).await.unwrap();
        };
        let position = async || {
            let found = home.positions.find_one(doc! { "_id": "l" }).await.unwrap().unwrap();
            (found.get_timestamp("clusterTime").unwrap(), number(&found, "fence"))
        };
        let behind = Timestamp { time: oldest.time - 10, increment: 1 };
        place_at(behind).await;
        one(&home, "l", moment(oldest)).await.unwrap();
        assert_eq!(position().await, (behind, 1), "it stays");
        let now = home.after_everything().await.unwrap();
        place_at(now).await;
        one(&home, "l", moment(oldest)).await.unwrap();
        assert_eq!(position().await, (oldest, 2), "it goes back, and whoever has it lets it go");
        for (wrong, word) in [(oldest.time - 1, "remembers"), (now.time + 60, "yet to come")] {
            let why = one(&home, "l", moment(Timestamp { time: wrong, increment: 1 })).await.unwrap_err();
            assert!(why.to_string().contains(word), "{why}");
        }
        assert_eq!(position().await, (oldest, 2));
    }
}
