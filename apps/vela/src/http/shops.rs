//! Shops: connected, listed, looked at.

use axum::extract::{Path, State};
use bytes::Bytes;
use http::{StatusCode, Uri};
use serde::Deserialize;
use serde_json::json as value;
use windlass_app::door::{Answered, Refusal, json};
use windlass_engine::Time;
use windlass_outside::etsy::user_of;
use windlass_outside::secret::Secret;

use super::{Params, Rooms, invalid, number, read, shelf};
use crate::office::NewConnection;
use crate::shop::{Interval, ShopId};
use crate::status::{self, Status};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewShop {
    shop_id: ShopId,
    user_id: u64,
    access_token: String,
    refresh_token: String,
    expires_at: Time,
    #[serde(default)]
    interval: Option<Interval>,
}

/// `POST /shops`: a connection that was made elsewhere.
pub(super) async fn connect(State(rooms): State<Rooms>, body: Bytes) -> Answered {
    let NewShop { shop_id, user_id, access_token, refresh_token, expires_at, interval } = read(&body)?;
    if shop_id == 0 || access_token.is_empty() || refresh_token.is_empty() {
        return Err(invalid("shop_id, access_token and refresh_token must be there"));
    }
    let fits = |token: &str| token.bytes().all(|byte| byte.is_ascii_graphic());
    if !fits(&access_token) || !fits(&refresh_token) {
        return Err(invalid("a token is printable ASCII without spaces; send it as Etsy gave it"));
    }
    if user_of(&Secret::new(access_token.clone())).is_some_and(|user| user != user_id) {
        return Err(invalid("the access_token is one of another user: it begins with that user's number"));
    }
    let new = NewConnection { shop_id, user_id, access_token, refresh_token, expires_at, interval };
    let is_new = rooms.office.connect(new).await.map_err(shelf)?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok(json(status, &value!({"shop": of(&rooms, shop_id).await?})))
}

async fn of(rooms: &Rooms, shop: ShopId) -> Result<Status, Refusal> {
    let office = &rooms.office;
    let found = status::of_shop(&office.shelves, &office.tasks, shop).await.map_err(shelf)?;
    found.ok_or_else(|| Refusal::not_found(format!("Shop {shop} is not known; add it with POST /shops")))
}

/// `GET /shops/{id}/status`
pub(super) async fn status(State(rooms): State<Rooms>, Path(id): Path<String>) -> Answered {
    Ok(json(StatusCode::OK, &of(&rooms, number(&id, "The shop")?).await?))
}

/// `GET /shops`
pub(super) async fn list(State(rooms): State<Rooms>, uri: Uri) -> Answered {
    let (limit, after) = Params::of(&uri).page()?;
    let office = &rooms.office;
    let page = office.shelves.shops.scan().limit(limit).after(after).await.map_err(shelf)?;
    let shops = page.entries.into_iter().map(|shop| shop.value).collect();
    let shops = status::of_many(&office.shelves, &office.tasks, shops).await.map_err(shelf)?;
    let next = page.next.map(|next| next.to_string());
    Ok(json(StatusCode::OK, &value!({"shops": shops, "next_cursor": next})))
}
