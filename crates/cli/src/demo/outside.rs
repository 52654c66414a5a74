//! The outside: a stand-in for each provider, and a way to it that can be cut off.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use windlass_standins::{
    Answer, Ask, Etsy, FeedItem, Newsdata, OpenAi, Server, Sites, Twilio, WorkersAi, feed,
};

use super::folder::Folder;
use super::relay::Relay;

/// How many articles a search of the news finds.
const FOUND: usize = 4;

/// All providers.
pub struct Outside {
    pub newsdata: Newsdata,
    pub sites: Sites,
    pub workers_ai: WorkersAi,
    pub google: Server,
    pub openai: OpenAi,
    pub etsy: Etsy,
    pub twilio: Twilio,
    /// How many articles Google has found so far: a search finds other ones each time.
    found: Arc<AtomicUsize>,
    ways: Vec<Way>,
}

/// The way to one of them.
pub struct Way {
    /// What the switch is called.
    pub name: &'static str,
    /// Whom one reaches.
    pub about: &'static str,
    pub relay: Relay,
    to: SocketAddr,
}

impl Outside {
    /// Starts them, each behind the port that it had before.
    pub async fn start(folder: &mut Folder) -> anyhow::Result<Self> {
        let found = Arc::<AtomicUsize>::default();
        let counted = found.clone();
        let mut all = Self {
            newsdata: Newsdata::start().await,
            sites: Sites::start().await,
            workers_ai: WorkersAi::start().await,
            google: Server::start(move |ask: &Ask| search(ask, counted.load(Ordering::Relaxed))).await,
            openai: OpenAi::start().await,
            etsy: Etsy::start().await,
            twilio: Twilio::start().await,
            found,
            ways: Vec::new(),
        };
        all.openai.tell_states();
        let places = [
            ("newsdata", "NewsData, which has news about Bitcoin", all.newsdata.address()),
            ("sites", "the papers' web sites", all.sites.address()),
            ("workers-ai", "the models of Cloudflare", all.workers_ai.address()),
            ("google", "the search of Google News", all.google.address()),
            ("openai", "the models of OpenAI", all.openai.address()),
            ("etsy", "Etsy", all.etsy.address()),
            ("twilio", "Twilio, which has the voice messages", all.twilio.address()),
        ];
        for (name, about, to) in places {
            let relay = Relay::start(folder.port(name, 0)?, to).await?;
            all.ways.push(Way { name, about, relay, to });
        }
        Ok(all)
    }

    /// An address of a stand-in, as workers reach it.
    pub fn through(&self, name: &str, url: &str) -> String {
        self.way(name).map_or_else(|| url.to_owned(), |way| way.relay.through(url, way.to))
    }

    /// `host:port`, as workers reach it.
    pub fn host(&self, name: &str) -> String {
        self.way(name).map(|way| way.relay.address().to_string()).unwrap_or_default()
    }

    /// The way to one of them.
    pub fn way(&self, name: &str) -> Option<&Way> {
        self.ways.iter().find(|way| way.name == name)
    }

    /// All ways.
    pub fn ways(&self) -> &[Way] {
        &self.ways
    }

    /// From now on a search of the news finds others.
    pub fn more_news(&self, number: usize) {
        self.found.store(number, Ordering::Relaxed);
    }

    /// Stand-ins remember what they were asked, for tests; here nobody reads it.
    pub fn forget(&self) {
        let servers: [&Server; 8] = [
            &self.newsdata,
            &self.sites,
            &self.workers_ai,
            &self.google,
            &self.openai,
            &self.etsy,
            &self.twilio,
            &self.twilio.cdn,
        ];
        servers.iter().for_each(|server| server.forget());
    }
}

/// Google's feed of a search: the newest articles of an endless row.
fn search(ask: &Ask, number: usize) -> Answer {
    let Some(query) = ask.param("q").filter(|query| !query.is_empty()) else {
        return Answer::new(400, "text/html", "<html>no query</html>");
    };
    let topic: Vec<&str> = query.split_whitespace().filter(|word| !word.starts_with("when:")).collect();
    let topic = topic.join(" ");
    let items: Vec<FeedItem> = (number..number + FOUND).map(|at| FeedItem::made_up(&topic, at)).collect();
    Answer::new(200, "application/xml; charset=utf-8", feed(&format!("\"{query}\" - Google News"), &items))
}
