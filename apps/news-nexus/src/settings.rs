//! The settings: one table, and what is read by it.

use std::path::PathBuf;
use std::str::FromStr;

use url::Url;
use windlass_app::log::{FileLimits, LogFile};
use windlass_app::{Environment, Reading, Setting, SettingsError};
use windlass_outside::google_rss::{self, Locale};
use windlass_outside::safe_http::{Proxies, origins};
use windlass_outside::secret::Secret;

const TOKEN: &str = "WINDLASS_TOKEN";
const PAUSE: &str = "MILISECONDS_IN_BETWEEN_REQUESTS";
const PAUSE_MS_MAX: u64 = 10_000;
const MIB: u64 = 1024 * 1024;
const OUTSIDE: &str = "The outside";
/// In both spellings; the one in small letters goes first.
const PROXIES: [&str; 7] =
    ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy", "FETCH_VIA_PROXY"];

/// All that can be set.
pub(crate) static TABLE: &[Setting] = &[
    Setting::required("PATH_AND_FILENAME_FOR_QUERY_SPREADSHEET_AUTOMATED", "the workbook with the searches"),
    Setting::required("PATH_TO_SEMANTIC_SCORER_DIR", "the folder of the keywords and of the sentence model"),
    Setting::required("PATH_TO_LOGS", "the folder of the log file"),
    Setting::required(
        "NODE_ENV",
        "development (console, debug), testing (console and file) or production (file)",
    ),
    Setting::required("KEY_OPEN_AI", "the key of OpenAI").secret(),
    Setting::required("PATH_TO_SAVE_CHATGPT_RESPONSES", "the folder of OpenAI's answers"),
    Setting::required("NAME_APP", "the name of the log file, without its ending"),
    Setting::required("NAME_DB", "the name of the database file"),
    Setting::required("PATH_DATABASE", "the folder of the database file"),
    Setting::new("HOST", "127.0.0.1", "where to listen; elsewhere than on this machine a token is needed"),
    Setting::new("PORT", "3002", "0 takes any free port and says which"),
    Setting::optional(TOKEN, "none", "callers send it as `Authorization: Bearer …`").secret(),
    Setting::new(
        "PATH_TO_QUEUE_FILE",
        "runtime/queue-jobs.json",
        "parameters and results are in a folder beside it",
    ),
    Setting::new(PAUSE, "5000", "0 to 10000; anything else is complained about in the log, and 5000 is used"),
    Setting::new("LOG_MAX_SIZE", "5", "MiB of a log file"),
    Setting::new("LOG_MAX_FILES", "5", "log files in all"),
    Setting::optional("TZ", "the machine's", "the time zone of the log"),
    Setting::new("GOOGLE_RSS_URL", google_rss::URL, "where feeds are asked for").section(OUTSIDE),
    Setting::new("GOOGLE_RSS_HL", "en-US", "the language of the feeds").section(OUTSIDE),
    Setting::new("GOOGLE_RSS_GL", "US", "their country").section(OUTSIDE),
    Setting::new("GOOGLE_RSS_CEID", "US:en", "their edition").section(OUTSIDE),
    Setting::new("OPENAI_BASE_URL", windlass_outside::openai::URL, "the base of OpenAI's API")
        .section(OUTSIDE),
    Setting::new("STATE_ASSIGNER_MODEL_NAME", "gpt-4o-mini", "the model that assigns states")
        .section(OUTSIDE),
    Setting::optional(
        "HTTP_PROXY",
        "none",
        "for Google and OpenAI over http; http://USER:PASSWORD@HOST:PORT",
    )
    .section(OUTSIDE)
    .secret(),
    Setting::optional("http_proxy", "none", "the same; this spelling goes first").section(OUTSIDE).secret(),
    Setting::optional("HTTPS_PROXY", "none", "for Google and OpenAI over https").section(OUTSIDE).secret(),
    Setting::optional("https_proxy", "none", "the same; this spelling goes first").section(OUTSIDE).secret(),
    Setting::optional("NO_PROXY", "none", "who is reached directly: names, addresses, networks")
        .section(OUTSIDE),
    Setting::optional("no_proxy", "none", "the same; this spelling goes first").section(OUTSIDE),
    Setting::optional(
        "FETCH_VIA_PROXY",
        "0",
        "1: addresses that came from data go through the proxy as well",
    )
    .section(OUTSIDE),
];

/// In which surroundings the program runs; decides where it logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Development,
    Testing,
    Production,
}

impl FromStr for Mode {
    type Err = ();

    fn from_str(word: &str) -> Result<Self, ()> {
        match word {
            "development" => Ok(Self::Development),
            "testing" | "test" => Ok(Self::Testing),
            "production" => Ok(Self::Production),
            _ => Err(()),
        }
    }
}

/// Everything that can be set.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub mode: Mode,
    pub log: LogFile,
    pub spreadsheet: PathBuf,
    pub scorer_folder: PathBuf,
    pub openai_key: Secret<String>,
    pub responses_folder: PathBuf,
    pub database: PathBuf,
    pub host: String,
    pub port: u16,
    pub token: Option<Secret<String>>,
    pub queue_file: PathBuf,
    pub google_rss_url: Url,
    pub locale: Locale,
    pub openai_base_url: Url,
    pub model_name: String,
    pub pause_ms: u64,
    pub proxies: Proxies,
    /// What is wrong, but not so wrong that the program must not start.
    pub complaint: Option<String>,
    given: Environment,
}

impl Settings {
    /// Reads all of them.
    pub(crate) fn read(given: Environment) -> Result<Self, SettingsError> {
        let mut reading = Reading::new(&given, TABLE);
        // Whoever logs asks for the zone by itself.
        reading.optional("TZ");
        let pause_ms = reading.number(PAUSE, 0..=PAUSE_MS_MAX);
        let complaint = reading.forgive(PAUSE).map(|wrong| format!("{wrong}; {pause_ms} is used"));
        let mode = reading.parsed("NODE_ENV", "development, testing or production");
        let settings = Self {
            mode: mode.unwrap_or(Mode::Production),
            log: log(&mut reading),
            spreadsheet: reading.path("PATH_AND_FILENAME_FOR_QUERY_SPREADSHEET_AUTOMATED"),
            scorer_folder: reading.path("PATH_TO_SEMANTIC_SCORER_DIR"),
            openai_key: reading.secret("KEY_OPEN_AI"),
            responses_folder: reading.path("PATH_TO_SAVE_CHATGPT_RESPONSES"),
            database: reading.path("PATH_DATABASE").join(reading.file_name("NAME_DB")),
            host: reading.text("HOST"),
            port: reading.number("PORT", 0..=u16::MAX),
            token: reading.optional_secret(TOKEN),
            queue_file: reading.path("PATH_TO_QUEUE_FILE"),
            google_rss_url: reading.url("GOOGLE_RSS_URL"),
            locale: Locale {
                hl: reading.text("GOOGLE_RSS_HL"),
                gl: reading.text("GOOGLE_RSS_GL"),
                ceid: reading.text("GOOGLE_RSS_CEID"),
            },
            openai_base_url: reading.url("OPENAI_BASE_URL"),
            model_name: reading.text("STATE_ASSIGNER_MODEL_NAME"),
            proxies: proxies(&mut reading),
            pause_ms,
            complaint,
            given: given.clone(),
        };
        debug_assert!(reading.unasked().is_empty(), "nobody reads {:?}", reading.unasked());
        reading.finish(settings)
    }

    /// Where the log file is, when at least that is known.
    pub(crate) fn log_of(given: &Environment) -> Option<LogFile> {
        let mut reading = Reading::new(given, TABLE);
        let log = log(&mut reading);
        reading.finish(log).ok()
    }

    /// How the outside is reached, for the start of the log; nothing when the way is direct.
    pub(crate) fn way_out(&self) -> Option<String> {
        let [http, https] = self.proxies.shown().map(|proxy| proxy.unwrap_or_else(|| "none".to_owned()));
        if self.proxies.is_empty() {
            return None;
        }
        let data = if self.proxies.is_for_data() {
            "and so is every address that came from data: FETCH_VIA_PROXY is set, so the proxy is the guard \
             against addresses inside"
        } else {
            "addresses that came from data go out directly, past the guard (FETCH_VIA_PROXY=1 changes that)"
        };
        Some(format!(
            "Google and OpenAI are reached through a proxy (for http {http}, for https {https}), except by NO_PROXY; {data}"
        ))
    }

    /// What a job's process needs to have the same settings.
    pub(crate) fn environment(&self) -> impl Iterator<Item = (String, &str)> {
        let names = TABLE.iter().map(|setting| setting.name).filter(|name| *name != TOKEN);
        let names = names.flat_map(|name| [name.to_owned(), format!("{name}_FILE")]);
        names.filter_map(|name| self.given.get(&name).map(|value| (name.clone(), value)))
    }
}

fn log(reading: &mut Reading<'_>) -> LogFile {
    let limits = FileLimits {
        bytes_max: reading.number("LOG_MAX_SIZE", 1..=1_024_u64) * MIB,
        files_max: reading.number("LOG_MAX_FILES", 1..=1_000),
    };
    LogFile::new(reading.path("PATH_TO_LOGS"), reading.file_name("NAME_APP"), limits)
}

fn proxies(reading: &mut Reading<'_>) -> Proxies {
    let given = PROXIES.map(|name| (name, reading.optional(name)));
    let find =
        |name: &str| given.iter().find(|(known, _)| *known == name).and_then(|(_, value)| value.as_deref());
    let proxies = Proxies::read(find).map_err(|error| error.to_string());
    let redirects = origins(google_rss::REDIRECTS).map_err(|error| error.to_string());
    let (proxies, redirects) = match (proxies, redirects) {
        (Ok(proxies), Ok(redirects)) => (proxies, redirects),
        (Err(why), _) | (_, Err(why)) => {
            reading.refuse("HTTP_PROXY", why);
            return Proxies::default();
        }
    };
    redirects.into_iter().fold(proxies, Proxies::provider)
}

#[cfg(test)]
mod tests {
    use windlass_app::settings::{Unset, hold_guide, problems};

    use super::*;

    fn required() -> impl Iterator<Item = &'static str> {
        TABLE.iter().filter(|setting| setting.unset == Unset::Refused).map(|setting| setting.name)
    }

    fn all() -> Environment {
        required().map(|name| (name, if name == "NODE_ENV" { "testing" } else { "x" })).collect()
    }

    fn refused(given: Environment) -> String {
        Settings::read(given).unwrap_err().to_string()
    }

    #[test]
    fn the_table_and_the_guide() {
        assert_eq!(problems(TABLE), Vec::<String>::new());
        hold_guide(
            std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/news-nexus.md")),
            TABLE,
        );
    }

    #[test]
    fn all_that_is_missing_is_named_at_once() {
        let text = refused(all().with("NAME_DB", " ").with("KEY_OPEN_AI", ""));
        assert!(text.contains("KEY_OPEN_AI, NAME_DB"), "{text}");
        assert!(!text.contains("NAME_APP"), "{text}");
        assert_eq!(required().count(), 9);
        for name in required() {
            assert!(refused(Environment::default()).contains(name), "{name}");
        }
    }

    #[test]
    fn defaults() {
        let settings = Settings::read(all()).unwrap();
        assert_eq!((settings.host.as_str(), settings.port, settings.pause_ms), ("127.0.0.1", 3002, 5000));
        assert_eq!(settings.queue_file, std::path::Path::new("runtime/queue-jobs.json"));
        assert_eq!(settings.google_rss_url.as_str(), google_rss::URL);
        let limits = FileLimits { bytes_max: 5 * MIB, files_max: 5 };
        assert_eq!(format!("{:?}", settings.log), format!("{:?}", LogFile::new("x", "x", limits)));
        let Locale { hl, gl, ceid } = Locale::default();
        assert_eq!((settings.locale.hl, settings.locale.gl, settings.locale.ceid), (hl, gl, ceid));
        assert!(settings.token.is_none() && settings.complaint.is_none());
    }

    #[test]
    fn what_is_refused() {
        for (name, value) in [
            ("NODE_ENV", "staging"),
            ("PORT", "70000"),
            ("PORT", "abc"),
            ("LOG_MAX_SIZE", "0"),
            ("LOG_MAX_FILES", "-1"),
            ("GOOGLE_RSS_URL", "ftp://x"),
            ("OPENAI_BASE_URL", "nowhere"),
            ("HTTPS_PROXY", "socks5://somewhere"),
        ] {
            assert!(refused(all().with(name, value)).contains(name), "{name}={value}");
        }
    }

    /// Fault 64: a name cannot lead out of its folder.
    #[test]
    fn fault_64_names_stay_in_their_folder() {
        for name in ["NAME_DB", "NAME_APP"] {
            for value in ["../x", "/etc/x", "a/b", "..", ".hidden", "a\\b", "a\u{1}b"] {
                assert!(refused(all().with(name, value)).contains(name), "{name}={value}");
            }
        }
    }

    #[test]
    fn a_bad_pause_is_complained_about() {
        let settings = Settings::read(all().with(PAUSE, "20000")).unwrap();
        assert_eq!(settings.pause_ms, 5000);
        assert!(settings.complaint.unwrap().contains("MILISECONDS_IN_BETWEEN_REQUESTS"));
        let settings = Settings::read(all().with(PAUSE, "0")).unwrap();
        assert_eq!(settings.pause_ms, 0);
    }

    #[test]
    fn a_job_gets_the_same_settings_and_no_token() {
        let settings = Settings::read(all().with(TOKEN, "t").with("PORT", "1")).unwrap();
        let names: Vec<String> = settings.environment().map(|(name, _)| name).collect();
        let has = |name: &str| names.iter().any(|found| found == name);
        assert!(has("KEY_OPEN_AI") && has("PORT") && !has(TOKEN));
    }
}
