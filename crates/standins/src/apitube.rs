//! APITube.

use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};

use crate::ask::{Answer, Ask};
use crate::news::{Desk, Story, civil, merged};
use crate::server::{Server, Service};

const KEY: &str = "api_live_standin0123456789";
/// How many stories are on a page.
const PAGE: usize = 10;

/// Which envelope it answers with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApitubeShape {
    /// `results` and the address of the next page, as the service does.
    Results,
    /// `data` and `links.next_page`, as older descriptions have it.
    Data,
    /// `articles` and the number of the next page.
    Articles,
}

/// The news of APITube. Pages are counted from the newest story, so they shift when one comes in between.
pub struct Apitube {
    server: Server,
    desk: Desk,
    shape: Arc<Mutex<ApitubeShape>>,
}

impl Apitube {
    /// Starts it, without any story.
    pub async fn start() -> Self {
        let (desk, shape) = (Desk::new(PAGE), Arc::new(Mutex::new(ApitubeShape::Results)));
        let rules = Rules { desk: desk.clone(), shape: shape.clone() };
        Self { server: Server::start(rules).await, desk, shape }
    }

    /// What goes into `APITUBE_BASE_URL`.
    pub fn url(&self) -> String {
        format!("{}/v1", self.server.url())
    }

    /// The key that it accepts.
    pub fn key(&self) -> String {
        KEY.to_owned()
    }

    /// A new story, the newest of all.
    pub fn publish(&self, story: Story) {
        self.desk.publish(story);
    }

    /// How many stories are on a page.
    pub fn page_size(&self, stories: usize) {
        self.desk.page_size(stories);
    }

    /// How many calls are left. Without this there is no end to them.
    pub fn credits(&self, calls: u64) {
        self.desk.credits(calls);
    }

    /// Which envelope it answers with.
    pub fn shape(&self, shape: ApitubeShape) {
        *self.shape.lock().unwrap_or_else(PoisonError::into_inner) = shape;
    }

    /// An error as APITube writes it, for [`crate::Fault::Answer`].
    pub fn error(status: u16, code: &str, message: &str) -> Answer {
        let links = json!({"about": "https://docs.apitube.io/errors"});
        let error = json!({"status": status, "code": code, "message": message, "links": links});
        Answer::json(status, &json!({"status": "not_ok", "errors": [error]}))
    }
}

impl Deref for Apitube {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

struct Rules {
    desk: Desk,
    shape: Arc<Mutex<ApitubeShape>>,
}

impl Service for Rules {
    fn answer(&self, ask: &Ask) -> Answer {
        if ask.path != "/v1/news/everything" {
            return Apitube::error(404, "ER0404", "canary-provider-message");
        }
        let bearer = ask.header("authorization").and_then(|value| value.strip_prefix("Bearer "));
        if bearer.or_else(|| ask.header("x-api-key")) != Some(KEY) {
            return Apitube::error(401, "ER0202", "canary-provider-message: the key is not valid");
        }
        let page = ask.param("page").unwrap_or_else(|| "1".to_owned());
        let Some(page) = page.parse().ok().filter(|page| *page > 0) else {
            return Apitube::error(400, "ER0171", "canary-provider-message: page");
        };
        let Ok(left) = self.desk.spend() else {
            return Apitube::error(402, "ER0203", "canary-provider-message: no credits");
        };
        let answer = Answer::json(200, &self.envelope(page, ask));
        match left {
            Some(left) => answer.with("x-ratelimit-remaining", &left.to_string()),
            None => answer,
        }
    }
}

impl Rules {
    fn envelope(&self, page: usize, ask: &Ask) -> Value {
        let (stories, more) = self.desk.numbered(page);
        let items: Vec<Value> = stories.iter().map(item).collect();
        match *self.shape.lock().unwrap_or_else(PoisonError::into_inner) {
            ApitubeShape::Results => {
                // As the service does: its own host, and the key that was sent in the query.
                let next = format!("https://api.apitube.io{}?{}", ask.path, next_query(ask, page + 1));
                json!({
                    "status": "ok", "limit": items.len(), "path": "https://api.apitube.io/v1/news/everything",
                    "page": page, "has_next_pages": more, "next_page": if more { json!(next) } else { json!("") },
                    "has_previous_page": page > 1, "request_id": "standin", "results": items,
                })
            }
            ApitubeShape::Data => {
                let next =
                    more.then(|| format!("https://api.apitube.io{}?{}", ask.path, next_query(ask, page + 1)));
                json!({"data": items, "links": {"next_page": next}, "meta": {"total": items.len()}})
            }
            ApitubeShape::Articles => {
                json!({"articles": items, "next_page": more.then_some(page + 1), "total": items.len()})
            }
        }
    }
}

fn next_query(ask: &Ask, page: usize) -> String {
    let pairs = url::form_urlencoded::parse(ask.query.as_bytes()).filter(|(name, _)| name != "page");
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(pairs).append_pair("page", &page.to_string()).append_pair("api_key", KEY);
    query.finish()
}

fn item(story: &Story) -> Value {
    let (date, time) = civil(story.published_s);
    let id = story.id.parse::<u64>().map_or_else(|_| json!(story.id), |number| json!(number));
    let item = json!({
        "id": id,
        "href": story.link,
        "published_at": format!("{date}T{time}Z"),
        "title": story.title,
        "description": story.description,
        "body": "The whole text, which is not asked for.",
        "language": "en",
        "image": format!("https://images.example/{}.jpg", story.id),
        "categories": [{"id": 1, "name": "cryptocurrency", "score": 0.9}],
        "source": {
            "id": 7, "domain": "paper.example", "home_page_url": "https://paper.example",
            "name": "The Paper", "favicon": "https://paper.example/icon.png",
        },
        "sentiment": {"overall": {"score": 0.4, "polarity": "positive"}},
    });
    merged(item, &story.more)
}
