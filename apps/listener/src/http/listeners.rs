//! Listeners: made, changed, paused, deleted.

use axum::extract::{Path, State};
use bytes::Bytes;
use http::StatusCode;
use mongodb::bson::{DateTime, Document};
use serde_json::{Value, json as value};
use windlass_app::door::{Answered, Refusal, json};

use super::{Rooms, ok, refused};
use crate::{office, replay};

fn read(body: &Bytes) -> Result<Document, Refusal> {
    let wrong = |why: serde_json::Error| {
        Refusal::new(StatusCode::BAD_REQUEST, "invalid", format!("the body is no JSON: {why}"))
    };
    let value: Value = serde_json::from_slice(body).map_err(wrong)?;
    office::as_document(value).map_err(refused)
}

pub(super) async fn list(State(rooms): State<Rooms>) -> Answered {
    let found = office::list(&rooms.home).await.map_err(refused)?;
    let found: Vec<Value> = found.into_iter().map(office::as_json).collect();
    Ok(ok(&value!({ "listeners": found })))
}

pub(super) async fn add(State(rooms): State<Rooms>, body: Bytes) -> Answered {
    let made = office::add(&rooms.home, read(&body)?).await.map_err(refused)?;
    Ok(json(StatusCode::CREATED, &office::as_json(made)))
}

pub(super) async fn show(State(rooms): State<Rooms>, Path(id): Path<String>) -> Answered {
    Ok(ok(&office::as_json(office::show(&rooms.home, &id).await.map_err(refused)?)))
}

pub(super) async fn edit(State(rooms): State<Rooms>, Path(id): Path<String>, body: Bytes) -> Answered {
    let changed = office::edit(&rooms.home, &id, read(&body)?).await.map_err(refused)?;
    Ok(ok(&office::as_json(changed)))
}

pub(super) async fn remove(State(rooms): State<Rooms>, Path(id): Path<String>) -> Answered {
    Ok(ok(&office::as_json(office::remove(&rooms.home, &id).await.map_err(refused)?)))
}

pub(super) async fn pause(State(rooms): State<Rooms>, Path(id): Path<String>) -> Answered {
    Ok(ok(&office::as_json(office::set_active(&rooms.home, &id, false).await.map_err(refused)?)))
}

pub(super) async fn resume(State(rooms): State<Rooms>, Path(id): Path<String>) -> Answered {
    Ok(ok(&office::as_json(office::set_active(&rooms.home, &id, true).await.map_err(refused)?)))
}

pub(super) async fn replay(State(rooms): State<Rooms>, Path(id): Path<String>, body: Bytes) -> Answered {
    let body = read(&body)?;
    let from = body.get_datetime("from").copied().ok();
    let from = from.or_else(|| DateTime::parse_rfc3339_str(body.get_str("from").ok()?).ok());
    let from = from.ok_or_else(|| {
        Refusal::new(StatusCode::BAD_REQUEST, "invalid", "from must be a moment such as 2026-01-31T12:00:00Z")
    })?;
    replay::one(&rooms.home, &id, from).await.map_err(refused)?;
    Ok(ok(&value!({ "replaying": true })))
}
