//! The settings: the seed's variables and ours, in one table.

use std::net::SocketAddr;
use std::time::Duration;

use url::Url;
use windlass_app::door::is_exposed;
use windlass_app::{Environment, Reading, Setting, SettingsError};
use windlass_engine::core::policy::ladder::Ladder;
use windlass_outside::secret::Secret;
use windlass_outside::{openai, twilio};

const AUDIO: &str = "Where audio is kept";
const PROVIDERS: &str = "Providers";
/// The heading of what the webhook needs beside the first.
pub(crate) const WEBHOOK: &str = "The webhook";

/// All that can be set.
pub(crate) static TABLE: &[Setting] = &[
    Setting::required("DATABASE_URL", "where the messages are; enough for migrate, check, status, retry and resume").secret(),
    Setting::required("OPENAI_API_KEY", "the key of OpenAI").secret(),
    Setting::required("TWILIO_ACCOUNT_SID", "the account at Twilio"),
    Setting::required("TWILIO_AUTH_TOKEN", "its token").secret(),
    Setting::optional("WORKER_ID", "made up", "the worker's name"),
    Setting::new("WORKER_BATCH_SIZE", "5", "messages in one claim"),
    Setting::optional("WORKER_CONCURRENCY", "the batch size", "messages at once"),
    Setting::new("WORKER_LOCK_DURATION_MINUTES", "10", "how long a lock lasts; it is renewed while its worker lives"),
    Setting::new("WORKER_POLL_INTERVAL_MS", "5000", "how long an idle worker waits before it asks again"),
    Setting::new("WORKER_MAX_RETRIES", "5", "tries before FAILED"),
    Setting::new("WORKER_RETRY_LADDER", "1m,5m,15m,30m,1h", "the last rung is repeated when there are more tries"),
    Setting::new("WORKER_GRACE_SECONDS", "20", "how long running stages may go on after SIGTERM"),
    Setting::new("WORKER_REQUEUE_SECONDS", "60", "how long a requeued message waits; 0 makes a deploy cost nothing"),
    Setting::new("WORKER_COOL_DOWN_MAX_SECONDS", "900", "how long a provider is left alone at most, whatever its Retry-After says"),
    Setting::optional("WORKER_HTTP_LISTEN", "off", "the address of /health, /readyz and /metrics"),
    Setting::optional("WORKER_HTTP_TOKEN", "none", "for /metrics; needed elsewhere than on this machine").secret(),
    Setting::optional("DEBUG", "off", "anything: say more"),
    Setting::optional("AUDIO_STORE_URL", "from the two below", "gs://bucket/prefix or file:///folder").section(AUDIO),
    Setting::optional("DEFAULT_OBJECT_STORAGE_BUCKET_ID", "a local folder", "a bucket of Google Cloud Storage").section(AUDIO),
    Setting::new("PRIVATE_OBJECT_DIR", ".private", "the prefix in the bucket, or the folder").section(AUDIO),
    Setting::optional("AUDIO_STORE_BASE_URL", "Google's", "for a proxy or a stand-in").section(AUDIO),
    Setting::optional("AUDIO_STORE_TOKEN", "the environment's credentials", "for a proxy or a stand-in").section(AUDIO).secret(),
    Setting::new("TRANSCRIBE_MODEL", "whisper-1", "the model that transcribes").section(PROVIDERS),
    Setting::optional("TRANSCRIBE_LANGUAGE", "detected", "two letters, such as de").section(PROVIDERS),
    Setting::new("ANALYSIS_MODEL", "gpt-4o", "the model that analyses").section(PROVIDERS),
    Setting::new("OPENAI_BASE_URL", openai::URL, "the key goes to this host and no other").section(PROVIDERS),
    Setting::new("OPENAI_TIMEOUT_SECONDS", "300", "for a whole call").section(PROVIDERS),
    Setting::new("TWILIO_BASE_URL", twilio::URL, "the token goes to this host and no other").section(PROVIDERS),
    Setting::new("TWILIO_TIMEOUT_SECONDS", "120", "for a whole call").section(PROVIDERS),
    Setting::optional("WORKER_ALLOW_ORIGINS", "none", "inner origins that media may be redirected to; for stand-ins only").section(PROVIDERS),
    Setting::required("WEBHOOK_PUBLIC_URL", "the URL exactly as it stands in Twilio's console, for it is signed (what stands behind # may stay or go)").section(WEBHOOK),
    Setting::new("WEBHOOK_LISTEN", "127.0.0.1:8080", "put a proxy with TLS in front of it; /health is for that proxy").section(WEBHOOK),
    Setting::new("WEBHOOK_SESSION_HOURS", "8", "how long a care session lasts that a nurse opens with a patient's code").section(WEBHOOK),
];

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
        worker(&mut Reading::new(&Environment::default(), TABLE))
    }
}

impl Settings {
    /// Reads all settings of the worker.
    pub fn read(environment: &Environment) -> Result<Self, SettingsError> {
        let mut reading = Reading::new(environment, TABLE);
        let settings = Self {
            database_url: reading.secret("DATABASE_URL"),
            openai: OpenAi {
                key: reading.secret("OPENAI_API_KEY"),
                base: reading.url("OPENAI_BASE_URL"),
                transcribe_model: reading.text("TRANSCRIBE_MODEL"),
                analysis_model: reading.text("ANALYSIS_MODEL"),
                language: reading.optional("TRANSCRIBE_LANGUAGE"),
                timeout: seconds(&mut reading, "OPENAI_TIMEOUT_SECONDS"),
            },
            twilio: twilio(&mut reading),
            audio: audio(&mut reading),
            worker: worker(&mut reading),
            allow_origins: reading.list("WORKER_ALLOW_ORIGINS", "a URL"),
        };
        reading.finish(settings)
    }

    /// Reads where the database is, and nothing else: enough to look at it.
    pub fn read_database(environment: &Environment) -> Result<Secret<String>, SettingsError> {
        let mut reading = Reading::new(environment, TABLE);
        let url = reading.secret("DATABASE_URL");
        reading.finish(url)
    }

    /// Whether more is to be said.
    pub(crate) fn read_debug(environment: &Environment) -> bool {
        Reading::new(environment, TABLE).is_given("DEBUG")
    }
}

pub(crate) fn twilio(reading: &mut Reading<'_>) -> Twilio {
    Twilio {
        account: reading.text("TWILIO_ACCOUNT_SID"),
        token: reading.secret("TWILIO_AUTH_TOKEN"),
        base: reading.url("TWILIO_BASE_URL"),
        timeout: seconds(reading, "TWILIO_TIMEOUT_SECONDS"),
    }
}

fn audio(reading: &mut Reading<'_>) -> AudioStore {
    let prefix = reading.text("PRIVATE_OBJECT_DIR");
    let bucket = reading.optional("DEFAULT_OBJECT_STORAGE_BUCKET_ID");
    let url = match (reading.optional("AUDIO_STORE_URL"), bucket) {
        (Some(url), _) => url,
        (None, Some(bucket)) => {
            // Where the bucket's owner is Replit, the prefix names the bucket again.
            let inner = prefix.trim_matches('/');
            let inner = inner.strip_prefix(&bucket).map_or(inner, |rest| rest.trim_matches('/'));
            format!("gs://{bucket}/{inner}")
        }
        (None, None) => folder(reading, &prefix),
    };
    let base = reading.is_given("AUDIO_STORE_BASE_URL").then(|| reading.url("AUDIO_STORE_BASE_URL"));
    AudioStore { url, base, token: reading.optional_secret("AUDIO_STORE_TOKEN") }
}

fn folder(reading: &mut Reading<'_>, prefix: &str) -> String {
    let folder = std::path::absolute(prefix).ok().and_then(|path| Url::from_file_path(path).ok());
    match folder {
        Some(url) => url.to_string(),
        None => {
            reading.refuse("PRIVATE_OBJECT_DIR", "PRIVATE_OBJECT_DIR is not a folder's name");
            String::new()
        }
    }
}

fn worker(reading: &mut Reading<'_>) -> Worker {
    let batch_size = reading.number("WORKER_BATCH_SIZE", 1..=1_000);
    let concurrency = reading.is_given("WORKER_CONCURRENCY");
    let minutes = reading.number("WORKER_LOCK_DURATION_MINUTES", 0.01..=1_440.0);
    let max_retries = reading.number("WORKER_MAX_RETRIES", 1..=100);
    let listen = reading.is_given("WORKER_HTTP_LISTEN").then(|| reading.address("WORKER_HTTP_LISTEN"));
    let listen_token = reading.optional_secret("WORKER_HTTP_TOKEN");
    if listen.is_some_and(is_exposed) && listen_token.is_none() {
        let why = "WORKER_HTTP_LISTEN is open to other machines: set WORKER_HTTP_TOKEN to a long random text, \
                   or listen on 127.0.0.1";
        reading.refuse("WORKER_HTTP_LISTEN", why);
    }
    Worker {
        id: reading.optional("WORKER_ID"),
        batch_size,
        concurrency: if concurrency { reading.number("WORKER_CONCURRENCY", 1..=1_024) } else { batch_size },
        lock: Duration::from_millis((minutes * 60_000.0) as u64),
        poll: Duration::from_millis(reading.number("WORKER_POLL_INTERVAL_MS", 10..=3_600_000)),
        max_retries,
        ladder: ladder(reading, max_retries),
        grace: seconds(reading, "WORKER_GRACE_SECONDS"),
        requeue: seconds(reading, "WORKER_REQUEUE_SECONDS"),
        cool_down_max: seconds(reading, "WORKER_COOL_DOWN_MAX_SECONDS"),
        listen,
        listen_token,
    }
}

/// The ladder, with its last rung repeated until it has one for each try.
fn ladder(reading: &mut Reading<'_>, max_retries: u32) -> Ladder {
    const NAME: &str = "WORKER_RETRY_LADDER";
    let what = "a list of delays such as 1m,5m,15m,30m,1h";
    let parsed = reading.parsed(NAME, what).unwrap_or(Ladder::NONE);
    let mut rungs = parsed.rungs().to_vec();
    if rungs.is_empty() {
        reading.refuse(NAME, format!("{NAME} must be {what}"));
    }
    while rungs.len() < max_retries as usize
        && let Some(last) = rungs.last().copied()
    {
        rungs.push(last);
    }
    Ladder::new(rungs).unwrap_or(parsed)
}

fn seconds(reading: &mut Reading<'_>, name: &str) -> Duration {
    Duration::from_secs_f64(reading.number(name, 0.0..=86_400.0))
}

#[cfg(test)]
mod tests {
    use windlass_app::settings::{hold_guide, problems};

    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Settings, SettingsError> {
        let required = [
            ("DATABASE_URL", "postgres://u:canary@h/d"),
            ("OPENAI_API_KEY", "k"),
            ("TWILIO_ACCOUNT_SID", "AC1"),
            ("TWILIO_AUTH_TOKEN", "t"),
        ];
        Settings::read(&required.into_iter().chain(pairs.iter().copied()).collect())
    }

    #[test]
    fn the_table_and_the_guide() {
        assert_eq!(problems(TABLE), Vec::<String>::new());
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/nurse-tour.md");
        hold_guide(std::path::Path::new(page), TABLE);
    }

    #[test]
    fn every_missing_variable_is_named() {
        let error = Settings::read(&Environment::default()).unwrap_err().to_string();
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
