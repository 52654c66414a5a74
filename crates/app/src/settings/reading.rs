//! Reading settings by their names; all that is wrong is gathered and said at once.

use std::collections::BTreeSet;
use std::fmt::{self, Display};
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use url::Url;
use windlass_engine::core::secret::Secret;
use windlass_engine::core::time::Span;

use super::setting::{Setting, Unset};
use crate::environment::Environment;

/// Reads the settings of a table. What is missing or wrong stands for nothing
/// that anybody sees: [`Reading::finish`] refuses.
#[derive(Debug)]
pub struct Reading<'a> {
    environment: &'a Environment,
    table: &'static [Setting],
    asked: BTreeSet<&'static str>,
    missing: BTreeSet<usize>,
    wrong: Vec<(String, String)>,
}

/// What is wrong with the settings: all of it. No value is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingsError {
    /// Those that are not there.
    pub missing: Vec<&'static str>,
    /// A sentence for each that makes no sense.
    pub wrong: Vec<String>,
    place: &'static str,
}

impl Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if !self.missing.is_empty() {
            let them = if self.missing.len() == 1 { "it" } else { "them" };
            let names = self.missing.join(", ");
            parts.push(format!("required settings are missing: {names}; set {them} {}", self.place));
        }
        parts.extend(self.wrong.iter().cloned());
        f.write_str(&parts.join("; "))
    }
}

impl std::error::Error for SettingsError {}

impl<'a> Reading<'a> {
    /// Begins to read.
    pub fn new(environment: &'a Environment, table: &'static [Setting]) -> Self {
        let (asked, missing) = (BTreeSet::new(), BTreeSet::new());
        Self { environment, table, asked, missing, wrong: Vec::new() }
    }

    /// What was read, if nothing was missing or wrong.
    pub fn finish<T>(self, read: T) -> Result<T, SettingsError> {
        if self.missing.is_empty() && self.wrong.is_empty() {
            return Ok(read);
        }
        let missing = self.missing.iter().map(|at| self.table[*at].name).collect();
        let wrong = self.wrong.into_iter().map(|(_, why)| why).collect();
        Err(SettingsError { missing, wrong, place: self.environment.place() })
    }

    /// Text; empty where nothing is said and that is allowed.
    pub fn text(&mut self, name: &str) -> String {
        self.value(name).unwrap_or_default()
    }

    /// A setting that may be left out.
    pub fn optional(&mut self, name: &str) -> Option<String> {
        self.value(name)
    }

    /// Whether something is said, so that a reading of another type is of use.
    pub fn is_given(&mut self, name: &str) -> bool {
        self.value(name).is_some()
    }

    /// A secret.
    pub fn secret(&mut self, name: &str) -> Secret<String> {
        self.optional_secret(name).unwrap_or_else(|| Secret::new(String::new()))
    }

    /// A secret that may be left out.
    pub fn optional_secret(&mut self, name: &str) -> Option<Secret<String>> {
        if let Some(at) = self.find(name)
            && !self.table[at].is_secret
        {
            self.refuse(name, format!("{name} is no secret in the table of settings: this is a bug"));
        }
        self.value(name).map(Secret::new)
    }

    /// An http or https address without a query.
    pub fn url(&mut self, name: &str) -> Url {
        let fits = |url: &Url| matches!(url.scheme(), "http" | "https") && url.has_host();
        let read = self.parse(name, "an http or https address without a query", |text| {
            Url::parse(text).ok().filter(|url| fits(url) && url.query().is_none())
        });
        read.unwrap_or_else(|| Url::parse("https://invalid.invalid").expect("it is a URL"))
    }

    /// A number within a range.
    pub fn number<T: FromStr + PartialOrd + Display + Copy>(
        &mut self,
        name: &str,
        range: RangeInclusive<T>,
    ) -> T {
        let what = format!("a number from {} to {}", range.start(), range.end());
        let read = self.parse(name, &what, |text| text.parse().ok().filter(|number| range.contains(number)));
        read.unwrap_or(*range.start())
    }

    /// A length of time within a range, such as `30s`, `5m` or `250ms`.
    pub fn span(&mut self, name: &str, range: RangeInclusive<Span>) -> Duration {
        let what = format!("a length of time from {} to {}, such as 30s or 5m", range.start(), range.end());
        let read = self.parse(name, &what, |text| text.parse().ok().filter(|span| range.contains(span)));
        Duration::from_millis(read.unwrap_or(*range.start()).ms())
    }

    /// Yes or no.
    pub fn flag(&mut self, name: &str) -> bool {
        let read =
            self.parse(name, "true or false (1 or 0)", |text| match text.to_ascii_lowercase().as_str() {
                "1" | "true" | "yes" | "on" => Some(true),
                "0" | "false" | "no" | "off" => Some(false),
                _ => None,
            });
        read.unwrap_or(false)
    }

    /// Anything that can be read from text; `what` completes "it must be …".
    pub fn parsed<T: FromStr>(&mut self, name: &str, what: &str) -> Option<T> {
        self.parse(name, what, |text| text.parse().ok())
    }

    /// An address to listen on.
    pub fn address(&mut self, name: &str) -> SocketAddr {
        let read = self.parsed(name, "an address such as 127.0.0.1:9090");
        read.unwrap_or(SocketAddr::from(([127, 0, 0, 1], 0)))
    }

    /// A path.
    pub fn path(&mut self, name: &str) -> PathBuf {
        self.text(name).into()
    }

    /// The name of a file that stays in its folder.
    pub fn file_name(&mut self, name: &str) -> String {
        let read = self.parse(name, "the name of a file, without a folder", |text| {
            let leads_out = text.starts_with('.') || text.contains(['/', '\\']);
            let fits = !leads_out && !text.chars().any(char::is_control);
            fits.then(|| text.to_owned())
        });
        read.unwrap_or_default()
    }

    /// A list, parted by commas; `what` completes "each must be …".
    pub fn list<T: FromStr>(&mut self, name: &str, what: &str) -> Vec<T> {
        let text = self.text(name);
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        let read: Vec<Option<T>> = parts.map(|part| part.parse().ok()).collect();
        if read.iter().any(Option::is_none) {
            self.refuse(name, format!("{name} must be a list parted by commas, each of them {what}"));
        }
        read.into_iter().flatten().collect()
    }

    /// Says that a setting makes no sense, in words of the app's own. The value must not be in them.
    pub fn refuse(&mut self, name: &str, why: impl Into<String>) {
        self.wrong.push((name.to_owned(), why.into()));
    }

    /// What is wrong with a setting, for one that is not so wrong that nothing starts: its default is taken.
    pub fn forgive(&mut self, name: &str) -> Option<String> {
        let at = self.wrong.iter().position(|(wrong, _)| wrong == name)?;
        Some(self.wrong.remove(at).1)
    }

    /// The settings of the table that nobody has asked for: a test of an app finds that there are none.
    pub fn unasked(&self) -> Vec<&'static str> {
        let names = self.table.iter().map(|setting| setting.name);
        names.filter(|name| !self.asked.contains(name)).collect()
    }

    /// What is made of the value; of the default when the value makes no sense.
    fn parse<T>(&mut self, name: &str, what: &str, make: impl Fn(&str) -> Option<T>) -> Option<T> {
        let text = self.value(name)?;
        let made = make(&text);
        if made.is_some() {
            return made;
        }
        self.refuse(name, format!("{name} must be {what}"));
        match self.table[self.find(name)?].unset {
            Unset::Default(default) => make(default),
            Unset::Refused | Unset::Means(_) => None,
        }
    }

    fn value(&mut self, name: &str) -> Option<String> {
        let Some(at) = self.find(name) else {
            self.refuse(name, format!("{name} is not in the table of settings: this is a bug"));
            return None;
        };
        let setting = &self.table[at];
        self.asked.insert(setting.name);
        match (self.environment.value(name), setting.unset) {
            (Ok(Some(value)), _) => return Some(value),
            (Ok(None), Unset::Default(default)) => return Some(default.to_owned()),
            (Ok(None), Unset::Means(_)) => {}
            (Ok(None), Unset::Refused) => drop(self.missing.insert(at)),
            (Err(_), _) if self.wrong.iter().any(|(wrong, _)| wrong == name) => {}
            (Err(error), _) => self.refuse(name, error.to_string()),
        }
        None
    }

    fn find(&self, name: &str) -> Option<usize> {
        self.table.iter().position(|setting| setting.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static TABLE: &[Setting] = &[
        Setting::required("KEY", "a key").secret(),
        Setting::required("NAME", "a name"),
        Setting::new("COUNT", "5", "how many"),
        Setting::new("BASE", "https://example.com/", "where"),
        Setting::new("PAUSE", "30s", "how long"),
        Setting::new("LOUD", "0", "whether"),
        Setting::new("ORIGINS", "", "which"),
        Setting::optional("LISTEN", "off", "where"),
    ];

    #[derive(Debug)]
    struct Read {
        key: Secret<String>,
        name: String,
        count: u16,
        base: Url,
        pause: Duration,
        loud: bool,
        origins: Vec<Url>,
        listen: Option<SocketAddr>,
    }

    fn read(pairs: &[(&str, &str)]) -> Result<Read, SettingsError> {
        let environment = pairs.iter().copied().collect();
        let mut reading = Reading::new(&environment, TABLE);
        let read = Read {
            key: reading.secret("KEY"),
            name: reading.file_name("NAME"),
            count: reading.number("COUNT", 1..=100),
            base: reading.url("BASE"),
            pause: reading.span("PAUSE", Span::from_ms(1)..=Span::MAX),
            loud: reading.flag("LOUD"),
            origins: reading.list("ORIGINS", "a URL"),
            listen: reading.is_given("LISTEN").then(|| reading.address("LISTEN")),
        };
        assert!(reading.unasked().is_empty());
        reading.finish(read)
    }

    #[test]
    fn defaults_stand_in_the_table_alone() {
        let Read { key, name, count, base, pause, loud, origins, listen } =
            read(&[("KEY", " k "), ("NAME", "n")]).unwrap();
        assert_eq!((key.expose().as_str(), name.as_str(), count), ("k", "n", 5));
        assert_eq!((base.as_str(), pause.as_secs(), loud), ("https://example.com/", 30, false));
        assert!(origins.is_empty() && listen.is_none());
        let given =
            [("KEY", "k"), ("NAME", "n"), ("LISTEN", "127.0.0.1:80"), ("ORIGINS", "http://a, http://b")];
        let given = read(&given).unwrap();
        assert_eq!((given.listen.map(|at| at.port()), given.origins.len()), (Some(80), 2));
    }

    /// Fault 71: everything that is wrong is named at once, and no value with it.
    #[test]
    fn fault_71_all_is_said_at_once_and_no_value() {
        let pairs = [
            ("NAME", "../canary"),
            ("COUNT", "canary"),
            ("BASE", "ftp://canary"),
            ("PAUSE", "canary"),
            ("LOUD", "canary"),
            ("ORIGINS", "http://a,canary"),
            ("LISTEN", "canary"),
        ];
        let error = read(&pairs).unwrap_err();
        let text = error.to_string();
        assert!(
            text.starts_with("required settings are missing: KEY; set it in the environment; "),
            "{text}"
        );
        for (name, _) in pairs {
            assert!(text.contains(&format!("{name} must be ")), "{name} in {text}");
        }
        assert!(!format!("{error:?} {text}").contains("canary"), "{text}");
        assert!(text.contains("COUNT must be a number from 1 to 100"), "{text}");
    }

    #[test]
    fn what_is_missing_is_named_in_the_order_of_the_table() {
        let environment = Environment::default();
        let mut reading = Reading::new(&environment, TABLE);
        let _ = (reading.text("NAME"), reading.secret("KEY"), reading.text("NAME"));
        assert_eq!(reading.finish(()).unwrap_err().missing, ["KEY", "NAME"]);
    }

    #[test]
    fn a_name_that_is_not_in_the_table_is_found_out() {
        let environment = Environment::from_iter([("KEYS", "x"), ("NAME", "canary")]);
        let mut reading = Reading::new(&environment, TABLE);
        reading.text("KEYS");
        reading.secret("NAME");
        let text = reading.finish(()).unwrap_err().to_string();
        assert!(text.contains("KEYS is not in the table") && text.contains("NAME is no secret"), "{text}");
    }

    #[test]
    fn what_is_forgiven_has_its_default() {
        let environment = Environment::from_iter([("COUNT", "500")]);
        let mut reading = Reading::new(&environment, TABLE);
        assert_eq!(reading.number("COUNT", 1..=100), 5);
        let complaint = reading.forgive("COUNT");
        assert_eq!(complaint.as_deref(), Some("COUNT must be a number from 1 to 100"));
        assert_eq!((reading.forgive("COUNT"), reading.finish(7)), (None, Ok(7)));
    }
}
