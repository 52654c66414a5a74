//! What is asked of the service: how it does, what happened to a document, what is to be done again.

use axum::extract::{Path, RawQuery, State};
use bytes::Bytes;
use http::StatusCode;
use mongodb::bson::doc;
use serde::Deserialize;
use serde_json::json as value;
use windlass_app::door::{Answered, Refusal, json};

use super::{Rooms, database, ok, refused};
use crate::metrics::get;
use crate::office::{self, Again};
use crate::report;

/// The longest that MongoDB may take to say that it is there.
const PING_MS_MAX: u64 = 2_000;

/// Healthy means that the position of the stream moves, with traffic or without, and that the listeners are seen.
pub(super) async fn health(State(rooms): State<Rooms>) -> Answered {
    let wrong = report::problems(&rooms);
    let status = if wrong.is_empty() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let word = if wrong.is_empty() { "ok" } else { "unhealthy" };
    Ok(json(
        status,
        &value!({
            "status": word, "reasons": wrong, "warnings": report::warnings(&rooms), "instance": rooms.instance,
            "lanes": rooms.registry.len(), "open_gaps": get(&rooms.metrics.open_gaps),
        }),
    ))
}

/// Ready means healthy, and that MongoDB answers now, in reasonable time.
pub(super) async fn ready(State(rooms): State<Rooms>) -> Answered {
    let home = &rooms.home;
    let database = home.client.database(&home.database);
    let silent = || Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "database", "MongoDB does not answer");
    tokio::select! {
        answered = database.run_command(doc! { "ping": 1 }) => answered.map(drop).map_err(|error| silent().caused_by(&error.kind))?,
        () = home.world.sleep_ms(PING_MS_MAX) => return Err(silent()),
    }
    health(State(rooms)).await
}

pub(super) async fn status(State(rooms): State<Rooms>) -> Answered {
    let report = report::live(&rooms).await.map_err(database)?;
    let health = report::problems(&rooms);
    let warnings = report::warnings(&rooms);
    Ok(ok(
        &value!({ "instance": rooms.instance, "problems": health, "warnings": warnings, "report": report }),
    ))
}

pub(super) async fn gaps(State(rooms): State<Rooms>) -> Answered {
    Ok(ok(&value!({ "gaps": office::gaps(&rooms.home).await.map_err(refused)? })))
}

pub(super) async fn dead(State(rooms): State<Rooms>, RawQuery(query): RawQuery) -> Answered {
    let query = query.unwrap_or_default();
    let mut asked = url::form_urlencoded::parse(query.as_bytes());
    let listener = asked.find(|(name, _)| name == "listener").map(|(_, id)| id);
    let found = office::dead(&rooms.home, listener.as_deref()).await.map_err(refused)?;
    Ok(ok(&value!({ "dead": found })))
}

pub(super) async fn locks(State(rooms): State<Rooms>) -> Answered {
    let report = report::live(&rooms).await.map_err(database)?;
    let locks = report.lanes.iter().map(|lane| {
        value!({ "lane": lane.lane, "owner": lane.owner, "lease_age": lane.lease_age, "is_stale": lane.is_stale, "fence": lane.fence })
    });
    Ok(ok(&value!({ "locks": locks.collect::<Vec<_>>(), "instances": report.instances })))
}

pub(super) async fn document(State(rooms): State<Rooms>, Path(id): Path<String>) -> Answered {
    Ok(ok(&office::history(&rooms.home, &id).await.map_err(refused)?))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    document: Option<String>,
    listener: Option<String>,
    all_failed: Option<bool>,
}

pub(super) async fn retry(State(rooms): State<Rooms>, body: Bytes) -> Answered {
    let invalid = |why: String| Refusal::new(StatusCode::BAD_REQUEST, "invalid", why);
    let wanted: Wanted = serde_json::from_slice(&body).map_err(|why| invalid(why.to_string()))?;
    let again = match wanted {
        Wanted { document: Some(id), listener, all_failed: None } => Again::Document(id, listener),
        Wanted { document: None, listener: Some(id), all_failed: None } => Again::Listener(id),
        Wanted { document: None, listener: None, all_failed: Some(true) } => Again::AllFailed,
        _ => return Err(invalid("say one of document, listener and all_failed".to_owned())),
    };
    let asked = office::retry(&rooms.home, again).await.map_err(refused)?;
    rooms.recover_now.notify_one();
    Ok(ok(&value!({ "asked": asked })))
}
