//! The settings, read from the environment: the seed's variables and ours.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use url::Url;
use windlass_engine::core::policy::ladder::Ladder;
use windlass_outside::secret::Secret;
use windlass_outside::{openai, twilio};

/// Where a variable comes from: the environment, or what a test says.
pub type Env<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Everything that a worker must know.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where the messages are.
    pub database_url: Secret<String>,
    /// How OpenAI is reached.
    pub openai: OpenAi,
    /// How Twilio is reached.
    pub twilio: Twilio,
    /// Where audio is kept.
    pub audio: AudioStore,
    /// How the worker works.
    pub worker: Worker,
    /// Inner origins that may be asked although they are not public, such as stand-ins.
    pub allow_origins: Vec<Url>,
}

/// How OpenAI is reached.
#[derive(Debug, Clone)]
pub struct OpenAi {
    /// The key.
    pub key: Secret<String>,
    /// The base of its API.
    pub base: Url,
    /// The model that transcribes.
    pub transcribe_model: String,
    /// The model that analyses.
    pub analysis_model: String,
    /// The language that is spoken, as two letters; detected when nothing is said.
    pub language: Option<String>,
    /// How long it may take for an answer.
    pub timeout: Duration,
}

/// How Twilio is reached.
#[derive(Debug, Clone)]
pub struct Twilio {
    /// The account.
    pub account: String,
    /// Its token.
    pub token: Secret<String>,
    /// The base of its API. Credentials go to its host and to no other.
    pub base: Url,
    /// How long it may take for a note.
    pub timeout: Duration,
}

/// Where audio is kept.
#[derive(Debug, Clone)]
pub struct AudioStore {
    /// `gs://bucket/prefix` or `file:///folder`.
    pub url: String,
    /// Another base than Google's, for a proxy or a stand-in.
    pub base: Option<Url>,
    /// A token instead of the environment's credentials.
    pub token: Option<Secret<String>>,
}

/// How the worker works.
#[derive(Debug, Clone)]
pub struct Worker {
    /// Its name, if it was given one.
    pub id: Option<String>,
    /// How many messages are claimed at once.
    pub batch_size: usize,
    /// How many messages are worked at once.
    pub concurrency: usize,
    /// How long a lock lasts.
    pub lock: Duration,
    /// How long an idle worker waits before it asks again.
    pub poll: Duration,
    /// How often a message is tried.
    pub max_retries: u32,
    /// The delays between tries.
    pub ladder: Ladder,
    /// How long running stages may go on after SIGTERM.
    pub grace: Duration,
    /// How long a message waits that was given back on shutdown.
    pub requeue: Duration,
    /// How long a provider is left alone at most, whatever it asks for.
    pub cool_down_max: Duration,
    /// Where metrics and health are served; nowhere when nothing is said.
    pub listen: Option<SocketAddr>,
    /// Who may read the metrics from another machine.
    pub listen_token: Option<Secret<String>>,
}

impl Default for Worker {
    /// What the seed says.
    fn default() -> Self {
        Reader::new(&|_| None).worker()
    }
}

/// What is wrong with the settings: all of it at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingsError {
    missing: Vec<&'static str>,
    wrong: Vec<String>,
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if !self.missing.is_empty() {
            parts.push(format!(
                "these environment variables are missing: {}; set them",
                self.missing.join(", ")
            ));
        }
        parts.extend(self.wrong.iter().cloned());
        f.write_str(&parts.join("; "))
    }
}

impl std::error::Error for SettingsError {}

impl Settings {
    /// Reads all settings of the worker.
    pub fn read(env: Env<'_>) -> Result<Self, SettingsError> {
        let mut reader = Reader::new(env);
        let settings = Self {
            database_url: reader.secret("DATABASE_URL"),
            openai: OpenAi {
                key: reader.secret("OPENAI_API_KEY"),
                base: reader.url("OPENAI_BASE_URL", openai::URL),
                transcribe_model: reader.text("TRANSCRIBE_MODEL", "whisper-1"),
                analysis_model: reader.text("ANALYSIS_MODEL", "gpt-4o"),
                language: reader.optional("TRANSCRIBE_LANGUAGE"),
                timeout: reader.seconds("OPENAI_TIMEOUT_SECONDS", 300.0),
            },
            twilio: reader.twilio(),
            audio: reader.audio(),
            worker: reader.worker(),
            allow_origins: reader.origins("WORKER_ALLOW_ORIGINS"),
        };
        reader.done(settings)
    }

    /// Reads where the database is, and nothing else: enough to look at it.
    pub fn read_database(env: Env<'_>) -> Result<Secret<String>, SettingsError> {
        let mut reader = Reader::new(env);
        let url = reader.secret("DATABASE_URL");
        reader.done(url)
    }
}

/// Reads variables, and gathers what is wrong with them.
pub(crate) struct Reader<'a> {
    env: Env<'a>,
    error: SettingsError,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(env: Env<'a>) -> Self {
        Self { env, error: SettingsError { missing: Vec::new(), wrong: Vec::new() } }
    }

    pub(crate) fn done<T>(self, value: T) -> Result<T, SettingsError> {
        let fine = self.error.missing.is_empty() && self.error.wrong.is_empty();
        if fine { Ok(value) } else { Err(self.error) }
    }

    /// A variable that was said; an empty one was not.
    pub(crate) fn optional(&mut self, name: &str) -> Option<String> {
        (self.env)(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
    }

    pub(crate) fn text(&mut self, name: &str, default: &str) -> String {
        self.optional(name).unwrap_or_else(|| default.to_owned())
    }

    pub(crate) fn required(&mut self, name: &'static str) -> String {
        let value = self.optional(name);
        if value.is_none() {
            self.error.missing.push(name);
        }
        value.unwrap_or_default()
    }

    /// A secret: the variable itself, or the file that `NAME_FILE` names.
    pub(crate) fn secret(&mut self, name: &'static str) -> Secret<String> {
        if let Some(value) = self.optional(name) {
            return Secret::new(value);
        }
        match self.optional(&format!("{name}_FILE")).map(std::fs::read_to_string) {
            Some(Ok(value)) if !value.trim().is_empty() => return Secret::new(value.trim().to_owned()),
            Some(Ok(_)) => self.wrong(format!("the file that {name}_FILE names is empty")),
            Some(Err(error)) => {
                self.wrong(format!("the file that {name}_FILE names cannot be read: {}", error.kind()));
            }
            None => self.error.missing.push(name),
        }
        Secret::new(String::new())
    }

    pub(crate) fn url(&mut self, name: &str, default: &str) -> Url {
        let text = self.text(name, default);
        match Url::parse(&text) {
            Ok(url) if matches!(url.scheme(), "http" | "https") => url,
            _ => {
                self.wrong(format!("{name} is not a URL such as {default}"));
                fallback()
            }
        }
    }

    pub(crate) fn address(&mut self, name: &str) -> Option<SocketAddr> {
        let text = self.optional(name)?;
        let address = text.parse().ok();
        if address.is_none() {
            self.wrong(format!("{name} is not an address such as 127.0.0.1:9090"));
        }
        address
    }

    pub(crate) fn twilio(&mut self) -> Twilio {
        Twilio {
            account: self.required("TWILIO_ACCOUNT_SID"),
            token: self.secret("TWILIO_AUTH_TOKEN"),
            base: self.url("TWILIO_BASE_URL", twilio::URL),
            timeout: self.seconds("TWILIO_TIMEOUT_SECONDS", 120.0),
        }
    }

    fn audio(&mut self) -> AudioStore {
        let prefix = self.text("PRIVATE_OBJECT_DIR", ".private");
        let bucket = self.optional("DEFAULT_OBJECT_STORAGE_BUCKET_ID");
        let url = match (self.optional("AUDIO_STORE_URL"), bucket) {
            (Some(url), _) => url,
            (None, Some(bucket)) => {
                // Where the bucket's owner is Replit, the prefix names the bucket again.
                let inner = prefix.trim_matches('/');
                let inner = inner.strip_prefix(&bucket).map_or(inner, |rest| rest.trim_matches('/'));
                format!("gs://{bucket}/{inner}")
            }
            (None, None) => self.folder(&prefix),
        };
        let base = self.optional("AUDIO_STORE_BASE_URL");
        let base = base.map(|_| self.url("AUDIO_STORE_BASE_URL", "https://storage.googleapis.com"));
        AudioStore { url, base, token: self.optional("AUDIO_STORE_TOKEN").map(Secret::new) }
    }

    fn folder(&mut self, prefix: &str) -> String {
        let folder = std::path::absolute(prefix).ok().and_then(|path| Url::from_file_path(path).ok());
        match folder {
            Some(url) => url.to_string(),
            None => {
                self.wrong("PRIVATE_OBJECT_DIR is not a folder's name".to_owned());
                String::new()
            }
        }
    }

    fn worker(&mut self) -> Worker {
        let batch_size = self.number("WORKER_BATCH_SIZE", 5.0, 1.0..=1_000.0) as usize;
        let max_retries = self.number("WORKER_MAX_RETRIES", 5.0, 1.0..=100.0) as u32;
        let minutes = self.number("WORKER_LOCK_DURATION_MINUTES", 10.0, 0.01..=1_440.0);
        let listen = self.address("WORKER_HTTP_LISTEN");
        let listen_token = self.optional("WORKER_HTTP_TOKEN").map(Secret::new);
        if listen.is_some_and(|address| !address.ip().is_loopback()) && listen_token.is_none() {
            let why = "WORKER_HTTP_LISTEN is open to other machines: set WORKER_HTTP_TOKEN to a long random text, \
                       or listen on 127.0.0.1";
            self.wrong(why.to_owned());
        }
        Worker {
            id: self.optional("WORKER_ID"),
            batch_size,
            concurrency: self.number("WORKER_CONCURRENCY", batch_size as f64, 1.0..=1_024.0) as usize,
            lock: Duration::from_millis((minutes * 60_000.0) as u64),
            poll: Duration::from_millis(
                self.number("WORKER_POLL_INTERVAL_MS", 5_000.0, 10.0..=3_600_000.0) as u64
            ),
            max_retries,
            ladder: self.ladder(max_retries),
            grace: self.seconds("WORKER_GRACE_SECONDS", 20.0),
            requeue: self.seconds("WORKER_REQUEUE_SECONDS", 60.0),
            cool_down_max: self.seconds("WORKER_COOL_DOWN_MAX_SECONDS", 900.0),
            listen,
            listen_token,
        }
    }

    /// The ladder, with its last rung repeated until it has one for each try.
    fn ladder(&mut self, max_retries: u32) -> Ladder {
        let text = self.text("WORKER_RETRY_LADDER", "1m,5m,15m,30m,1h");
        let parsed = text.parse::<Ladder>().ok().filter(|ladder| !ladder.rungs().is_empty());
        let Some(parsed) = parsed else {
            self.wrong("WORKER_RETRY_LADDER is not a list of delays such as 1m,5m,15m,30m,1h".to_owned());
            return Ladder::NONE;
        };
        let mut rungs = parsed.rungs().to_vec();
        while rungs.len() < max_retries as usize
            && let Some(last) = rungs.last().copied()
        {
            rungs.push(last);
        }
        Ladder::new(rungs).unwrap_or(parsed)
    }

    fn seconds(&mut self, name: &str, default: f64) -> Duration {
        Duration::from_secs_f64(self.number(name, default, 0.0..=86_400.0))
    }

    fn number(&mut self, name: &str, default: f64, range: std::ops::RangeInclusive<f64>) -> f64 {
        let Some(text) = self.optional(name) else { return default };
        match text.parse::<f64>() {
            Ok(number) if range.contains(&number) => number,
            _ => {
                self.wrong(format!("{name} is not a number from {} to {}", range.start(), range.end()));
                default
            }
        }
    }

    fn origins(&mut self, name: &str) -> Vec<Url> {
        let text = self.optional(name).unwrap_or_default();
        let mut origins = Vec::new();
        for one in text.split(',').map(str::trim).filter(|one| !one.is_empty()) {
            match Url::parse(one) {
                Ok(url) => origins.push(url),
                Err(_) => self.wrong(format!("{name} holds something that is not a URL")),
            }
        }
        origins
    }

    pub(crate) fn wrong(&mut self, why: String) {
        self.error.wrong.push(why);
    }
}

/// Stands for a URL that was refused; nobody ever sees it.
fn fallback() -> Url {
    Url::parse("https://invalid.invalid").expect("it is a URL")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Settings, SettingsError> {
        let required = [
            ("DATABASE_URL", "postgres://u:canary@h/d"),
            ("OPENAI_API_KEY", "k"),
            ("TWILIO_ACCOUNT_SID", "AC1"),
            ("TWILIO_AUTH_TOKEN", "t"),
        ];
        let find = |name: &str| {
            let pairs = pairs.iter().chain(&required);
            pairs.clone().find(|(found, _)| *found == name).map(|(_, value)| (*value).to_owned())
        };
        Settings::read(&find)
    }

    #[test]
    fn every_missing_variable_is_named() {
        let error = Settings::read(&|_| None).unwrap_err().to_string();
        for name in ["DATABASE_URL", "OPENAI_API_KEY", "TWILIO_ACCOUNT_SID", "TWILIO_AUTH_TOKEN"] {
            assert!(error.contains(name), "{error}");
        }
        assert!(read(&[("OPENAI_API_KEY", "  ")]).is_err(), "an empty one is missing");
    }

    #[test]
    fn the_defaults_are_the_seeds() {
        let Settings { worker, openai, audio, .. } = read(&[]).unwrap();
        assert_eq!((worker.batch_size, worker.concurrency, worker.max_retries), (5, 5, 5));
        assert_eq!(
            (worker.lock.as_secs(), worker.poll.as_millis(), worker.requeue.as_secs()),
            (600, 5_000, 60)
        );
        assert_eq!(worker.ladder.to_string(), "1m 5m 15m 30m 1h");
        assert_eq!(openai.transcribe_model, "whisper-1");
        assert!(audio.url.starts_with("file:///") && audio.url.ends_with("/.private"), "{}", audio.url);
    }

    #[test]
    fn buckets_and_prefixes() {
        let url = |dir: &str| {
            let bucket = ("DEFAULT_OBJECT_STORAGE_BUCKET_ID", "b1");
            read(&[bucket, ("PRIVATE_OBJECT_DIR", dir)]).unwrap().audio.url
        };
        assert_eq!(url(""), "gs://b1/.private");
        assert_eq!(url("/b1/.private"), "gs://b1/.private");
        assert_eq!(url("notes"), "gs://b1/notes");
        assert_eq!(read(&[("AUDIO_STORE_URL", "gs://x/y")]).unwrap().audio.url, "gs://x/y");
    }

    #[test]
    fn what_makes_no_sense_is_said() {
        let pairs = [
            ("WORKER_BATCH_SIZE", "0"),
            ("WORKER_RETRY_LADDER", "soon"),
            ("OPENAI_BASE_URL", "not a url"),
            ("WORKER_HTTP_LISTEN", "0.0.0.0:9000"),
        ];
        let error = read(&pairs).unwrap_err().to_string();
        for (name, _) in pairs {
            assert!(error.contains(name), "{error}");
        }
        assert!(!error.contains("canary"));
        assert!(!format!("{:?}", read(&[]).unwrap()).contains("canary"));
    }

    #[test]
    fn a_ladder_lasts_for_all_tries() {
        let ladder =
            read(&[("WORKER_RETRY_LADDER", "1s,2s"), ("WORKER_MAX_RETRIES", "4")]).unwrap().worker.ladder;
        assert_eq!(ladder.to_string(), "1s 2s 2s 2s");
    }
}
