//! The API: who may ask what, and what is answered.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};

use super::listing::Listing;
use super::state::State;
use super::{KEYSTRING, SHARED_SECRET, inventory};
use crate::ask::{Answer, Ask};
use crate::server::Service;

const STATES: [&str; 5] = ["active", "inactive", "sold_out", "draft", "expired"];
const PAGE_INCLUDES: [&str; 9] = [
    "Shipping",
    "Images",
    "Shop",
    "User",
    "Translations",
    "Inventory",
    "Videos",
    "Personalization",
    "BuyerPrice",
];
/// A question by ids does not know inventories.
const BATCH_INCLUDES: [&str; 8] =
    ["Shipping", "Images", "Shop", "User", "Translations", "Videos", "Personalization", "BuyerPrice"];
const OFFSET_MAX: u64 = 12_000;

pub(super) struct Rules(pub(super) Arc<Mutex<State>>);

type Answered = Result<Answer, Box<Answer>>;

impl Service for Rules {
    fn answer(&self, ask: &Ask) -> Answer {
        let state = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now_ms = state.now_ms();
        if ask.path == "/v3/public/oauth/token" {
            return state.tokens.answer(ask, now_ms);
        }
        let left = match state.limits.admit(ask, now_ms) {
            Ok(left) => left,
            Err(turned_away) => {
                state.limits.note(ask, now_ms, 429);
                return *turned_away;
            }
        };
        let answer = respond(state, ask, now_ms).unwrap_or_else(|refused| *refused);
        state.limits.note(ask, now_ms, answer.status);
        state.limits.head(answer, left)
    }
}

fn error(status: u16, text: &str) -> Box<Answer> {
    Box::new(Answer::json(status, &json!({ "error": text })))
}

fn respond(state: &mut State, ask: &Ask, now_ms: u64) -> Answered {
    match ask.header("x-api-key") {
        Some(key) if key == format!("{KEYSTRING}:{SHARED_SECRET}") => {}
        Some(key) if !key.contains(':') => {
            return Err(error(403, "Shared secret is required in x-api-key header."));
        }
        Some(_) => {
            return Err(error(403, "Invalid API key: should be in the format 'keystring:shared_secret'."));
        }
        None => return Err(error(403, "Missing x-api-key header or client_id")),
    }
    let Some(path) = ask.path.strip_prefix("/v3/application/") else {
        return Err(violated(state, ask, "there is no such path", 404));
    };
    let parts: Vec<&str> = path.split('/').collect();
    if let (&http::Method::GET, ["openapi-ping"]) = (&ask.method, &parts[..]) {
        return Ok(Answer::json(200, &json!({"application_id": 1})));
    }
    let user = state.tokens.user(ask, now_ms)?;
    route(state, ask, &parts, user)
}

/// The shop of a path, which must be the user's.
fn owned(state: &State, shop: &str, user: u64) -> Result<u64, Box<Answer>> {
    let shop: u64 = shop.parse().map_err(|_| error(400, "shop_id must be an integer."))?;
    match state.shops.get(&shop) {
        None => Err(error(404, "Could not find a shop")),
        Some(found) if found.user != user => Err(error(403, "The user does not own this shop.")),
        Some(_) => Ok(shop),
    }
}

fn route(state: &mut State, ask: &Ask, parts: &[&str], user: u64) -> Answered {
    match (ask.method.as_str(), parts) {
        ("GET", ["users", "me"]) => {
            let shop = state.shops.iter().find(|(_, shop)| shop.user == user).map(|(id, _)| *id);
            Ok(Answer::json(200, &json!({"user_id": user, "shop_id": shop})))
        }
        ("GET", ["shops", shop]) => {
            let shop = shop.parse().map_err(|_| error(400, "shop_id must be an integer."))?;
            state
                .shop_object(shop)
                .map(|shop| Answer::json(200, &shop))
                .ok_or_else(|| error(404, "Could not find a shop"))
        }
        ("GET", ["shops", shop, "sections"]) => {
            let shop = owned(state, shop, user)?;
            let results: Vec<Value> = state.shops[&shop].sections.iter().map(section).collect();
            Ok(Answer::json(200, &json!({"count": results.len(), "results": results})))
        }
        ("POST", ["shops", shop, "sections"]) => {
            let shop = owned(state, shop, user)?;
            let form = form(state, ask)?;
            let title = form.iter().find(|(name, _)| name == "title").map(|(_, title)| title.clone());
            let title =
                title.filter(|title| !title.is_empty()).ok_or_else(|| error(400, "title is required."))?;
            if state.shops[&shop].sections.values().any(|had| *had == title) {
                return Err(error(400, "A section with this title already exists."));
            }
            let id = state.add_section(shop, &title);
            Ok(Answer::json(201, &section((&id, &title))))
        }
        ("GET", ["shops", shop, "listings"]) => {
            let shop = owned(state, shop, user)?;
            page(state, ask, shop)
        }
        ("GET", ["listings", "batch"]) => batch(state, ask),
        ("GET", ["listings", "batch", "inventory"]) => batch_inventory(state, ask, user),
        ("GET", ["listings", listing, "inventory"]) => {
            let listing = find(state, listing, user)?;
            Ok(Answer::json(200, &state.listings[&listing].inventory))
        }
        ("PUT", ["listings", listing, "inventory"]) => {
            let listing = find(state, listing, user)?;
            put_inventory(state, ask, listing)
        }
        ("PATCH", ["shops", shop, "listings", listing]) => {
            owned(state, shop, user)?;
            let listing = find(state, listing, user)?;
            patch(state, ask, listing)
        }
        ("DELETE", ["listings", listing]) => {
            let listing = find(state, listing, user)?;
            state.listings.remove(&listing);
            Ok(Answer::new(204, "application/json", ""))
        }
        _ => Err(violated(state, ask, "there is no such call", 404)),
    }
}

/// Notes that a request contradicts the document, and refuses it.
fn violated(state: &mut State, ask: &Ask, why: &str, status: u16) -> Box<Answer> {
    state.violations.push(format!("{} {}?{}: {why}", ask.method, ask.path, ask.query));
    error(status, why)
}

fn section((id, title): (&u64, &String)) -> Value {
    json!({"shop_section_id": id, "title": title, "rank": 1, "active_listing_count": 0})
}

fn find(state: &State, listing: &str, user: u64) -> Result<u64, Box<Answer>> {
    let id: u64 = listing.parse().map_err(|_| error(400, "listing_id must be an integer."))?;
    let found = state.listings.get(&id).ok_or_else(|| error(404, "Could not find a listing"))?;
    if state.shops.get(&found.shop).is_some_and(|shop| shop.user == user) {
        Ok(id)
    } else {
        Err(error(403, "The user does not own this listing."))
    }
}

/// The query, which must have no names that the document does not know.
fn query(state: &mut State, ask: &Ask, known: &[&str]) -> Result<Vec<(String, String)>, Box<Answer>> {
    let pairs: Vec<(String, String)> =
        url::form_urlencoded::parse(ask.query.as_bytes()).into_owned().collect();
    match pairs.iter().find(|(name, _)| !known.contains(&name.as_str())) {
        Some((name, _)) => {
            Err(violated(state, ask, &format!("the parameter {name} is not in the document"), 400))
        }
        None => Ok(pairs),
    }
}

fn includes(
    state: &mut State,
    ask: &Ask,
    pairs: &[(String, String)],
    known: &[&str],
) -> Result<Vec<String>, Box<Answer>> {
    let of = pairs.iter().find(|(name, _)| name == "includes").map(|(_, value)| value.as_str());
    let all: Vec<String> =
        of.unwrap_or_default().split(',').filter(|one| !one.is_empty()).map(str::to_owned).collect();
    match all.iter().find(|one| !known.contains(&one.as_str())) {
        Some(one) => Err(violated(state, ask, &format!("includes does not know {one}"), 400)),
        None => Ok(all),
    }
}

fn page(state: &mut State, ask: &Ask, shop: u64) -> Answered {
    let known = ["state", "limit", "offset", "sort_on", "sort_order", "includes", "legacy"];
    let pairs = query(state, ask, &known)?;
    let of = |name: &str| pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone());
    let wanted = of("state").unwrap_or_else(|| "active".to_owned());
    if !STATES.contains(&wanted.as_str()) {
        return Err(violated(state, ask, "state is none of the five", 400));
    }
    let number = |name: &str, default: u64| of(name).map_or(Some(default), |text| text.parse().ok());
    let (limit, offset) = (number("limit", 25), number("offset", 0));
    let Some((limit, offset)) = limit.zip(offset).filter(|(limit, _)| (1..=100).contains(limit)) else {
        return Err(violated(
            state,
            ask,
            "limit must lie between 1 and 100, offset must not be negative",
            400,
        ));
    };
    if offset > OFFSET_MAX {
        return Err(error(400, "Offset provided is greater than the maximum offset allowed."));
    }
    let includes = includes(state, ask, &pairs, &PAGE_INCLUDES)?;
    let mut all: Vec<&Listing> = state.of_shop(shop).filter(|listing| listing.state() == wanted).collect();
    if of("sort_order").is_none_or(|order| order == "desc" || order == "down") {
        all.reverse();
    }
    let count = all.len();
    let newest_first = of("sort_order").is_none_or(|order| order == "desc");
    // What a broken order looks like: the page begins some listings too early, so that others are never shown.
    let from = if state.shuffled && newest_first && offset > 0 { offset - 7 } else { offset };
    let shown = all.into_iter().skip(from as usize).take(limit as usize);
    let results: Vec<Value> = shown.map(|listing| listing.with(&includes, state.blank_skus)).collect();
    let answer = Answer::json(200, &json!({"count": count, "results": results}));
    state.after_page();
    Ok(answer)
}

fn ids(state: &mut State, ask: &Ask, pairs: &[(String, String)]) -> Result<Vec<u64>, Box<Answer>> {
    let of = pairs.iter().find(|(name, _)| name == "listing_ids").map(|(_, value)| value.as_str());
    let ids: Option<Vec<u64>> = of.unwrap_or_default().split(',').map(|id| id.parse().ok()).collect();
    match ids.filter(|ids| (1..=100).contains(&ids.len())) {
        Some(ids) => Ok(ids),
        None => Err(violated(state, ask, "listing_ids must be 1 to 100 integers", 400)),
    }
}

fn batch(state: &mut State, ask: &Ask) -> Answered {
    let pairs = query(state, ask, &["listing_ids", "includes", "legacy"])?;
    let includes = includes(state, ask, &pairs, &BATCH_INCLUDES)?;
    let ids = ids(state, ask, &pairs)?;
    let found = ids.iter().filter_map(|id| state.listings.get(id));
    let results: Vec<Value> = found.map(|listing| listing.with(&includes, false)).collect();
    Ok(Answer::json(200, &json!({"count": results.len(), "results": results})))
}

fn batch_inventory(state: &mut State, ask: &Ask, user: u64) -> Answered {
    let pairs = query(state, ask, &["listing_ids", "legacy"])?;
    let ids = ids(state, ask, &pairs)?;
    let mut results = Vec::new();
    for id in ids {
        let listing = find(state, &id.to_string(), user)?;
        let mut inventory = state.listings[&listing].inventory.clone();
        inventory["listing_id"] = json!(listing);
        results.push(inventory);
    }
    Ok(Answer::json(200, &json!({"count": results.len(), "results": results})))
}

fn form(state: &mut State, ask: &Ask) -> Result<Vec<(String, String)>, Box<Answer>> {
    let essence = ask.header("content-type").unwrap_or_default();
    if !essence.starts_with("application/x-www-form-urlencoded") {
        return Err(violated(state, ask, "the body must be a form", 400));
    }
    Ok(url::form_urlencoded::parse(&ask.body).into_owned().collect())
}

fn patch(state: &mut State, ask: &Ask, listing: u64) -> Answered {
    let form = form(state, ask)?;
    for name in ["price", "quantity", "sku"] {
        if form.iter().any(|(key, _)| key == name) {
            // Ignored, as Etsy does; but whoever sends it believes that it works.
            state.violations.push(format!("PATCH of {listing} carries {name}, which is not in the document"));
        }
    }
    let now_s = state.now_s();
    let found = state.listings.get_mut(&listing).ok_or_else(|| error(404, "Could not find a listing"))?;
    let fees = found.patch(&form, &state.lies, now_s).map_err(|why| error(400, &why))?;
    let shown = found.shown();
    state.fees += fees;
    Ok(Answer::json(200, &shown))
}

fn put_inventory(state: &mut State, ask: &Ask, listing: u64) -> Answered {
    if !ask.header("content-type").is_some_and(|essence| essence.starts_with("application/json")) {
        return Err(violated(state, ask, "the body must be JSON", 400));
    }
    let body: Value = serde_json::from_slice(&ask.body).map_err(|_| error(400, "The body is not JSON."))?;
    let old = state.listings[&listing].inventory.clone();
    let made = inventory::replaced(&body, &old, &mut || state.id()).map_err(|why| error(400, &why))?;
    let now_s = state.now_s();
    let renewed = if let Some(found) = state.listings.get_mut(&listing) {
        // A sold-out listing that has something to sell again is renewed, which costs the seller.
        let renewed = found.state() == "sold_out" && inventory::total(&made) > 0;
        if renewed {
            found.fields["state"] = json!("active");
        }
        found.inventory = made.clone();
        found.touch(now_s);
        renewed
    } else {
        false
    };
    state.fees += u64::from(renewed);
    Ok(Answer::json(200, &made))
}
