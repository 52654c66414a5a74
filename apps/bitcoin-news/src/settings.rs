//! The settings: one table, read in the parts that a process needs.

use std::time::Duration;

use url::Url;
use windlass_app::{Environment, Reading, Setting, SettingsError};
use windlass_engine::Ladder;
use windlass_engine::core::policy::cron::CronLine;
use windlass_engine::core::secret::Secret;
use windlass_engine::core::time::Span;
use windlass_outside::news::{APITUBE_URL, NEWSDATA_URL};
use windlass_outside::safe_http::Guard;
use windlass_outside::{openai, workers_ai};

use crate::moves::Rules;

/// The shortest token.
const TOKEN_CHARS_MIN: usize = 16;

/// The store, where nobody names another.
pub const STORE: &str = "sqlite:bitcoin-news.db";

const PLACES: &str = "where things are";
const NEWS: &str = "news";
const MODEL: &str = "model";
const PAGES: &str = "pages of articles";
const BOUNDS: &str = "bounds";
const TIMES: &str = "when and how often";
const DOORS: &str = "who may ask";
const KV: &str = "Workers KV";

/// What can be set.
#[rustfmt::skip]
pub static TABLE: &[Setting] = &[
    Setting::new("WINDLASS_STORE", STORE, "the URL of the store: sqlite:FILE or postgres://USER@HOST/DATABASE; --store says it, too").section(PLACES),
    Setting::new("BITCOIN_NEWS_LISTEN", "127.0.0.1:7718", "where the feed is served; --listen says it, too").section(PLACES),
    Setting::new("NEWS_PROVIDER", "newsdata", "`newsdata` or `apitube`").section(NEWS),
    Setting::optional("NEWSDATA_API_KEY", "missing", "needed for `newsdata`").secret().section(NEWS),
    Setting::new("NEWSDATA_BASE_URL", NEWSDATA_URL, "the key goes to this host and no other").section(NEWS),
    Setting::optional("APITUBE_API_KEY", "missing", "needed for `apitube`").secret().section(NEWS),
    Setting::new("APITUBE_BASE_URL", APITUBE_URL, "the key goes to this host and no other").section(NEWS),
    Setting::new("MAX_PAGES", "15", "how many pages one run of the updater asks for at most").section(NEWS),
    Setting::new("NEWS_CREDITS_PER_DAY", "200", "how many pages are asked for in any 24 hours; NewsData's free plan has 200").section(NEWS),
    Setting::new("AI_PROVIDER", "workers-ai", "`workers-ai`, or `openai` for everything that speaks OpenAI's language").section(MODEL),
    Setting::optional("AI_MODEL", "`@cf/meta/llama-3.1-8b-instruct` or `gpt-4o-mini`", "the model's name").section(MODEL),
    Setting::optional("CLOUDFLARE_ACCOUNT_ID", "missing", "needed for `workers-ai` and for Workers KV; may be left out where the base URL is a local server").section(MODEL),
    Setting::optional("CLOUDFLARE_API_TOKEN", "missing", "needed for `workers-ai` and for Workers KV").secret().section(MODEL),
    Setting::new("CLOUDFLARE_BASE_URL", workers_ai::URL, "the token goes to this host and no other").section(MODEL),
    Setting::optional("OPENAI_API_KEY", "missing", "needed for `openai`").secret().section(MODEL),
    Setting::new("OPENAI_BASE_URL", openai::URL, "the key goes to this host and no other").section(MODEL),
    Setting::new("AI_TIMEOUT", "60s", "for one question").section(MODEL),
    Setting::optional("AI_CALLS_PER_DAY", "no bound", "how many questions are asked in any 24 hours").section(MODEL),
    Setting::new("MAX_CONTENT_CHARS", "10240", "how many characters of a page's text are kept").section(PAGES),
    Setting::new("FETCH_ROBOTS", "true", "whether `robots.txt` is respected").section(PAGES),
    Setting::new("FETCH_CONTACT", "https://github.com/windlass-rs/windlass", "whom a site can write to; part of the user agent").section(PAGES),
    Setting::optional("FETCH_ALLOW_HOSTS", "none", "`host:port` pairs that may be fetched although they are not public; for tests and intranets").section(PAGES),
    Setting::new("MAX_STORED_ARTICLES", "500", "how many articles the feed and the index have").section(BOUNDS),
    Setting::new("MAX_PENDING_LIST_SIZE", "500", "how many articles wait for their first attempt; the oldest over it are skipped").section(BOUNDS),
    Setting::new("ID_INDEX_TTL", "2592000", "seconds that an article is kept after its last change").section(BOUNDS),
    Setting::new("DELETE_OLD_ARTICLES", "false", "whether articles that left the index are deleted at once").section(BOUNDS),
    Setting::new("UPDATER_CRON", "0 * * * *", "when the updater runs: five fields, or six with seconds, in UTC").section(TIMES),
    Setting::optional("PROCESSOR_CRON", "all the time", "when the processor makes a run of `MAX_ARTICLES_PER_RUN` articles").section(TIMES),
    Setting::new("MAX_ARTICLES_PER_RUN", "1", "how many articles a processor works on at once, and in one run").section(TIMES),
    Setting::new("MAX_CONTENT_FETCH_ATTEMPTS", "5", "how often a page is asked for before the article is finished with empty values").section(TIMES),
    Setting::new("MAX_MODEL_ATTEMPTS", "5", "how often a model may give an answer that is of no use").section(TIMES),
    Setting::new("RETRY_LADDER", "1m 5m 15m 1h", "the delays between tries; the last one repeats").section(TIMES),
    Setting::new("LEASE", "30s", "how long the article of a processor that was lost waits for another").section(TIMES),
    Setting::optional("ALLOWED_ORIGINS", "none", "sites whose pages may read the feed, such as `https://example.org`").section(DOORS),
    Setting::optional("ADMIN_TOKEN", "`/admin` is closed, and `/kv` is open on this machine", "asked for by `/admin` and `/kv`, at least 16 characters; needed to listen beyond this machine").secret().section(DOORS),
    Setting::optional("CLOUDFLARE_KV_NAMESPACE_ID", "nothing is published", "the namespace that the four documents are published to").section(KV),
    Setting::new("KV_WRITES_PER_DAY", "1000", "how many keys are written in any 24 hours; the free plan has 1000").section(KV),
];

/// Which parts of the program a process is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Roles {
    /// It fetches news.
    pub updater: bool,
    /// It works on articles.
    pub processor: bool,
}

impl Roles {
    /// Neither: it only looks.
    pub const NONE: Self = Self { updater: false, processor: false };
    /// Everything.
    pub const ALL: Self = Self { updater: true, processor: true };
}

/// Everything that a process must know.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where news come from, in a process that fetches them.
    pub news: Option<News>,
    /// Who reads them, in a process that works on articles.
    pub model: Option<Model>,
    /// Pages asked for in one run.
    pub pages_max: u32,
    /// Pages asked for in 24 hours.
    pub credits_per_day: u32,
    /// Questions in 24 hours.
    pub calls_per_day: Option<u32>,
    /// How pages are fetched.
    pub pages: Pages,
    /// How much is kept.
    pub bounds: Bounds,
    /// How often things are tried.
    pub rules: Rules,
    /// When the updater runs.
    pub updater_cron: String,
    /// When the processor runs; all the time when nothing is said.
    pub processor_cron: Option<String>,
    /// How many articles at once.
    pub at_once: usize,
    /// How long a lease lasts.
    pub lease: Duration,
    /// Sites that may read the feed.
    pub origins: Vec<String>,
    /// Who may administrate.
    pub admin_token: Option<Secret<String>>,
    /// Where the documents are published.
    pub kv: Option<Kv>,
    /// Keys written in 24 hours.
    pub kv_writes_per_day: u32,
}

/// Where news come from.
#[derive(Debug, Clone)]
pub struct News {
    /// Who gives them.
    pub provider: Provider,
    /// The key.
    pub key: Secret<String>,
    /// The base of the API.
    pub base: Url,
}

/// Who gives news.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Provider {
    /// NewsData.io.
    Newsdata,
    /// APITube.
    Apitube,
}

/// Who reads articles.
#[derive(Debug, Clone)]
pub struct Model {
    /// Whose language is spoken.
    pub speaks: Speaks,
    /// The model's name.
    pub name: String,
    /// The key or token.
    pub key: Secret<String>,
    /// The base of the API.
    pub base: Url,
    /// For one question.
    pub timeout: Duration,
}

/// Whose language a model's server speaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Speaks {
    /// Cloudflare's.
    WorkersAi {
        /// The account.
        account: String,
    },
    /// OpenAI's.
    OpenAi,
}

/// How pages are fetched.
#[derive(Debug, Clone)]
pub struct Pages {
    /// Characters of text that are kept.
    pub chars_max: usize,
    /// Whether `robots.txt` is respected.
    pub robots: bool,
    /// Whom a site can write to.
    pub contact: String,
    /// `host:port` pairs that may be fetched although they are not public.
    pub allow_hosts: Vec<String>,
}

/// How much is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Articles of the index.
    pub stored_max: usize,
    /// Articles that wait for their first attempt.
    pub pending_max: usize,
    /// How long an article is kept after its last change.
    pub keep: Duration,
    /// Whether articles that left the index are deleted at once.
    pub delete_old: bool,
}

/// Where the documents are published.
#[derive(Debug, Clone)]
pub struct Kv {
    /// The account; none where a local server plays one.
    pub account: Option<String>,
    /// The token.
    pub token: Secret<String>,
    /// The base of the API.
    pub base: Url,
    /// The namespace.
    pub namespace: String,
}

impl Settings {
    /// Reads what a process with these roles needs; the rest is checked, too, as far as it is said.
    pub fn read(environment: &Environment, roles: Roles) -> Result<Self, SettingsError> {
        let mut reading = Reading::new(environment, TABLE);
        let settings = all(&mut reading, roles);
        reading.finish(settings)
    }
}

/// The URL of the store and the address of the feed: what every verb needs, with keys or without.
pub fn places(environment: &Environment) -> Result<(String, String), SettingsError> {
    let mut reading = Reading::new(environment, TABLE);
    let read = read_places(&mut reading);
    reading.finish(read)
}

fn read_places(reading: &mut Reading<'_>) -> (String, String) {
    (reading.text("WINDLASS_STORE"), reading.text("BITCOIN_NEWS_LISTEN"))
}

fn all(reading: &mut Reading<'_>, roles: Roles) -> Settings {
    let news = news(reading, roles.updater);
    let model = model(reading, roles.processor);
    let allow_hosts = allow_hosts(reading);
    let origins: Vec<Url> = reading.list("ALLOWED_ORIGINS", "an origin such as https://example.org");
    let calls = reading.is_given("AI_CALLS_PER_DAY");
    Settings {
        news,
        model,
        pages_max: reading.number("MAX_PAGES", 1..=10_000),
        credits_per_day: reading.number("NEWS_CREDITS_PER_DAY", 1..=100_000_000),
        calls_per_day: calls.then(|| reading.number("AI_CALLS_PER_DAY", 1..=100_000_000)),
        pages: Pages {
            chars_max: reading.number("MAX_CONTENT_CHARS", 100..=200_000),
            robots: reading.flag("FETCH_ROBOTS"),
            contact: reading.text("FETCH_CONTACT"),
            allow_hosts,
        },
        bounds: Bounds {
            stored_max: reading.number("MAX_STORED_ARTICLES", 1..=100_000),
            pending_max: reading.number("MAX_PENDING_LIST_SIZE", 1..=1_000_000),
            keep: Duration::from_secs(reading.number("ID_INDEX_TTL", 60..=315_360_000)),
            delete_old: reading.flag("DELETE_OLD_ARTICLES"),
        },
        rules: Rules {
            fetch_attempts_max: reading.number("MAX_CONTENT_FETCH_ATTEMPTS", 1..=1_000),
            model_attempts_max: reading.number("MAX_MODEL_ATTEMPTS", 1..=1_000),
            ladder: ladder(reading),
        },
        updater_cron: cron(reading, "UPDATER_CRON").unwrap_or_default(),
        processor_cron: cron(reading, "PROCESSOR_CRON"),
        at_once: reading.number("MAX_ARTICLES_PER_RUN", 1..=1_000),
        lease: reading.span("LEASE", Span::from_ms(1_000)..=Span::from_ms(3_600_000)),
        origins: origins.iter().map(|origin| origin.origin().ascii_serialization()).collect(),
        admin_token: admin_token(reading),
        kv: kv(reading),
        kv_writes_per_day: reading.number("KV_WRITES_PER_DAY", 4..=100_000_000),
    }
}

/// A token that could be guessed protects nothing.
fn admin_token(reading: &mut Reading<'_>) -> Option<Secret<String>> {
    const NAME: &str = "ADMIN_TOKEN";
    let token = reading.optional_secret(NAME)?;
    if token.expose().chars().count() < TOKEN_CHARS_MIN {
        let text =
            format!("{NAME} must have at least {TOKEN_CHARS_MIN} characters; make it a long random text");
        reading.refuse(NAME, text);
    }
    Some(token)
}

fn allow_hosts(reading: &mut Reading<'_>) -> Vec<String> {
    const NAME: &str = "FETCH_ALLOW_HOSTS";
    let hosts = reading.optional(NAME).unwrap_or_default();
    let hosts: Vec<String> =
        hosts.split([',', ' ']).filter(|host| !host.is_empty()).map(str::to_owned).collect();
    if hosts.iter().any(|host| Guard::new().allow_host(host).is_err()) {
        reading.refuse(NAME, format!("{NAME} must be host:port pairs such as intranet.example:8080"));
    }
    hosts
}

/// A secret that some choice needs: it is named when it is missing.
fn needed(reading: &mut Reading<'_>, name: &str, for_what: &str) -> Secret<String> {
    reading.optional_secret(name).unwrap_or_else(|| {
        reading.refuse(name, format!("{name} is missing: {for_what}; set it in the environment"));
        Secret::new(String::new())
    })
}

fn news(reading: &mut Reading<'_>, is_needed: bool) -> Option<News> {
    let word = reading.text("NEWS_PROVIDER").to_ascii_lowercase();
    let (provider, key, base) = match word.as_str() {
        "newsdata" => (Provider::Newsdata, "NEWSDATA_API_KEY", "NEWSDATA_BASE_URL"),
        "apitube" => (Provider::Apitube, "APITUBE_API_KEY", "APITUBE_BASE_URL"),
        _ => {
            reading.refuse("NEWS_PROVIDER", "NEWS_PROVIDER must be newsdata or apitube");
            return None;
        }
    };
    let base = reading.url(base);
    let _ = (reading.is_given("NEWSDATA_BASE_URL"), reading.is_given("APITUBE_BASE_URL"));
    let _ = (reading.is_given("NEWSDATA_API_KEY"), reading.is_given("APITUBE_API_KEY"));
    if !is_needed && !reading.is_given(key) {
        return None;
    }
    let key = needed(reading, key, &format!("NEWS_PROVIDER is {word}"));
    Some(News { provider, key, base })
}

fn model(reading: &mut Reading<'_>, is_needed: bool) -> Option<Model> {
    let word = reading.text("AI_PROVIDER").to_ascii_lowercase();
    let name = reading.optional("AI_MODEL");
    let timeout = reading.span("AI_TIMEOUT", Span::from_ms(1_000)..=Span::from_ms(600_000));
    let (cloudflare, openai) = (reading.url("CLOUDFLARE_BASE_URL"), reading.url("OPENAI_BASE_URL"));
    let account = reading.optional("CLOUDFLARE_ACCOUNT_ID");
    let why = format!("AI_PROVIDER is {word}");
    let is_given = reading.is_given(if word == "openai" { "OPENAI_API_KEY" } else { "CLOUDFLARE_API_TOKEN" });
    let _ = reading.is_given("OPENAI_API_KEY");
    match word.as_str() {
        "workers-ai" | "openai" if !is_needed && !is_given => None,
        "workers-ai" => {
            if account.is_none() && is_needed {
                let text = format!("CLOUDFLARE_ACCOUNT_ID is missing: {why}; set it in the environment");
                reading.refuse("CLOUDFLARE_ACCOUNT_ID", text);
            }
            let key = needed(reading, "CLOUDFLARE_API_TOKEN", &why);
            let name = name.unwrap_or_else(|| "@cf/meta/llama-3.1-8b-instruct".to_owned());
            let speaks = Speaks::WorkersAi { account: account.unwrap_or_default() };
            Some(Model { speaks, name, key, base: cloudflare, timeout })
        }
        "openai" => {
            let key = needed(reading, "OPENAI_API_KEY", &why);
            let name = name.unwrap_or_else(|| "gpt-4o-mini".to_owned());
            Some(Model { speaks: Speaks::OpenAi, name, key, base: openai, timeout })
        }
        _ => {
            reading.refuse("AI_PROVIDER", "AI_PROVIDER must be workers-ai or openai");
            None
        }
    }
}

fn kv(reading: &mut Reading<'_>) -> Option<Kv> {
    let namespace = reading.optional("CLOUDFLARE_KV_NAMESPACE_ID")?;
    let base = reading.url("CLOUDFLARE_BASE_URL");
    let account = reading.optional("CLOUDFLARE_ACCOUNT_ID");
    let why = "CLOUDFLARE_KV_NAMESPACE_ID is set";
    if account.is_none() && base.as_str().starts_with("https://api.cloudflare.com") {
        let text = format!("CLOUDFLARE_ACCOUNT_ID is missing: {why}; set it in the environment");
        reading.refuse("CLOUDFLARE_ACCOUNT_ID", text);
    }
    let token = needed(reading, "CLOUDFLARE_API_TOKEN", why);
    Some(Kv { account, token, base, namespace })
}

fn ladder(reading: &mut Reading<'_>) -> Ladder {
    const NAME: &str = "RETRY_LADDER";
    let ladder = reading.parsed(NAME, "a list of delays such as 1m 5m 15m 1h").unwrap_or(Ladder::NONE);
    if ladder.rungs().is_empty() {
        reading.refuse(NAME, format!("{NAME} must have at least one delay, such as 1m"));
    }
    ladder
}

fn cron(reading: &mut Reading<'_>, name: &str) -> Option<String> {
    let line = reading.optional(name)?;
    if CronLine::new(&line, "UTC").is_err() {
        let what = "a cron line of five fields, or six with seconds, such as 0 * * * *";
        reading.refuse(name, format!("{name} must be {what}"));
    }
    Some(line)
}

#[cfg(test)]
mod tests {
    use windlass_app::settings::{hold_guide, problems};

    use super::*;

    const KEYS: [(&str, &str); 3] =
        [("NEWSDATA_API_KEY", "canary"), ("CLOUDFLARE_ACCOUNT_ID", "a"), ("CLOUDFLARE_API_TOKEN", "canary")];

    fn read(pairs: &[(&str, &str)], roles: Roles) -> Result<Settings, SettingsError> {
        Settings::read(&pairs.iter().copied().collect(), roles)
    }

    fn with_keys(pairs: &[(&str, &str)]) -> Result<Settings, SettingsError> {
        let all: Vec<_> = KEYS.iter().chain(pairs).copied().collect();
        read(&all, Roles::ALL)
    }

    #[test]
    fn the_table_and_the_guide() {
        assert_eq!(problems(TABLE), Vec::<String>::new());
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/bitcoin-news.md");
        hold_guide(std::path::Path::new(page), TABLE);
        let environment = Environment::default();
        let mut reading = Reading::new(&environment, TABLE);
        let _ = (read_places(&mut reading), all(&mut reading, Roles::ALL));
        assert_eq!(reading.unasked(), Vec::<&str>::new());
    }

    #[test]
    fn a_missing_key_is_named_where_it_is_needed() {
        let error = read(&[], Roles::ALL).unwrap_err().to_string();
        for name in ["NEWSDATA_API_KEY", "CLOUDFLARE_ACCOUNT_ID", "CLOUDFLARE_API_TOKEN"] {
            assert!(error.contains(name), "{error}");
        }
        let choice = [("NEWS_PROVIDER", "APITube"), ("AI_PROVIDER", "openai")];
        let error = read(&choice, Roles::ALL).unwrap_err().to_string();
        assert!(error.contains("APITUBE_API_KEY") && error.contains("OPENAI_API_KEY"), "{error}");
        let updater = Roles { updater: true, processor: false };
        let error = read(&[], updater).unwrap_err().to_string();
        assert!(!error.contains("CLOUDFLARE"), "{error}");
        assert!(read(&[], Roles::NONE).is_ok(), "who only looks needs no key");
    }

    #[test]
    fn the_defaults_are_the_seeds() {
        let Settings { bounds, rules, pages_max, pages, at_once, .. } = with_keys(&[]).unwrap();
        assert_eq!((bounds.stored_max, bounds.pending_max, bounds.keep.as_secs()), (500, 500, 2_592_000));
        assert_eq!((pages_max, at_once, pages.chars_max, rules.fetch_attempts_max), (15, 1, 10_240, 5));
        assert!(!bounds.delete_old);
        assert_eq!(rules.ladder.to_string(), "1m 5m 15m 1h");
    }

    /// The reference takes the word "false" for a yes.
    #[test]
    fn the_word_false_means_false() {
        let delete = |word: &str| with_keys(&[("DELETE_OLD_ARTICLES", word)]).unwrap().bounds.delete_old;
        assert!(!delete("false") && !delete("FALSE") && delete("true"));
    }

    #[test]
    fn what_makes_no_sense_is_said_without_a_value() {
        let pairs = [
            ("NEWS_PROVIDER", "canary"),
            ("AI_PROVIDER", "canary"),
            ("MAX_PAGES", "canary"),
            ("UPDATER_CRON", "canary"),
            ("PROCESSOR_CRON", "canary"),
            ("RETRY_LADDER", "canary"),
            ("ALLOWED_ORIGINS", "canary"),
            ("FETCH_ALLOW_HOSTS", "fine.example:80 canary"),
            ("DELETE_OLD_ARTICLES", "canary"),
            ("ADMIN_TOKEN", "canary"),
        ];
        let error = with_keys(&pairs).unwrap_err().to_string();
        for (name, _) in pairs {
            assert!(error.contains(name), "{name}: {error}");
        }
        assert!(!error.contains("canary"), "{error}");
        assert!(!format!("{:?}", with_keys(&[]).unwrap()).contains("canary"));
    }

    #[test]
    fn ladders_crons_and_origins() {
        let pairs = [
            ("RETRY_LADDER", "1s,2s"),
            ("UPDATER_CRON", "*/5 * * * * *"),
            ("ALLOWED_ORIGINS", "https://a.example/, http://b:3000"),
            ("FETCH_ALLOW_HOSTS", "127.0.0.1:1 127.0.0.1:2,h:3"),
        ];
        let settings = with_keys(&pairs).unwrap();
        assert_eq!(settings.rules.ladder.to_string(), "1s 2s");
        assert_eq!(settings.origins, ["https://a.example", "http://b:3000"]);
        assert_eq!(settings.pages.allow_hosts.len(), 3);
    }
}
