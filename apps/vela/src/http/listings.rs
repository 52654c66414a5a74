//! Listings: looked at, changed, and their conflicts settled.

use axum::extract::{Path, State};
use bytes::Bytes;
use http::{StatusCode, Uri};
use serde::Deserialize;
use serde_json::{Map, Value, json as value};
use windlass_app::door::{Answered, Refusal, json};

use super::{Params, Rooms, invalid, number, read, shelf};
use crate::office::{EditError, Edited, Take, view};
use crate::shown::{self, Wanted};

/// `GET /shops/{id}/listings`
pub(super) async fn list(State(rooms): State<Rooms>, Path(id): Path<String>, uri: Uri) -> Answered {
    let shop = number(&id, "The shop")?;
    let sections = rooms.office.sections(shop).await.map_err(shelf)?.ok_or_else(no_shop)?;
    let params = Params::of(&uri);
    let (limit, after) = params.page()?;
    let dirty = match params.text("dirty") {
        None => None,
        Some("1" | "true") => Some(true),
        Some("0" | "false") => Some(false),
        Some(_) => return Err(invalid("dirty must be true or false")),
    };
    let wanted = Wanted { dirty, standing: params.parsed("status")? };
    let page =
        shown::page(&rooms.office.shelves.listings, shop, wanted, limit, after).await.map_err(shelf)?;
    let listings: Vec<Value> = page.entries.iter().map(|listing| view(&listing.value, &sections)).collect();
    let next = page.next.map(|next| next.to_string());
    Ok(json(StatusCode::OK, &value!({"listings": listings, "next_cursor": next})))
}

/// `GET /shops/{id}/listings/{listing}`
pub(super) async fn get(State(rooms): State<Rooms>, Path((id, listing)): Path<(String, String)>) -> Answered {
    let (shop, listing) = (number(&id, "The shop")?, number(&listing, "The listing")?);
    let found = rooms.office.listing(shop, listing).await.map_err(shelf)?;
    let (listing, sections) = found.ok_or_else(no_listing)?;
    Ok(json(StatusCode::OK, &view(&listing, &sections)))
}

/// `PATCH /shops/{id}/listings/{listing}`
pub(super) async fn edit(
    State(rooms): State<Rooms>,
    Path((id, listing)): Path<(String, String)>,
    body: Bytes,
) -> Answered {
    let (shop, listing) = (number(&id, "The shop")?, number(&listing, "The listing")?);
    let body: Map<String, Value> = read(&body)?;
    let edited = rooms.office.edit(shop, listing, &body).await.map_err(refusal)?;
    answer(&rooms, shop, edited).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Settle {
    #[serde(default)]
    field: Option<String>,
    take: Take,
}

/// `POST /shops/{id}/conflicts/{listing}`
pub(super) async fn settle(
    State(rooms): State<Rooms>,
    Path((id, listing)): Path<(String, String)>,
    body: Bytes,
) -> Answered {
    let (shop, listing) = (number(&id, "The shop")?, number(&listing, "The listing")?);
    let Settle { field, take } = read(&body)?;
    let edited = rooms.office.settle(shop, listing, field.as_deref(), take).await.map_err(refusal)?;
    answer(&rooms, shop, edited).await
}

/// 202 when something is to be sent, 200 when nothing is.
async fn answer(rooms: &Rooms, shop: u64, edited: Edited) -> Answered {
    let sections = rooms.office.sections(shop).await.map_err(shelf)?.unwrap_or_default();
    let mut shown = view(&edited.listing, &sections);
    let status = if edited.task.is_some() { StatusCode::ACCEPTED } else { StatusCode::OK };
    if let Some(task) = edited.task {
        shown["task_id"] = value!(task.id);
    }
    Ok(json(status, &shown))
}

fn refusal(error: EditError) -> Refusal {
    match error {
        EditError::NotFound => no_listing(),
        EditError::Deleted => {
            let message = "The listing is gone at Etsy; settle it with POST /shops/ID/conflicts/LISTING";
            Refusal::new(StatusCode::CONFLICT, "deleted", message)
        }
        EditError::Wrong(wrong) => {
            let words: Vec<String> = wrong.iter().map(|(name, why)| format!("{name} {why}")).collect();
            let message = format!("Nothing was changed: {}", words.join("; "));
            Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_fields", message)
                .with_details(value!(wrong))
        }
        EditError::Shelf(error) => shelf(error),
    }
}

fn no_shop() -> Refusal {
    Refusal::not_found("The shop is not known; add it with POST /shops")
}

fn no_listing() -> Refusal {
    Refusal::not_found("The listing is not known in this shop; has the shop been downloaded?")
}
