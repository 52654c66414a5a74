//! What can be set, and what holds when nothing is said.

use std::time::Duration;

use url::Url;
use windlass_app::{Environment, Reading, Setting, SettingsError};
use windlass_engine::Ladder;
use windlass_outside::etsy;
use windlass_outside::secret::Secret;

use crate::shop::Interval;
use crate::task::TaskKind;

const ETSY: &str = "Etsy";
const TASKS: &str = "Tasks";
const DOOR: &str = "Door";

/// All settings.
#[rustfmt::skip]
pub static TABLE: &[Setting] = &[
    Setting::new("VELA_STORE", "sqlite:vela.db", "where tasks, shops and listings are kept; --store says it, too"),
    Setting::new("VELA_LISTEN", "127.0.0.1:7719", "where the task manager listens; --listen says it, too").section(DOOR),
    Setting::optional("VELA_TOKEN", "none", "whoever asks must send it; needed to listen beyond this machine").section(DOOR).secret(),
    Setting::required("ETSY_KEYSTRING", "the app's key at Etsy").section(ETSY),
    Setting::required("ETSY_SHARED_SECRET", "the second part of the app's key").section(ETSY).secret(),
    Setting::new("ETSY_BASE_URL", etsy::URL, "the base of the API; key and tokens go to this host and no other").section(ETSY),
    Setting::new("ETSY_TOKEN_URL", etsy::TOKEN_URL, "where tokens are refreshed").section(ETSY),
    Setting::new("ETSY_CONNECT_URL", etsy::CONNECT_URL, "where sellers consent").section(ETSY),
    Setting::optional("ETSY_REDIRECT_URL", "needed by connect", "where Etsy sends sellers back to, exactly as it is registered at Etsy").section(ETSY),
    Setting::new("ETSY_QUOTA_SCOPE", "app", "whose calls Etsy counts together: app (all of the app's), or token (each shop's)").section(ETSY),
    Setting::new("ETSY_PER_SECOND", "5", "calls of any second where Etsy's answers do not tell; 0 for no limit").section(ETSY),
    Setting::new("ETSY_PER_DAY", "5000", "calls of any 24 hours where Etsy's answers do not tell; 0 for no limit").section(ETSY),
    Setting::new("ETSY_RESERVED_PERCENT", "30", "the share of a day's calls that regular downloads leave for what users ask for").section(ETSY),
    Setting::new("ETSY_TIMEOUT_SECONDS", "10", "for a whole call, and never more than a third of the lease").section(ETSY),
    Setting::new("VELA_LADDER_UPLOAD", "3m 20m 3h 24h", "when an upload or a forced download is tried again").section(TASKS),
    Setting::new("VELA_LADDER_REGULAR", "20m 3h", "when a regular download is tried again").section(TASKS),
    Setting::new("VELA_LEASE_SECONDS", "30", "how long a task stays with a worker that is not heard of").section(TASKS),
    Setting::new("VELA_INTERVAL", "1h", "how often a shop is downloaded, unless the shop says otherwise").section(TASKS),
    Setting::new("VELA_TASKS_PER_SECOND", "0", "how many tasks may begin in any second; 0 for no limit").section(TASKS),
    Setting::new("VELA_TASKS_PER_DAY", "0", "how many tasks may begin in any 24 hours; 0 for no limit").section(TASKS),
    Setting::new("VELA_SLOTS", "4", "how many shops one worker works on at once").section(TASKS),
    Setting::new("VELA_GRACE_SECONDS", "10", "how long running tasks may go on after SIGTERM").section(TASKS),
    Setting::optional("WORKER_ID", "made up", "the worker's name").section(TASKS),
    Setting::optional("DEBUG", "off", "more log lines"),
];

/// Whose calls Etsy counts together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuotaScope {
    /// All of the app's.
    App,
    /// Those of each seller's token.
    Token,
}

/// How Etsy is reached, and how much of it.
#[derive(Debug, Clone)]
pub struct EtsySettings {
    /// The app's key.
    pub keystring: String,
    /// Its second part.
    pub shared_secret: Secret<String>,
    /// The base of the API.
    pub base: Url,
    /// Where tokens are refreshed.
    pub token_url: Url,
    /// Whose calls are counted together.
    pub scope: QuotaScope,
    /// Calls of a second where nobody tells; nothing for no limit.
    pub per_second: Option<u32>,
    /// Calls of 24 hours where nobody tells; nothing for no limit.
    pub per_day: Option<u32>,
    /// The share of a day that is kept for what users ask for.
    pub reserved_percent: u32,
    /// How long a call may take.
    pub timeout: Duration,
}

/// How tasks are made and handed out.
#[derive(Debug, Clone)]
pub struct TaskSettings {
    /// For uploads and forced downloads.
    pub ladder_upload: Ladder,
    /// For regular downloads.
    pub ladder_regular: Ladder,
    /// How long a lease lasts.
    pub lease: Duration,
    /// How often a shop is downloaded.
    pub interval: Interval,
    /// Tasks of a second.
    pub per_second: Option<u32>,
    /// Tasks of 24 hours.
    pub per_day: Option<u32>,
}

impl TaskSettings {
    /// The ladder of a kind.
    pub fn ladder(&self, kind: TaskKind) -> &Ladder {
        match kind {
            TaskKind::RegularDownload => &self.ladder_regular,
            TaskKind::ForcedDownload | TaskKind::UploadChanges => &self.ladder_upload,
        }
    }
}

/// Where the manager listens.
#[derive(Debug, Clone)]
pub struct DoorSettings {
    /// The address.
    pub listen: String,
    /// The token.
    pub token: Option<Secret<String>>,
}

/// How a worker works.
#[derive(Debug, Clone)]
pub struct WorkerSettings {
    /// Its name, if it was given one.
    pub id: Option<String>,
    /// How many shops at once.
    pub slots: usize,
    /// How long running tasks may go on after SIGTERM.
    pub grace: Duration,
}

/// Reads the parts that a process needs; whatever is wrong in any of them is said at once.
pub fn read<T>(
    environment: &Environment,
    parts: impl FnOnce(&mut Reading<'_>) -> T,
) -> Result<T, SettingsError> {
    let mut reading = Reading::new(environment, TABLE);
    let settings = parts(&mut reading);
    reading.finish(settings)
}

/// Reads the store's URL.
pub fn store(reading: &mut Reading<'_>) -> String {
    reading.text("VELA_STORE")
}

/// Whether more is to be said.
pub fn debug(environment: &Environment) -> bool {
    Reading::new(environment, TABLE).is_given("DEBUG")
}

impl EtsySettings {
    /// Reads them; a call takes no longer than a third of this lease.
    pub fn read(reading: &mut Reading<'_>, lease: Duration) -> Self {
        let scope = reading.parsed::<QuotaScope>("ETSY_QUOTA_SCOPE", "app or token");
        let timeout = Duration::from_secs_f64(reading.number("ETSY_TIMEOUT_SECONDS", 0.1..=600.0));
        Self {
            keystring: reading.text("ETSY_KEYSTRING"),
            shared_secret: reading.secret("ETSY_SHARED_SECRET"),
            base: reading.url("ETSY_BASE_URL"),
            token_url: reading.url("ETSY_TOKEN_URL"),
            scope: scope.unwrap_or(QuotaScope::App),
            per_second: limit(reading, "ETSY_PER_SECOND"),
            per_day: limit(reading, "ETSY_PER_DAY"),
            reserved_percent: reading.number("ETSY_RESERVED_PERCENT", 0..=99),
            timeout: timeout.min(lease / 3),
        }
    }

    /// Reads where sellers consent, and where they come back to.
    pub fn read_consent(reading: &mut Reading<'_>) -> (Url, Url) {
        let connect = reading.url("ETSY_CONNECT_URL");
        if !reading.is_given("ETSY_REDIRECT_URL") {
            reading.refuse(
                "ETSY_REDIRECT_URL",
                "ETSY_REDIRECT_URL is missing: set it as it is registered at Etsy",
            );
        }
        let redirect =
            reading.parsed::<Url>("ETSY_REDIRECT_URL", "an address such as https://example.com/back");
        let redirect = redirect.unwrap_or_else(|| connect.clone());
        (connect, redirect)
    }
}

impl TaskSettings {
    /// Reads them.
    pub fn read(reading: &mut Reading<'_>) -> Self {
        let what = "a list of delays such as 3m 20m 3h";
        Self {
            ladder_upload: reading.parsed("VELA_LADDER_UPLOAD", what).unwrap_or(Ladder::NONE),
            ladder_regular: reading.parsed("VELA_LADDER_REGULAR", what).unwrap_or(Ladder::NONE),
            lease: Duration::from_secs_f64(reading.number("VELA_LEASE_SECONDS", 0.5..=3600.0)),
            interval: reading.parsed("VELA_INTERVAL", Interval::WHAT).unwrap_or_default(),
            per_second: limit(reading, "VELA_TASKS_PER_SECOND"),
            per_day: limit(reading, "VELA_TASKS_PER_DAY"),
        }
    }
}

impl DoorSettings {
    /// Reads them.
    pub fn read(reading: &mut Reading<'_>) -> Self {
        Self { listen: reading.text("VELA_LISTEN"), token: reading.optional_secret("VELA_TOKEN") }
    }
}

impl WorkerSettings {
    /// Reads them.
    pub fn read(reading: &mut Reading<'_>) -> Self {
        Self {
            id: reading.optional("WORKER_ID"),
            slots: reading.number("VELA_SLOTS", 1..=256),
            grace: Duration::from_secs_f64(reading.number("VELA_GRACE_SECONDS", 0.0..=3600.0)),
        }
    }
}

fn limit(reading: &mut Reading<'_>, name: &str) -> Option<u32> {
    Some(reading.number(name, 0..=100_000_000)).filter(|limit| *limit > 0)
}

impl std::str::FromStr for QuotaScope {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "app" => Ok(Self::App),
            "token" => Ok(Self::Token),
            _ => Err(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use windlass_app::settings::{hold_guide, problems};

    use super::*;

    fn environment(pairs: &[(&str, &str)]) -> Environment {
        let required = [("ETSY_KEYSTRING", "k"), ("ETSY_SHARED_SECRET", "canary")];
        required.into_iter().chain(pairs.iter().copied()).collect()
    }

    fn etsy(environment: &Environment, lease: Duration) -> Result<EtsySettings, SettingsError> {
        read(environment, |reading| EtsySettings::read(reading, lease))
    }

    #[test]
    fn the_table_and_the_guide() {
        assert_eq!(problems(TABLE), Vec::<String>::new());
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/vela.md");
        hold_guide(std::path::Path::new(page), TABLE);
    }

    #[test]
    fn the_defaults_are_the_seeds() {
        let tasks = read(&environment(&[]), TaskSettings::read).unwrap();
        assert_eq!(tasks.ladder(TaskKind::UploadChanges).to_string(), "3m 20m 3h 1d");
        assert_eq!(tasks.ladder(TaskKind::ForcedDownload).to_string(), "3m 20m 3h 1d");
        assert_eq!(tasks.ladder(TaskKind::RegularDownload).to_string(), "20m 3h");
        let etsy = etsy(&environment(&[]), tasks.lease).unwrap();
        assert_eq!((etsy.scope, etsy.timeout.as_secs()), (QuotaScope::App, 10));
    }

    #[test]
    fn what_makes_no_sense_is_said_without_its_value() {
        let wrong = environment(&[("ETSY_QUOTA_SCOPE", "canary"), ("ETSY_PER_SECOND", "canary")]);
        let error = etsy(&wrong, Duration::from_secs(30)).unwrap_err().to_string();
        assert!(error.contains("ETSY_QUOTA_SCOPE") && error.contains("ETSY_PER_SECOND"), "{error}");
        assert!(!error.contains("canary"), "{error}");
        let error = etsy(&Environment::default(), Duration::from_secs(30)).unwrap_err().to_string();
        assert!(error.contains("ETSY_KEYSTRING") && error.contains("ETSY_SHARED_SECRET"), "{error}");
        assert!(
            read(&environment(&[("VELA_INTERVAL", "7m")]), TaskSettings::read).is_err(),
            "no cron line says that"
        );
    }

    #[test]
    fn all_that_is_wrong_is_said_at_once() {
        let wrong = environment(&[("ETSY_PER_DAY", "x"), ("VELA_INTERVAL", "x"), ("VELA_SLOTS", "x")]);
        let error = read(&wrong, |reading| {
            let tasks = TaskSettings::read(reading);
            (EtsySettings::read(reading, tasks.lease), WorkerSettings::read(reading))
        });
        let error = error.unwrap_err().to_string();
        for name in ["ETSY_PER_DAY", "VELA_INTERVAL", "VELA_SLOTS"] {
            assert!(error.contains(name), "{name}: {error}");
        }
    }

    #[test]
    fn a_call_is_shorter_than_a_third_of_the_lease() {
        let etsy = etsy(&environment(&[]), Duration::from_secs(6)).unwrap();
        assert_eq!(etsy.timeout, Duration::from_secs(2));
    }
}
