//! `check`: what is in order, and what a day would cost.

use serde_json::json;
use windlass_app::output::{plain, print_json};
use windlass_app::{AppError, Exit, Finding, Host, say};
use windlass_engine::Time;
use windlass_engine::core::policy::cron::CronLine;

use crate::app::Place;
use crate::settings::{Provider, Roles, Settings};
use crate::sources;

const DAY_MS: i64 = 86_400_000;
/// Questions about an article: what it means, unless the provider says so, and what its page says.
const QUESTIONS: u64 = 2;
/// Cron lines that fire more often than this are not counted further.
const RUNS_MAX: u64 = 86_400;

/// What a day costs at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cost {
    /// Runs of the updater.
    pub updater_runs: u64,
    /// Pages of news when nothing is new, and when every run asks for all it may.
    pub news_pages_least: u64,
    /// See above.
    pub news_pages_most: u64,
    /// Articles on a page.
    pub articles_a_page: u64,
    /// New articles that these pages can bring.
    pub articles_most: u64,
    /// Questions to the model for so many articles, when each is answered at the first try.
    pub model_calls_usual: u64,
    /// The same when no answer is of use. While the model is away it is asked besides, by the ladder.
    pub model_calls_most: u64,
    /// Keys written to Workers KV, when each article is published once and the lists with every run of a minute.
    pub kv_writes_most: u64,
}

impl Cost {
    fn of(settings: &Settings, now: Time) -> Self {
        let updater_runs = runs(&settings.updater_cron, now);
        let news_pages_most =
            (updater_runs * u64::from(settings.pages_max)).min(u64::from(settings.credits_per_day));
        let provider = settings.news.as_ref().map_or(Provider::Newsdata, |news| news.provider);
        let articles_a_page = page(provider);
        let articles_most = news_pages_most * articles_a_page;
        let bounded = |calls: u64| settings.calls_per_day.map_or(calls, |bound| calls.min(u64::from(bound)));
        let calls = articles_most * QUESTIONS;
        // No minute publishes the lists without an article or a run of the updater.
        let publishings = (articles_most + updater_runs).min(1_440);
        let kv_writes = (articles_most * 2 + publishings * 3).min(u64::from(settings.kv_writes_per_day));
        Self {
            updater_runs,
            news_pages_least: updater_runs.min(news_pages_most),
            news_pages_most,
            articles_a_page,
            articles_most,
            model_calls_usual: bounded(calls),
            model_calls_most: bounded(calls * u64::from(settings.rules.model_attempts_max)),
            kv_writes_most: if settings.kv.is_some() { kv_writes } else { 0 },
        }
    }
}

/// Articles on a page when nobody says how many. NewsData documents 10; APITube documents none, and 100 is what its
/// free plan gives at most. The number is said with what follows from it.
fn page(provider: Provider) -> u64 {
    match provider {
        Provider::Newsdata => 10,
        Provider::Apitube => 100,
    }
}

fn runs(line: &str, now: Time) -> u64 {
    let Ok(cron) = CronLine::new(line, "UTC") else { return 0 };
    let (mut at, mut count) = (now, 0);
    while let Some(next) =
        cron.next_after(at).filter(|next| next.ms() < now.ms() + DAY_MS && count < RUNS_MAX)
    {
        (at, count) = (next, count + 1);
    }
    count
}

pub async fn run(host: &Host, place: &Place) -> Result<Exit, AppError> {
    let mut found = Vec::new();
    let settings = match Settings::read(&host.environment, Roles::ALL) {
        Ok(settings) => {
            found.push(Finding::fine("settings: all that is needed is there"));
            Some(settings)
        }
        Err(error) => {
            found.push(Finding::wrong("settings: something is missing or wrong", error.to_string()));
            Settings::read(&host.environment, Roles::NONE).ok()
        }
    };
    found.push(match store(host, place).await {
        Ok(said) => Finding::fine(said),
        Err(error) => Finding::wrong("store: it cannot be opened", error.to_string()),
    });
    if let Some(settings) = &settings {
        match sources::pages(settings) {
            Ok(_) => {}
            Err(error) => found.push(Finding::wrong("pages: they cannot be fetched", error.to_string())),
        }
    }
    let cost = settings.as_ref().map(|settings| Cost::of(settings, host.world.wall()));
    let is_wrong = found.iter().any(|finding| finding.to_do.is_some());
    if host.json {
        print_json(&json!({"findings": found, "day": cost}))?;
    } else {
        for Finding { what, to_do } in &found {
            match to_do {
                None => say!("✓ {}", plain(what)),
                Some(to_do) => say!("✗ {}\n    {}", plain(what), plain(to_do)),
            }
        }
        if let (Some(cost), Some(settings)) = (cost, &settings) {
            say_cost(&cost, settings);
        }
    }
    Ok(if is_wrong { Exit::FAILED } else { Exit::DONE })
}

/// Looks at the store, and makes none.
async fn store(host: &Host, place: &Place) -> Result<String, AppError> {
    let shown = shown(&place.store);
    let Some(store) = host.stores.open_existing(&place.store).await? else {
        return Ok(format!("store: {shown} is made by the first start"));
    };
    store.records()?;
    Ok(format!("store: {shown} can be opened"))
}

fn say_cost(cost: &Cost, settings: &Settings) {
    let Cost {
        updater_runs,
        news_pages_least,
        news_pages_most,
        articles_a_page,
        articles_most,
        model_calls_usual,
        model_calls_most,
        kv_writes_most,
    } = cost;
    say!("a day with these settings:");
    say!(
        "  news: {updater_runs} runs, {news_pages_least} to {news_pages_most} pages (NEWS_CREDITS_PER_DAY {})",
        settings.credits_per_day
    );
    let bound = settings.calls_per_day.map_or("no bound".to_owned(), |bound| bound.to_string());
    say!(
        "  model: up to {model_calls_usual} questions for up to {articles_most} new articles ({articles_a_page} on a page), two each; up to {model_calls_most} when no answer is of use (MAX_MODEL_ATTEMPTS {}), and while it is away those of the ladder besides (AI_CALLS_PER_DAY {bound})",
        settings.rules.model_attempts_max
    );
    match settings.kv {
        Some(_) => say!(
            "  Workers KV: up to {kv_writes_most} writes and no reads (KV_WRITES_PER_DAY {})",
            settings.kv_writes_per_day
        ),
        None => say!("  Workers KV: nothing is published"),
    }
    if *articles_most > settings.bounds.pending_max as u64 {
        say!(
            "  at first, begin with a small MAX_STORED_ARTICLES (50 to 100) and MAX_PENDING_LIST_SIZE, and raise them from day to day"
        );
    }
}

/// A store's URL without a password.
fn shown(store: &str) -> String {
    match url::Url::parse(store) {
        Ok(mut url) if url.password().is_some() => {
            let _ = url.set_password(Some("…"));
            url.to_string()
        }
        _ => store.to_owned(),
    }
}
