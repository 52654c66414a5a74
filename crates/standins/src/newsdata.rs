//! NewsData.io.

use std::ops::Deref;

use serde_json::{Value, json};

use crate::ask::{Answer, Ask};
use crate::news::{Desk, Story, civil, merged};
use crate::server::{Server, Service};

const KEY: &str = "pub_standin0123456789";
/// How many stories are on a page.
const PAGE: usize = 10;

/// The crypto news of NewsData.io. A cursor is a place in the archive: stories that come in between do not
/// move it.
pub struct Newsdata {
    server: Server,
    desk: Desk,
}

impl Newsdata {
    /// Starts it, without any story.
    pub async fn start() -> Self {
        let desk = Desk::new(PAGE);
        Self { server: Server::start(Rules(desk.clone())).await, desk }
    }

    /// What goes into `NEWSDATA_BASE_URL`.
    pub fn url(&self) -> String {
        format!("{}/api/1", self.server.url())
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

    /// How many calls are left for the day. Without this there is no end to them.
    pub fn credits(&self, calls: u64) {
        self.desk.credits(calls);
    }

    /// An error as NewsData writes it, for [`crate::Fault::Answer`].
    pub fn error(status: u16, code: &str, message: &str) -> Answer {
        let results = json!({"message": message, "code": code});
        Answer::json(status, &json!({"status": "error", "results": results}))
    }
}

impl Deref for Newsdata {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

struct Rules(Desk);

impl Service for Rules {
    fn answer(&self, ask: &Ask) -> Answer {
        if ask.path != "/api/1/crypto" {
            return Newsdata::error(404, "NotFound", "canary-provider-message");
        }
        let key = ask.param("apikey").or_else(|| ask.header("x-access-key").map(str::to_owned));
        if key.as_deref() != Some(KEY) {
            return Newsdata::error(401, "Unauthorized", "canary-provider-message: the API key is not valid");
        }
        for (name, value) in [("coin", "btc"), ("language", "en"), ("removeduplicate", "1")] {
            if ask.param(name).as_deref() != Some(value) {
                return Newsdata::error(422, "UnsupportedParameter", "canary-provider-message");
            }
        }
        let older = match ask.param("page") {
            None => None,
            Some(token) => match token.strip_prefix("older-").and_then(|count| count.parse().ok()) {
                Some(older) => Some(older),
                None => return Newsdata::error(422, "UnsupportedFilter", "canary-provider-message: page"),
            },
        };
        let Ok(left) = self.0.spend() else {
            let message = "You have exceeded your assigned API credits for the day.";
            return Newsdata::error(429, "ApiLimitExceeded", message);
        };
        let (stories, rest) = self.0.older_than(older);
        let next = if rest > 0 { json!(format!("older-{rest}")) } else { Value::Null };
        let results: Vec<Value> = stories.iter().map(item).collect();
        let answer = Answer::json(
            200,
            &json!({"status": "success", "totalResults": rest + results.len(), "results": results, "nextPage": next}),
        );
        match left {
            Some(left) => answer.with("x-ratelimit-remaining", &left.to_string()),
            None => answer,
        }
    }
}

fn item(story: &Story) -> Value {
    let (date, time) = civil(story.published_s);
    let item = json!({
        "article_id": story.id,
        "title": story.title,
        "link": story.link,
        "keywords": ["bitcoin"],
        "creator": null,
        "description": story.description,
        "content": "ONLY AVAILABLE IN PAID PLANS",
        "pubDate": format!("{date} {time}"),
        "pubDateTZ": "UTC",
        "image_url": format!("https://images.example/{}.jpg", story.id),
        "source_id": "paper",
        "source_name": "The Paper",
        "source_url": "https://paper.example",
        "source_icon": "https://paper.example/icon.png",
        "language": "english",
        "country": ["united states of america"],
        "category": ["business", "crypto"],
        "sentiment": "ONLY AVAILABLE IN PROFESSIONAL AND CORPORATE PLANS",
        "coin": ["btc"],
        "duplicate": false,
    });
    merged(item, &story.more)
}
