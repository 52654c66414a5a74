//! The settings, checked all at once.

use std::path::{Path, PathBuf};

use url::Url;
use windlass_outside::google_rss::{self, Locale};
use windlass_outside::openai;
use windlass_outside::safe_http::{Proxies, origins};
use windlass_outside::secret::Secret;

use crate::variables::Variables;

/// The nine that must be there.
pub(crate) const REQUIRED: [&str; 9] = [
    "PATH_AND_FILENAME_FOR_QUERY_SPREADSHEET_AUTOMATED",
    "PATH_TO_SEMANTIC_SCORER_DIR",
    "PATH_TO_LOGS",
    "NODE_ENV",
    "KEY_OPEN_AI",
    "PATH_TO_SAVE_CHATGPT_RESPONSES",
    "NAME_APP",
    "NAME_DB",
    "PATH_DATABASE",
];

/// Those that may be there.
const OPTIONAL: [&str; 21] = [
    "PORT",
    "HOST",
    "WINDLASS_TOKEN",
    "PATH_TO_QUEUE_FILE",
    "GOOGLE_RSS_URL",
    "GOOGLE_RSS_HL",
    "GOOGLE_RSS_GL",
    "GOOGLE_RSS_CEID",
    "OPENAI_BASE_URL",
    "STATE_ASSIGNER_MODEL_NAME",
    "MILISECONDS_IN_BETWEEN_REQUESTS",
    "LOG_MAX_SIZE",
    "LOG_MAX_FILES",
    "TZ",
    "HTTP_PROXY",
    "http_proxy",
    "HTTPS_PROXY",
    "https_proxy",
    "NO_PROXY",
    "no_proxy",
    "FETCH_VIA_PROXY",
];

const PAUSE_MS_DEFAULT: u64 = 5_000;
const PAUSE_MS_MAX: u64 = 10_000;
const MIB: u64 = 1024 * 1024;

/// In which surroundings the program runs; decides where it logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Development,
    Testing,
    Production,
}

/// Where and how much is logged.
#[derive(Debug, Clone)]
pub(crate) struct LogSettings {
    pub folder: PathBuf,
    pub name: String,
    pub bytes_max: u64,
    pub files_max: u32,
}

/// Everything that can be set.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub mode: Mode,
    pub log: LogSettings,
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
    pub complaints: Vec<String>,
    given: Variables,
}

/// Why the program does not start: all that is wrong, in one sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SettingsError(String);

impl Settings {
    /// Checks all variables.
    pub(crate) fn of(given: Variables) -> Result<Self, SettingsError> {
        let missing: Vec<&str> = REQUIRED.into_iter().filter(|name| given.get(name).is_none()).collect();
        if !missing.is_empty() {
            let (names, them) = (missing.join(", "), if missing.len() == 1 { "it" } else { "them" });
            let text = format!(
                "Missing required environment variables: {names}. Set {them} in .env or in the environment"
            );
            return Err(SettingsError(text));
        }
        let reader = Reader { given: &given };
        let text = |name| reader.text(name).unwrap_or_default();
        let pause = reader.number("MILISECONDS_IN_BETWEEN_REQUESTS", 0, PAUSE_MS_MAX);
        Ok(Self {
            mode: reader.mode()?,
            log: reader.log()?,
            spreadsheet: text("PATH_AND_FILENAME_FOR_QUERY_SPREADSHEET_AUTOMATED").into(),
            scorer_folder: text("PATH_TO_SEMANTIC_SCORER_DIR").into(),
            openai_key: Secret::new(text("KEY_OPEN_AI")),
            responses_folder: text("PATH_TO_SAVE_CHATGPT_RESPONSES").into(),
            database: Path::new(&text("PATH_DATABASE")).join(reader.file_name("NAME_DB")?),
            host: reader.or("HOST", "127.0.0.1"),
            port: reader.number("PORT", 0, 65_535)?.map_or(3002, |port| port as u16),
            token: reader.text("WINDLASS_TOKEN").map(Secret::new),
            queue_file: reader.or("PATH_TO_QUEUE_FILE", "runtime/queue-jobs.json").into(),
            google_rss_url: reader.url("GOOGLE_RSS_URL", google_rss::URL)?,
            locale: reader.locale(),
            openai_base_url: reader.url("OPENAI_BASE_URL", openai::URL)?,
            model_name: reader.or("STATE_ASSIGNER_MODEL_NAME", "gpt-4o-mini"),
            proxies: reader.proxies()?,
            pause_ms: pause.clone().ok().flatten().unwrap_or(PAUSE_MS_DEFAULT),
            complaints: pause
                .err()
                .into_iter()
                .map(|error| format!("{error}; {PAUSE_MS_DEFAULT} is used"))
                .collect(),
            given,
        })
    }

    /// Where the log file is, when at least that is known.
    pub(crate) fn log_of(given: &Variables) -> Option<LogSettings> {
        let known = ["PATH_TO_LOGS", "NAME_APP"].iter().all(|name| given.get(name).is_some());
        if known { Reader { given }.log().ok() } else { None }
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
    pub(crate) fn environment(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let names = REQUIRED.into_iter().chain(OPTIONAL).filter(|name| *name != "WINDLASS_TOKEN");
        names.filter_map(|name| Some((name, self.given.get(name)?)))
    }
}

struct Reader<'a> {
    given: &'a Variables,
}

impl Reader<'_> {
    fn text(&self, name: &str) -> Option<String> {
        self.given.get(name).map(str::to_owned)
    }

    fn or(&self, name: &str, default: &str) -> String {
        self.given.get(name).unwrap_or(default).to_owned()
    }

    fn mode(&self) -> Result<Mode, SettingsError> {
        match self.given.get("NODE_ENV") {
            Some("development") => Ok(Mode::Development),
            Some("testing" | "test") => Ok(Mode::Testing),
            Some("production") => Ok(Mode::Production),
            _ => Err(SettingsError("NODE_ENV must be development, testing or production".to_owned())),
        }
    }

    fn log(&self) -> Result<LogSettings, SettingsError> {
        Ok(LogSettings {
            folder: self.or("PATH_TO_LOGS", ".").into(),
            name: self.file_name("NAME_APP")?,
            bytes_max: self.number("LOG_MAX_SIZE", 1, 1_024)?.unwrap_or(5) * MIB,
            files_max: self.number("LOG_MAX_FILES", 1, 1_000)?.unwrap_or(5) as u32,
        })
    }

    /// A name that stays in its folder.
    fn file_name(&self, name: &str) -> Result<String, SettingsError> {
        let text = self.or(name, "");
        let wrong = text.starts_with('.') || text.contains(['/', '\\']) || text.chars().any(char::is_control);
        if wrong {
            return Err(SettingsError(format!("{name} must be the name of a file, without a folder")));
        }
        Ok(text)
    }

    fn number(&self, name: &str, min: u64, max: u64) -> Result<Option<u64>, SettingsError> {
        let Some(text) = self.given.get(name) else { return Ok(None) };
        match text.parse() {
            Ok(number) if (min..=max).contains(&number) => Ok(Some(number)),
            _ => Err(SettingsError(format!("{name} must be a whole number from {min} to {max}"))),
        }
    }

    fn url(&self, name: &str, default: &str) -> Result<Url, SettingsError> {
        let refuse = || SettingsError(format!("{name} must be an http or https address without a query"));
        let url = Url::parse(&self.or(name, default)).map_err(|_| refuse())?;
        let fits = matches!(url.scheme(), "http" | "https") && url.has_host() && url.query().is_none();
        if fits { Ok(url) } else { Err(refuse()) }
    }

    fn proxies(&self) -> Result<Proxies, SettingsError> {
        let wrong = |error: &dyn std::fmt::Display| SettingsError(error.to_string());
        let proxies = Proxies::read(|name| self.given.get(name)).map_err(|error| wrong(&error))?;
        let redirects = origins(google_rss::REDIRECTS).map_err(|error| wrong(&error))?;
        Ok(redirects.into_iter().fold(proxies, Proxies::provider))
    }

    fn locale(&self) -> Locale {
        let Locale { hl, gl, ceid } = Locale::default();
        Locale {
            hl: self.or("GOOGLE_RSS_HL", &hl),
            gl: self.or("GOOGLE_RSS_GL", &gl),
            ceid: self.or("GOOGLE_RSS_CEID", &ceid),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Variables {
        Variables::of(REQUIRED.map(|name| (name, if name == "NODE_ENV" { "testing" } else { "x" })))
    }

    fn refused(given: Variables) -> String {
        Settings::of(given).unwrap_err().to_string()
    }

    #[test]
    fn all_that_is_missing_is_named_at_once() {
        let text = refused(all().with("NAME_DB", " ").with("KEY_OPEN_AI", ""));
        assert!(text.contains("KEY_OPEN_AI, NAME_DB"), "{text}");
        assert!(!text.contains("NAME_APP"), "{text}");
        for name in REQUIRED {
            assert!(refused(Variables::default()).contains(name), "{name}");
        }
    }

    #[test]
    fn defaults() {
        let settings = Settings::of(all()).unwrap();
        assert_eq!((settings.host.as_str(), settings.port, settings.pause_ms), ("127.0.0.1", 3002, 5000));
        assert_eq!(settings.queue_file, Path::new("runtime/queue-jobs.json"));
        assert_eq!(settings.google_rss_url.as_str(), google_rss::URL);
        assert_eq!((settings.log.bytes_max, settings.log.files_max), (5 * MIB, 5));
        assert!(settings.token.is_none() && settings.complaints.is_empty());
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
        let settings = Settings::of(all().with("MILISECONDS_IN_BETWEEN_REQUESTS", "20000")).unwrap();
        assert_eq!(settings.pause_ms, 5000);
        assert!(settings.complaints[0].contains("MILISECONDS_IN_BETWEEN_REQUESTS"));
        let settings = Settings::of(all().with("MILISECONDS_IN_BETWEEN_REQUESTS", "0")).unwrap();
        assert_eq!(settings.pause_ms, 0);
    }

    #[test]
    fn a_job_gets_the_same_settings_and_no_token() {
        let settings = Settings::of(all().with("WINDLASS_TOKEN", "t").with("PORT", "1")).unwrap();
        let names: Vec<&str> = settings.environment().map(|(name, _)| name).collect();
        assert!(
            names.contains(&"KEY_OPEN_AI") && names.contains(&"PORT") && !names.contains(&"WINDLASS_TOKEN")
        );
    }
}
