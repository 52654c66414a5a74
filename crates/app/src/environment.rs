//! What an app was given: the environment, and `.env` of a folder beneath it.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use windlass_engine::core::secret::Secret;

/// Names and values. The values are hidden, since some of them are keys.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    values: BTreeMap<String, Secret<String>>,
    has_file: bool,
}

/// Why a value cannot be had. It never holds the value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Ungiven {
    /// It was given twice.
    #[error("{0} and {0}_FILE are both set; keep one of them")]
    Twice(String),
    /// The file that should hold it cannot be read.
    #[error("the file that {0}_FILE names cannot be read: {1}")]
    Unreadable(String, io::ErrorKind),
    /// The file that should hold it holds nothing.
    #[error("the file that {0}_FILE names is empty")]
    Empty(String),
}

impl Environment {
    /// The environment of this process.
    pub fn of_process() -> Self {
        let pairs = std::env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?, Secret::new(value.into_string().ok()?)))
        });
        Self { values: pairs.collect(), has_file: false }
    }

    /// The same with what `.env` of a folder says beneath it: the environment
    /// wins. A folder without the file adds nothing.
    pub fn over_file(mut self, folder: &Path) -> io::Result<Self> {
        let text = match std::fs::read_to_string(folder.join(".env")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            read => read?,
        };
        for (name, value) in parse(&text) {
            self.values.entry(name).or_insert_with(|| Secret::new(value));
        }
        self.has_file = true;
        Ok(self)
    }

    /// The same with what an argument says: it goes before the environment, and before a file that the environment names.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.values.remove(&format!("{name}_FILE"));
        self.values.insert(name.to_owned(), Secret::new(value.to_owned()));
        self
    }

    /// A value that is not blank, without the blanks around it.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(|value| value.expose().trim()).filter(|value| !value.is_empty())
    }

    /// A value, or what is in the file that `NAME_FILE` names.
    pub fn value(&self, name: &str) -> Result<Option<String>, Ungiven> {
        let by_file = format!("{name}_FILE");
        match (self.get(name), self.get(&by_file)) {
            (Some(_), Some(_)) => Err(Ungiven::Twice(name.to_owned())),
            (Some(value), None) => Ok(Some(value.to_owned())),
            (None, None) => Ok(None),
            (None, Some(path)) => match std::fs::read_to_string(path) {
                Ok(text) if text.trim().is_empty() => Err(Ungiven::Empty(name.to_owned())),
                Ok(text) => Ok(Some(text.trim().to_owned())),
                Err(error) => Err(Ungiven::Unreadable(name.to_owned(), error.kind())),
            },
        }
    }

    /// Where settings are set, for people.
    pub(crate) fn place(&self) -> &'static str {
        if self.has_file { "in .env or in the environment" } else { "in the environment" }
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for Environment {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Self {
        let pairs = pairs.into_iter().map(|(name, value)| (name.into(), Secret::new(value.into())));
        Self { values: pairs.collect(), has_file: false }
    }
}

/// Lines `NAME=value`, `NAME="value"` or `NAME='value'`, with `export` before
/// them or not; `#` begins a comment where a value is not quoted. Of a name
/// that stands there twice the last line counts.
fn parse(text: &str) -> BTreeMap<String, String> {
    let lines = text.lines().filter_map(|line| {
        let line = line.trim().trim_start_matches('\u{feff}');
        let line = line.strip_prefix("export ").unwrap_or(line);
        let (name, value) = line.split_once('=')?;
        let name = name.trim();
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
        (!name.is_empty() && name.chars().all(fits)).then(|| (name.to_owned(), unquoted(value.trim())))
    });
    lines.collect()
}

fn unquoted(value: &str) -> String {
    for quote in ['"', '\''] {
        if let Some((inner, _)) = value.strip_prefix(quote).and_then(|rest| rest.split_once(quote)) {
            return if quote == '"' { inner.replace("\\n", "\n") } else { inner.to_owned() };
        }
    }
    let comment = value
        .char_indices()
        .find(|(at, c)| *c == '#' && (*at == 0 || value[..*at].ends_with(char::is_whitespace)));
    comment.map_or(value, |(at, _)| value[..at].trim_end()).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_an_env_file() {
        let text = "\u{feff}A=1\n# no\n export B = two words # said\nC=\"x # y\" # z\nD='$HOME'\nE=\nF=a=b#c\n1 x=2\nno line\r\nG=6\nG=7\r\n";
        let found = parse(text);
        let found: Vec<(&str, &str)> = found.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        let expected = [
            ("A", "1"),
            ("B", "two words"),
            ("C", "x # y"),
            ("D", "$HOME"),
            ("E", ""),
            ("F", "a=b#c"),
            ("G", "7"),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn blank_is_missing_and_values_are_hidden() {
        let all = Environment::from_iter([("A", "  "), ("B", " canary ")]);
        assert_eq!((all.get("A"), all.get("B"), all.get("C")), (None, Some("canary"), None));
        assert!(!format!("{all:?}").contains("canary"));
    }

    #[test]
    fn the_environment_wins_over_the_file() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(".env"), "A=file\nB=file\n").unwrap();
        let all = Environment::from_iter([("A", "said")]).over_file(folder.path()).unwrap();
        assert_eq!((all.get("A"), all.get("B")), (Some("said"), Some("file")));
        let none = Environment::default().over_file(&folder.path().join("nowhere")).unwrap();
        assert_eq!(none.get("A"), None);
    }

    /// Fault 71: what is wrong with a secret is said without the secret.
    #[test]
    fn fault_71_a_value_may_come_from_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        std::fs::write(path("key"), " canary\n").unwrap();
        std::fs::write(path("empty"), "\n").unwrap();
        let of = |file: &str| Environment::from_iter([("KEY_FILE", path(file))]);
        assert_eq!(of("key").value("KEY"), Ok(Some("canary".to_owned())));
        assert_eq!(of("empty").value("KEY"), Err(Ungiven::Empty("KEY".into())));
        assert_eq!(of("gone").value("KEY"), Err(Ungiven::Unreadable("KEY".into(), io::ErrorKind::NotFound)));
        let both =
            |value: &str| Environment::from_iter([("KEY_FILE", path("key")), ("KEY", value.to_owned())]);
        let twice = both("canary").value("KEY").unwrap_err();
        assert_eq!(twice.to_string(), "KEY and KEY_FILE are both set; keep one of them");
        assert_eq!(both(" ").value("KEY"), Ok(Some("canary".to_owned())));
        assert_eq!(
            of("gone").with("KEY", "said").value("KEY"),
            Ok(Some("said".to_owned())),
            "by an argument"
        );
    }
}
