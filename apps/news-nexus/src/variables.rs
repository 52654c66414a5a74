//! The variables as they were given: from `.env`, then from the environment.

use std::collections::BTreeMap;
use std::path::Path;

use windlass_outside::secret::Secret;

/// Names and values. The values are hidden, since one of them is a key.
#[derive(Debug, Clone, Default)]
pub(crate) struct Variables(BTreeMap<String, Secret<String>>);

impl Variables {
    /// What `.env` in `folder` says, and over it what the environment says.
    pub(crate) fn read(folder: &Path) -> std::io::Result<Self> {
        let mut all = Self::default();
        match std::fs::read_to_string(folder.join(".env")) {
            Ok(text) => all.0.extend(parse(&text).map(|(name, value)| (name, Secret::new(value)))),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        all.0.extend(Self::of_environment().0);
        Ok(all)
    }

    /// What the environment says.
    pub(crate) fn of_environment() -> Self {
        let pairs = std::env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?, Secret::new(value.into_string().ok()?)))
        });
        Self(pairs.collect())
    }

    /// A value that is not blank.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|value| value.expose().trim()).filter(|value| !value.is_empty())
    }

    #[cfg(test)]
    pub(crate) fn of<const N: usize>(pairs: [(&str, &str); N]) -> Self {
        Self(pairs.map(|(name, value)| (name.to_owned(), Secret::new(value.to_owned()))).into())
    }

    #[cfg(test)]
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.0.insert(name.to_owned(), Secret::new(value.to_owned()));
        self
    }
}

/// Lines `NAME=value`, `NAME="value"` or `NAME='value'`, with `export` before
/// them or not; `#` begins a comment where a value is not quoted.
fn parse(text: &str) -> impl Iterator<Item = (String, String)> {
    text.lines().filter_map(|line| {
        let line = line.trim().trim_start_matches('\u{feff}');
        let line = line.strip_prefix("export ").unwrap_or(line);
        let (name, value) = line.split_once('=')?;
        let name = name.trim();
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
        (!name.is_empty() && name.chars().all(fits)).then(|| (name.to_owned(), unquoted(value.trim())))
    })
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
        let text = "\u{feff}A=1\n# no\n export B = two words # said\nC=\"x # y\" # z\nD='$HOME'\nE=\nF=a=b#c\n1 x=2\nno line\r\nG=7\r\n";
        let found: Vec<(String, String)> = parse(text).collect();
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
        let all = Variables::of([("A", "  "), ("B", " b ")]);
        assert_eq!((all.get("A"), all.get("B"), all.get("C")), (None, Some("b"), None));
        assert!(!format!("{all:?}").contains("b \""));
    }
}
