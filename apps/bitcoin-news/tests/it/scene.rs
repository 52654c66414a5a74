//! A provider, web sites and a model that do what a test says, and the processes between them and one store.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use windlass_bitcoin_news::archive::Archive;
use windlass_bitcoin_news::article::Article;
use windlass_bitcoin_news::breaker::Breaker;
use windlass_bitcoin_news::jobs::{self, Update};
use windlass_bitcoin_news::process::Processor;
use windlass_bitcoin_news::settings::{Roles, Settings};
use windlass_bitcoin_news::sources::Pages;
use windlass_bitcoin_news::staff::Staff;
use windlass_bitcoin_news::update::{Report, Updater};
use windlass_engine::Client;
use windlass_engine::core::state::State;
use windlass_engine::core::store::Store;
use windlass_engine::testing::{MemoryStore, TestWorld};
use windlass_engine::world::World;
use windlass_outside::article::ArticleError;
use windlass_outside::models::{Model, ModelError, Question, Reply};
use windlass_outside::news::{Cursor, NewsArticle, NewsError, NewsPage, NewsProvider};
use windlass_outside::safe_http::{HttpError, Origin};

pub const SUMMARY: &str = "Bitcoin rose by four percent after the report.";

/// An article made up from a number: always the same, a minute newer than the one before it.
pub fn news(number: i64) -> NewsArticle {
    NewsArticle {
        id: format!("newsdata:{number}"),
        title: format!("Bitcoin report {number}"),
        description: Some(format!("What report {number} says.")),
        link: Some(format!("https://news.example/articles/{number}")),
        published: None,
        published_ms: Some(1_767_182_400_000 + 60_000 * number),
        source_id: Some("paper".to_owned()),
        source_name: Some("The Paper".to_owned()),
        source_url: Some("https://paper.example/".to_owned()),
        source_icon: Some("https://paper.example/icon.png".to_owned()),
        image_url: Some("https://paper.example/image.png".to_owned()),
        language: Some("english".to_owned()),
        country: vec!["us".to_owned()],
        category: vec!["crypto".to_owned()],
        sentiment: None,
    }
}

/// What was asked, and what is answered instead of the usual.
#[derive(Default)]
pub struct Script {
    pub asked: Vec<String>,
    pub faults: HashMap<String, Vec<Fault>>,
    pub always: Option<Fault>,
}

#[derive(Clone)]
pub enum Fault {
    News(NewsError),
    Page(ArticleError),
    Model(ModelError),
    Says(Reply),
    /// A model that keeps silent until the time for a question is over.
    Slow(Duration),
    /// The call never ends.
    Hangs,
}

impl Script {
    fn ask(&mut self, what: &str) -> Option<Fault> {
        self.asked.push(what.to_owned());
        let scripted = self.faults.get_mut(what).filter(|faults| !faults.is_empty());
        scripted.map(|faults| faults.remove(0)).or_else(|| self.always.clone())
    }
}

/// The provider: pages are places in its archive.
pub struct Papers {
    pub stories: Mutex<Vec<NewsArticle>>,
    pub script: Mutex<Script>,
    pub size: Mutex<usize>,
}

#[async_trait]
impl NewsProvider for Papers {
    fn name(&self) -> &'static str {
        "newsdata"
    }

    async fn page(&self, cursor: Option<&Cursor>) -> Result<NewsPage, NewsError> {
        let what = cursor.map_or("first".to_owned(), |cursor| cursor.as_str().to_owned());
        if let Some(Fault::News(error)) = self.script.lock().unwrap().ask(&what) {
            return Err(error);
        }
        let stories = self.stories.lock().unwrap();
        let end = cursor.map_or(stories.len(), |cursor| cursor.as_str().parse().unwrap());
        let begin = end.saturating_sub(*self.size.lock().unwrap());
        let articles = stories[begin..end].iter().rev().cloned().collect();
        let next = (begin > 0).then(|| Cursor::try_from(begin.to_string()).unwrap());
        Ok(NewsPage { articles, next, skipped: 0, calls_left: None })
    }
}

/// The web.
#[derive(Default)]
pub struct Web(pub Mutex<Script>);

#[async_trait]
impl Pages for Web {
    async fn text(&self, address: &str, _: u64) -> Result<String, ArticleError> {
        let fault = self.0.lock().unwrap().ask(address);
        match fault {
            Some(Fault::Page(error)) => Err(error),
            Some(Fault::Hangs) => std::future::pending().await,
            _ => Ok(format!("{address} says: {}", "Bitcoin moved again, traders said. ".repeat(10))),
        }
    }
}

/// The model. It is asked "sentiment" or "summary" of an article, by its headline.
pub struct Reader(pub Mutex<Script>, TestWorld);

#[async_trait]
impl Model for Reader {
    async fn ask(&self, question: &Question) -> Result<Reply, ModelError> {
        let data: serde_json::Value = serde_json::from_str(question.messages[1].content.expose()).unwrap();
        let what = format!("{} of {}", question.schema.name, data["headline"].as_str().unwrap());
        let fault = self.0.lock().unwrap().ask(&what);
        match fault {
            Some(Fault::Model(error)) => return Err(error),
            Some(Fault::Says(reply)) => return Ok(reply),
            Some(Fault::Slow(total)) => {
                self.1.advance(total).await;
                let origin = Origin::of(&"https://model.example".parse().unwrap()).unwrap();
                return Err(ModelError::WorkersAi(HttpError::Timeout { origin, total }.into()));
            }
            _ => {}
        }
        Ok(Reply::Json(match question.schema.name.as_str() {
            "sentiment" => serde_json::json!({"sentiment": "positive"}),
            _ => serde_json::json!({"matches": true, "summary": SUMMARY}),
        }))
    }
}

pub struct Scene {
    pub world: TestWorld,
    pub store: Arc<MemoryStore>,
    pub papers: Arc<Papers>,
    pub web: Arc<Web>,
    pub reader: Arc<Reader>,
    pub env: BTreeMap<String, String>,
}

impl Scene {
    pub fn new(env: &[(&str, &str)]) -> Self {
        let world = TestWorld::new(7);
        let store = Arc::new(MemoryStore::new(Arc::new(world.clone())));
        let papers = Papers { stories: Mutex::default(), script: Mutex::default(), size: Mutex::new(3) };
        let keys = [("NEWSDATA_API_KEY", "k"), ("CLOUDFLARE_ACCOUNT_ID", "a"), ("CLOUDFLARE_API_TOKEN", "t")];
        let env = keys.iter().chain(env).map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let (web, reader) = (Arc::default(), Arc::new(Reader(Mutex::default(), world.clone())));
        Self { world, store, papers: Arc::new(papers), web, reader, env: env.collect() }
    }

    pub fn publish(&self, numbers: impl IntoIterator<Item = i64>) {
        self.papers.stories.lock().unwrap().extend(numbers.into_iter().map(news));
    }

    pub fn settings(&self) -> Settings {
        Settings::read(&self.env.clone().into_iter().collect(), Roles::ALL).unwrap()
    }

    /// Who works, on a store as some process sees it.
    pub async fn staff_on(&self, store: Arc<dyn Store>) -> Staff {
        let settings = self.settings();
        let world: Arc<dyn World> = Arc::new(self.world.clone());
        let archive = Archive::new(Client::in_world(store.clone(), world.clone()), settings.bounds);
        jobs::prepare(&*store, &settings).await.unwrap();
        let updater = Updater {
            archive: archive.clone(),
            provider: self.papers.clone(),
            world: world.clone(),
            pages_max: settings.pages_max,
        };
        let processor = Processor {
            archive: archive.clone(),
            model: self.reader.clone(),
            pages: self.web.clone(),
            rules: settings.rules.clone(),
            counts_calls: settings.calls_per_day.is_some(),
            world: world.clone(),
            breaker: Breaker::default(),
        };
        Staff {
            archive,
            updater: Some(Arc::new(updater)),
            processor: Some(Arc::new(processor)),
            publisher: None,
            at_once: settings.at_once,
            world,
        }
    }

    pub async fn staff(&self) -> Staff {
        self.staff_on(self.store.clone()).await
    }

    pub async fn archive(&self) -> Archive {
        self.staff().await.archive
    }

    /// One run of the updater, tried as often as its ladder says: what it came to.
    pub async fn update(&self) -> Result<Report, String> {
        let mut staff = self.staff().await;
        staff.processor = None;
        let job = staff.archive.client.enqueue(Update::asked_for().ladder("none")).await.unwrap();
        staff.worker(false).unwrap().run_until_idle().await.unwrap();
        let job = staff.archive.client.get(job.id()).await.unwrap().unwrap();
        match &job.state {
            State::Completed { result, .. } => Ok(result.as_ref().unwrap().read().unwrap()),
            _ => Err(job.last_error().unwrap_or_default().to_owned()),
        }
    }

    /// Works until nothing is left to do, however long that takes.
    pub async fn work(&self) {
        let mut staff = self.staff().await;
        staff.updater = None;
        staff.worker(true).unwrap().run_until_idle().await.unwrap();
    }

    /// Works for so long.
    pub async fn work_for(&self, time: Duration) {
        let mut staff = self.staff().await;
        staff.updater = None;
        let world = self.world.clone();
        staff.worker(true).unwrap().run_until(async move { world.advance(time).await }).await.unwrap();
    }

    /// One run of the processor.
    pub async fn run(&self) {
        self.staff().await.process_once(std::future::pending()).await.unwrap();
    }

    pub async fn article(&self, number: i64) -> Article {
        let id = format!("newsdata:{number}");
        self.archive().await.articles.get(id).await.unwrap().expect("the article is there").value
    }

    /// How many articles there are in each state.
    pub async fn count(&self, label: &str) -> u64 {
        self.archive().await.articles.count("").await.unwrap().of(label)
    }

    pub async fn document(&self, key: &str) -> serde_json::Value {
        windlass_bitcoin_news::documents::get(&self.archive().await, key).await.unwrap().unwrap()
    }

    pub fn fail_page(&self, number: i64, faults: Vec<Fault>) {
        self.web.0.lock().unwrap().faults.insert(format!("https://news.example/articles/{number}"), faults);
    }

    pub fn asked_pages(&self) -> Vec<String> {
        let asked = self.web.0.lock().unwrap().asked.clone();
        asked.into_iter().map(|address| address.rsplit('/').next().unwrap().to_owned()).collect()
    }

    pub fn asked_model(&self, what: &str) -> usize {
        self.reader.0.lock().unwrap().asked.iter().filter(|asked| asked.starts_with(what)).count()
    }
}

pub fn away() -> Fault {
    Fault::Model(ModelError::WorkersAi(windlass_outside::workers_ai::CloudflareError::Upstream {
        status: 503,
        retry_after: None,
    }))
}

pub fn empty() -> Fault {
    Fault::Page(ArticleError::Empty)
}

pub fn upstream() -> Fault {
    Fault::News(NewsError::Upstream { provider: "newsdata", status: 500, retry_after: None })
}
