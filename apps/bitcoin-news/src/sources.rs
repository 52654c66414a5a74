//! Everybody who is asked for something: a provider of news, web sites, a model. Nothing is asked yet.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use windlass_outside::article::{Agent, ArticleError, Articles, Settings as PageSettings};
use windlass_outside::models::{Model, OpenAiModel};
use windlass_outside::news::{Apitube, NewsProvider, Newsdata};
use windlass_outside::openai::OpenAi;
use windlass_outside::safe_http::{Guard, Http, Limits, Refusal};
use windlass_outside::workers_ai::WorkersAi;
use windlass_outside::workers_kv::WorkersKv;

use crate::settings::{self, Provider, Settings, Speaks};

/// How long a provider of news or of storage may take.
const CALL: Duration = Duration::from_secs(30);
/// How large a page of news may be, and an answer of a model or of Workers KV.
const ANSWER_BYTES_MAX: u64 = 32 * 1024 * 1024;

/// Somebody who has the text behind an address.
#[async_trait]
pub trait Pages: Send + Sync {
    /// The readable text.
    async fn text(&self, address: &str, now_ms: u64) -> Result<String, ArticleError>;
}

#[async_trait]
impl Pages for Articles {
    async fn text(&self, address: &str, now_ms: u64) -> Result<String, ArticleError> {
        Ok(self.fetch(address, now_ms).await?.text)
    }
}

/// Why somebody cannot be asked.
#[derive(Debug, thiserror::Error)]
#[error("{name} cannot be used: {why}")]
pub struct SourceError {
    /// The setting.
    pub name: &'static str,
    /// Why not.
    pub why: Refusal,
}

fn of(name: &'static str) -> impl Fn(Refusal) -> SourceError {
    move |why| SourceError { name, why }
}

/// The provider of news.
pub fn news(news: &settings::News) -> Result<Arc<dyn NewsProvider>, SourceError> {
    let settings::News { provider, key, base } = news;
    let limits = Limits { total: CALL, bytes_max: ANSWER_BYTES_MAX, ..Limits::default() };
    let http = |name| Ok::<_, SourceError>(Http::new(Guard::new().allow(base).map_err(of(name))?));
    Ok(match provider {
        Provider::Newsdata => {
            Arc::new(Newsdata::new(http("NEWSDATA_BASE_URL")?, base.clone(), key.clone(), limits))
        }
        Provider::Apitube => {
            let client = Apitube::new(http("APITUBE_BASE_URL")?, base.clone(), key, limits);
            Arc::new(client.map_err(of("APITUBE_API_KEY"))?)
        }
    })
}

/// The model.
pub fn model(model: &settings::Model) -> Result<Arc<dyn Model>, SourceError> {
    let settings::Model { speaks, name, key, base, timeout } = model;
    let limits = Limits { total: *timeout, bytes_max: ANSWER_BYTES_MAX, ..Limits::default() };
    match speaks {
        Speaks::WorkersAi { account } => {
            let http = Http::new(Guard::new().allow(base).map_err(of("CLOUDFLARE_BASE_URL"))?);
            let client = WorkersAi::new(http, base.clone(), account, key, name, limits);
            Ok(Arc::new(client.map_err(of("CLOUDFLARE_API_TOKEN"))?))
        }
        Speaks::OpenAi => {
            let http = Http::new(Guard::new().allow(base).map_err(of("OPENAI_BASE_URL"))?);
            let client = OpenAi::new(http, base.clone(), key.clone(), limits);
            Ok(Arc::new(OpenAiModel::new(client.map_err(of("OPENAI_API_KEY"))?, name)))
        }
    }
}

/// Web sites, of which only public ones may be asked and those that the operator put on the list.
pub fn pages(settings: &Settings) -> Result<Arc<dyn Pages>, SourceError> {
    let settings::Pages { chars_max, robots, contact, allow_hosts } = &settings.pages;
    let mut guard = Guard::new();
    for host in allow_hosts {
        guard = guard.allow_host(host).map_err(of("FETCH_ALLOW_HOSTS"))?;
    }
    let agent = Agent::new("windlass-bitcoin-news", env!("CARGO_PKG_VERSION"), contact);
    let agent = agent.map_err(of("FETCH_CONTACT"))?;
    let settings = PageSettings { robots: *robots, chars_max: *chars_max, ..PageSettings::new(agent) };
    Ok(Arc::new(Articles::new(Http::new(guard), settings)))
}

/// The namespace that is published to.
pub fn kv(kv: &settings::Kv) -> Result<WorkersKv, SourceError> {
    let settings::Kv { account, token, base, namespace } = kv;
    let http = Http::new(Guard::new().allow(base).map_err(of("CLOUDFLARE_BASE_URL"))?);
    let limits = Limits { total: CALL, bytes_max: ANSWER_BYTES_MAX, ..Limits::default() };
    WorkersKv::new(http, base.clone(), account.clone(), namespace, token, limits)
        .map_err(of("CLOUDFLARE_API_TOKEN"))
}
