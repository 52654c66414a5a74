//! Google News RSS.

use std::ops::Deref;

use crate::ask::{Answer, Ask};
use crate::feed::{FeedItem, feed};
use crate::server::Server;

/// How many items a search finds.
const ITEMS: usize = 5;

/// The search feed of Google News: any query finds five articles about it.
pub struct GoogleRss {
    server: Server,
}

impl GoogleRss {
    /// Starts it.
    pub async fn start() -> Self {
        Self { server: Server::start(answer).await }
    }

    /// What goes into `GOOGLE_RSS_URL`.
    pub fn url(&self) -> String {
        format!("{}/rss/search", self.server.url())
    }
}

impl Deref for GoogleRss {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

fn answer(ask: &Ask) -> Answer {
    if ask.path != "/rss/search" {
        return Answer::new(404, "text/html", "<html>not here</html>");
    }
    let Some(query) = ask.param("q").filter(|query| !query.is_empty()) else {
        return Answer::new(400, "text/html", "<html>no query</html>");
    };
    let words: Vec<&str> = query.split_whitespace().filter(|word| !word.starts_with("when:")).collect();
    let topic = words.join(" ");
    let items: Vec<FeedItem> = (0..ITEMS).map(|number| FeedItem::made_up(&topic, number)).collect();
    Answer::new(200, "application/xml; charset=utf-8", feed(&format!("\"{query}\" - Google News"), &items))
}
