//! The REST side: tasks for workers, shops and listings for users, a page for people.

mod listings;
mod shops;
mod tasks;

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post};
use bytes::Bytes;
use http::{StatusCode, Uri};
use serde::de::DeserializeOwned;
use windlass_app::door::{Answered, Door, Page, Refusal, json};
use windlass_engine::core::record::ScanCursor;
use windlass_engine::world::World;
use windlass_engine::{Client, ShelfError};
use windlass_outside::secret::Secret;

use crate::desk::Desk;
use crate::office::Office;
use crate::tasks::Tasks;

/// How all shops do, live, with a bar for each.
const SHOPS: Page = Page {
    path: "/vela",
    html: include_str!("../../assets/page.html"),
    script: ("/vela/page.js", include_str!("../../assets/page.js")),
    style: ("/vela/page.css", include_str!("../../assets/page.css")),
};

/// How much a page has, unless it says, and at most.
const PAGE: u32 = 50;
const PAGE_MAX: u32 = 200;

/// What the routes share.
#[derive(Clone)]
pub(crate) struct Rooms {
    pub(crate) desk: Arc<Desk>,
    pub(crate) office: Office,
}

/// The door of a task manager.
pub fn door(client: Client, tasks: Tasks, world: Arc<dyn World>, token: Option<&Secret<String>>) -> Door {
    let desk = Arc::new(Desk::new(client.clone(), tasks.clone(), world.clone()));
    let rooms = Rooms { desk: desk.clone(), office: Office::new(client.clone(), tasks) };
    let store = client.store().clone();
    // Whoever restarts it should not do so because the store is away: that is what `/readyz` says.
    Door::new(routes(rooms), world)
        .token(token)
        .page(SHOPS)
        .open_to_all("/health")
        .health(|| async { Ok(json(StatusCode::OK, &serde_json::json!({"status": "ok"}))) })
        .open_to_all("/readyz")
        .ready(move || {
            let store = store.clone();
            async move {
                store.now().await?;
                Ok(json(StatusCode::OK, &serde_json::json!({"status": "ready"})))
            }
        })
        .metrics(move || {
            let desk = desk.clone();
            async move { desk.metrics().await.map_err(shelf) }
        })
}

fn routes(rooms: Rooms) -> Router {
    Router::new()
        .route("/get-task", post(tasks::next))
        .route("/tasks", post(tasks::create).get(tasks::list))
        .route("/tasks/{id}", get(tasks::get))
        .route("/tasks/{id}/renew", post(tasks::renew))
        .route("/tasks/{id}/progress", post(tasks::progress))
        .route("/tasks/{id}/complete", post(tasks::complete))
        .route("/tasks/{id}/fail", post(tasks::fail))
        .route("/tasks/{id}/retry", post(tasks::retry))
        .route("/shops", post(shops::connect).get(shops::list))
        .route("/shops/{id}", get(shops::status))
        .route("/shops/{id}/status", get(shops::status))
        .route("/shops/{id}/listings", get(listings::list))
        .route("/shops/{id}/listings/{listing}", get(listings::get).patch(listings::edit))
        .route("/shops/{id}/conflicts/{listing}", post(listings::settle))
        .fallback(async || -> Answered { Err(Refusal::not_found("There is no such path")) })
        .method_not_allowed_fallback(async || -> Answered {
            let message = "This path does not know that method";
            Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message))
        })
        .with_state(rooms)
}

/// The body as a type, or a sentence on what is wrong with it.
fn read<T: DeserializeOwned>(body: &Bytes) -> Result<T, Refusal> {
    let body: &[u8] = if body.is_empty() { b"{}" } else { body };
    serde_json::from_slice(body).map_err(|error| {
        let message = format!("The body does not fit: {error}");
        Refusal::new(StatusCode::BAD_REQUEST, "invalid", message)
    })
}

/// What stands behind the question mark of an address.
struct Params(BTreeMap<String, String>);

impl Params {
    fn of(uri: &Uri) -> Self {
        let pairs = url::form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
        Self(pairs.into_owned().filter(|(_, value)| !value.is_empty()).collect())
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    fn parsed<T: FromStr>(&self, name: &str) -> Result<Option<T>, Refusal> {
        let wrong = |_| invalid(format!("{name} does not fit; look at the guide for what it may be"));
        self.text(name).map(str::parse).transpose().map_err(wrong)
    }

    /// How many, and behind what.
    fn page(&self) -> Result<(u32, Option<ScanCursor>), Refusal> {
        let limit = self.parsed("limit")?.unwrap_or(PAGE).clamp(1, PAGE_MAX);
        Ok((limit, self.parsed("cursor")?))
    }
}

/// A part of the path as a number.
fn number(text: &str, what: &str) -> Result<u64, Refusal> {
    text.parse().map_err(|_| Refusal::not_found(format!("{what} is not known: it must be a number")))
}

fn invalid(message: impl Into<String>) -> Refusal {
    Refusal::new(StatusCode::BAD_REQUEST, "invalid", message)
}

/// What the store says, as an answer.
fn shelf(error: ShelfError) -> Refusal {
    match error {
        ShelfError::Store(windlass_engine::StoreError::Invalid(wrong)) => invalid(wrong.to_string()),
        ShelfError::Store(error) => error.into(),
        error => Refusal::internal(error),
    }
}
