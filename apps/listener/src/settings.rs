//! What can be set, and what holds when nothing is said.

use std::path::PathBuf;
use std::time::Duration;

use windlass_app::{Environment, Reading, Setting, SettingsError};
use windlass_engine::Ladder;
use windlass_engine::core::secret::Secret;

const TIMES: &str = "Times";
const LIMITS: &str = "Limits";
const DOOR: &str = "Door";

/// All settings.
#[rustfmt::skip]
pub static TABLE: &[Setting] = &[
    Setting::required("MONGODB_URI", "the replica set, such as mongodb://user:password@host1,host2; without a database").secret(),
    Setting::optional("MONGODB_PARAMS", "none", "what follows the question mark, such as replicaSet=rs0&authSource=admin").secret(),
    Setting::new("LISTENER_DATABASE", "airank", "the database of the listeners, of the jobs and of what this service keeps"),
    Setting::new("JOBS_COLLECTION", "jobs", "the collection of Agenda's rows in that database"),
    Setting::new("JOBS_TARGET", "agenda", "what a change makes: agenda, a row of Agenda's; windlass, a job of the store in that database"),
    Setting::new("LOCK_LIFETIME_SECONDS", "600", "how long a lock of a row of Agenda's lasts; that of the Node definitions"),
    Setting::optional("LISTENER_CONFIG", "Node runs the jobs", "a file that says which kinds of jobs this program runs, such as listener.toml"),
    Setting::optional("LISTENER_INSTANCE", "made up", "the beginning of this instance's name"),
    Setting::new("LISTENER_LOCK_SECONDS", "30", "how long a listener stays with an instance that is not heard of").section(TIMES),
    Setting::new("LISTENER_HEARTBEAT_SECONDS", "10", "how often an instance is heard of").section(TIMES),
    Setting::new("LISTENER_CLAIM_SECONDS", "15", "how often listeners without an owner are looked for").section(TIMES),
    Setting::new("LISTENER_RECOVERY_SECONDS", "30", "how often documents that want to be done again are looked for").section(TIMES),
    Setting::new("LISTENER_LADDER", "1m 5m 30m 2h", "how long a document waits after each job of it that failed; behind the last it is a dead letter").section(TIMES),
    Setting::new("LISTENER_BATCH_JOBS", "1000", "how many jobs share a transaction at most").section(LIMITS),
    Setting::new("LISTENER_BATCH_BYTES", "4194304", "how many bytes of jobs share a transaction at most").section(LIMITS),
    Setting::new("LISTENER_PAYLOAD_BYTES", "1048576", "how large an event may be that a job of a listener with a full payload carries").section(LIMITS),
    Setting::new("LISTENER_CATCH_UPS", "4", "how many streams may catch up at once").section(LIMITS),
    Setting::new("LISTENER_SCAN_DOCUMENTS", "500", "how many documents recovery, backfill and the scan of a gap take up at once").section(LIMITS),
    Setting::new("LISTENER_LISTEN", "127.0.0.1:7723", "where page, API, /metrics and /healthz are; --listen says it, too").section(DOOR),
    Setting::optional("LISTENER_TOKEN", "none", "whoever asks must send it; needed to listen beyond this machine").section(DOOR).secret(),
    Setting::optional("DEBUG", "off", "more log lines"),
];

/// Where the data is.
#[derive(Debug, Clone)]
pub struct Place {
    /// The connection string.
    pub uri: Secret<String>,
    /// The database of the listeners.
    pub database: String,
    /// The collection of the rows.
    pub jobs: String,
    /// What a change makes.
    pub target: JobsTarget,
    /// How long the lock of a row lasts.
    pub lock_lifetime_ms: u32,
}

/// What a change makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobsTarget {
    /// A row of Agenda's.
    Agenda,
    /// A job of the store.
    Windlass,
}

/// How an instance works.
#[derive(Debug, Clone)]
pub struct Work {
    /// How long a lease lasts.
    pub lock: Duration,
    /// How often it is renewed.
    pub heartbeat: Duration,
    /// How often free listeners are looked for.
    pub claim: Duration,
    /// How often documents are recovered.
    pub recovery: Duration,
    /// How long a document waits after failed jobs.
    pub ladder: Ladder,
    /// Jobs of a transaction.
    pub batch_jobs_max: usize,
    /// Bytes of a transaction.
    pub batch_bytes_max: usize,
    /// Bytes of an event in a job.
    pub payload_bytes_max: usize,
    /// Streams that catch up at once.
    pub catch_ups_max: usize,
    /// Documents of one scan.
    pub scan_documents_max: usize,
    /// The beginning of its name.
    pub instance: Option<String>,
    /// Which jobs it runs by itself.
    pub config: Option<PathBuf>,
}

/// Where the door is.
#[derive(Debug, Clone)]
pub struct DoorSettings {
    /// The address.
    pub listen: String,
    /// The token.
    pub token: Option<Secret<String>>,
}

/// Whether more is to be said.
pub fn debug(environment: &Environment) -> bool {
    Reading::new(environment, TABLE).is_given("DEBUG")
}

impl Place {
    /// Reads it.
    pub fn read(environment: &Environment) -> Result<Self, SettingsError> {
        let mut reading = Reading::new(environment, TABLE);
        let uri = reading.secret("MONGODB_URI");
        let params = reading.optional("MONGODB_PARAMS");
        let known = ["mongodb://", "mongodb+srv://"].iter().any(|scheme| uri.expose().starts_with(scheme));
        if !uri.expose().is_empty() && !known {
            reading.refuse("MONGODB_URI", "MONGODB_URI must begin with mongodb:// or mongodb+srv://");
        } else if names_a_database(uri.expose()) {
            reading.refuse(
                "MONGODB_URI",
                "MONGODB_URI must name no database behind the servers: that of the listeners is LISTENER_DATABASE, and the \
                 one that knows the user is authSource in MONGODB_PARAMS",
            );
        }
        let place = Self {
            uri: Secret::new(joined(uri.expose(), params.as_deref())),
            database: name(&mut reading, "LISTENER_DATABASE"),
            jobs: name(&mut reading, "JOBS_COLLECTION"),
            target: target(&mut reading),
            lock_lifetime_ms: reading.number("LOCK_LIFETIME_SECONDS", 1..=86_400_u32) * 1_000,
        };
        reading.finish(place)
    }
}

/// Whether a database stands behind the servers. To a driver it is the one that knows the user, to a reader the one
/// that is worked on, and the original put one there itself: so it is said by a setting of its own.
fn names_a_database(uri: &str) -> bool {
    let behind = uri.split_once("://").and_then(|(_, rest)| rest.split_once('/'));
    behind.is_some_and(|(_, path)| !path.is_empty() && !path.starts_with('?'))
}

/// `URI/?PARAMS`, also where one of them has the mark already.
fn joined(uri: &str, params: Option<&str>) -> String {
    let Some(params) = params.map(|params| params.trim_start_matches(['?', '&'])) else {
        return uri.to_owned();
    };
    match uri.split_once("://") {
        Some((_, rest)) if rest.contains('?') => format!("{uri}&{params}"),
        Some((_, rest)) if rest.contains('/') => format!("{uri}?{params}"),
        _ => format!("{uri}/?{params}"),
    }
}

fn target(reading: &mut Reading<'_>) -> JobsTarget {
    match reading.text("JOBS_TARGET").as_str() {
        "agenda" => return JobsTarget::Agenda,
        "windlass" => return JobsTarget::Windlass,
        _ => reading.refuse("JOBS_TARGET", "JOBS_TARGET must be agenda or windlass"),
    }
    JobsTarget::Agenda
}

fn name(reading: &mut Reading<'_>, setting: &str) -> String {
    let name = reading.text(setting);
    if name.len() > 60 || name.contains(['/', '\\', '.', ' ', '"', '$', '\0']) {
        reading.refuse(setting, format!("{setting} cannot be a name in MongoDB"));
    }
    name
}

impl Work {
    /// Reads it.
    pub fn read(environment: &Environment) -> Result<Self, SettingsError> {
        let mut reading = Reading::new(environment, TABLE);
        let seconds = |reading: &mut Reading<'_>, name: &str| {
            Duration::from_secs_f64(reading.number(name, 0.1..=3_600.0))
        };
        let work = Self {
            lock: seconds(&mut reading, "LISTENER_LOCK_SECONDS"),
            heartbeat: seconds(&mut reading, "LISTENER_HEARTBEAT_SECONDS"),
            claim: seconds(&mut reading, "LISTENER_CLAIM_SECONDS"),
            recovery: seconds(&mut reading, "LISTENER_RECOVERY_SECONDS"),
            ladder: reading
                .parsed("LISTENER_LADDER", "delays such as 1m 5m, or none")
                .unwrap_or(Ladder::NONE),
            batch_jobs_max: reading.number("LISTENER_BATCH_JOBS", 1..=10_000),
            batch_bytes_max: reading.number("LISTENER_BATCH_BYTES", 1_024..=12_000_000),
            payload_bytes_max: reading.number("LISTENER_PAYLOAD_BYTES", 0..=8_000_000),
            catch_ups_max: reading.number("LISTENER_CATCH_UPS", 1..=32),
            scan_documents_max: reading.number("LISTENER_SCAN_DOCUMENTS", 1..=10_000),
            instance: reading.optional("LISTENER_INSTANCE"),
            config: reading.optional("LISTENER_CONFIG").map(PathBuf::from),
        };
        if work.heartbeat * 2 > work.lock {
            reading.refuse(
                "LISTENER_HEARTBEAT_SECONDS",
                "LISTENER_HEARTBEAT_SECONDS must be at most half of LISTENER_LOCK_SECONDS",
            );
        }
        reading.finish(work)
    }
}

impl DoorSettings {
    /// Reads it.
    pub fn read(environment: &Environment) -> Result<Self, SettingsError> {
        let mut reading = Reading::new(environment, TABLE);
        let door = Self {
            listen: reading.text("LISTENER_LISTEN"),
            token: reading.optional_secret("LISTENER_TOKEN"),
        };
        reading.finish(door)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sound_and_the_guide_shows_it() {
        assert!(windlass_app::settings::problems(TABLE).is_empty());
        let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/listener.md");
        windlass_app::settings::hold_guide(std::path::Path::new(guide), TABLE);
    }

    #[test]
    fn uri_and_params_become_one() {
        assert_eq!(joined("mongodb://h", Some("a=b")), "mongodb://h/?a=b");
        assert_eq!(joined("mongodb://h/", Some("?a=b")), "mongodb://h/?a=b");
        assert_eq!(joined("mongodb://h/?x=y", Some("a=b")), "mongodb://h/?x=y&a=b");
        assert_eq!(joined("mongodb://h", None), "mongodb://h");
    }

    #[test]
    fn a_database_in_the_uri_is_refused_with_what_to_say_instead() {
        let read = |uri: &str| Place::read(&Environment::from_iter([("MONGODB_URI", uri)]));
        for fine in ["mongodb://h", "mongodb://h/", "mongodb://h,i:1/?a=b", "mongodb+srv://u:p%2Fw@h/?a=b/c"]
        {
            assert!(read(fine).is_ok(), "{fine}");
        }
        for wrong in ["mongodb://h/canary", "mongodb://u:p@h,i/canary?a=b", "mongodb+srv://h/canary"] {
            let why = read(wrong).unwrap_err().to_string();
            assert!(why.contains("LISTENER_DATABASE") && why.contains("authSource"), "{why}");
            assert!(!why.contains("canary"), "it may be the rest of a password: {why}");
        }
    }

    #[test]
    fn what_is_missing_or_wrong_is_named() {
        let why = Place::read(&Environment::default()).unwrap_err().to_string();
        assert!(why.contains("MONGODB_URI"), "{why}");
        let wrong = Environment::from_iter([
            ("MONGODB_URI", "http://canary"),
            ("LISTENER_HEARTBEAT_SECONDS", "29"),
            ("JOBS_TARGET", "both"),
            ("LOCK_LIFETIME_SECONDS", "0"),
        ]);
        let why = Place::read(&wrong).unwrap_err().to_string();
        assert!(why.contains("mongodb://") && !why.contains("canary"), "{why}");
        assert!(why.contains("JOBS_TARGET") && why.contains("LOCK_LIFETIME_SECONDS"), "{why}");
        let why = Work::read(&wrong).unwrap_err().to_string();
        assert!(why.contains("LISTENER_HEARTBEAT_SECONDS"), "{why}");
    }
}
