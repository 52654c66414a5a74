//! The settings in `--help`: aligned and wrapped.

use super::setting::{Setting, Unset, sections};

/// As wide as the rest of the help.
const WIDTH: usize = 100;
/// Names that are longer stand on a line of their own.
const NAME_WIDTH_MAX: usize = 32;

/// The settings of some headings, or of all when none is named.
pub fn help(table: &[Setting], only: &[&str]) -> String {
    let mut lines = Vec::new();
    for (title, settings) in sections(table) {
        if !only.is_empty() && !only.contains(&title) {
            continue;
        }
        let title = if title.is_empty() { String::new() } else { format!(" ({title})") };
        lines.push(format!("Settings{title}:"));
        let longest = settings.iter().map(|setting| setting.name.len()).max().unwrap_or(0);
        let width = longest.min(NAME_WIDTH_MAX);
        settings.iter().for_each(|setting| lines.extend(entry(setting, width)));
        lines.push(String::new());
    }
    lines.push(
        "Settings are environment variables; NAME_FILE names a file that holds the value of NAME.".into(),
    );
    lines.join("\n")
}

fn entry(setting: &Setting, width: usize) -> Vec<String> {
    let indent = width + 4;
    let words = format!("{}{}", setting.help, unset(setting));
    let mut lines = wrapped(&words, WIDTH - indent).into_iter();
    let mut entry = Vec::new();
    if setting.name.len() > width {
        entry.push(format!("  {}", setting.name));
    } else {
        let first = lines.next().unwrap_or_default();
        entry.push(format!("  {:<width$}  {first}", setting.name).trim_end().to_owned());
    }
    entry.extend(lines.map(|line| format!("{:indent$}{line}", "")));
    entry
}

fn unset(setting: &Setting) -> String {
    match setting.unset {
        Unset::Refused => " [required]".to_owned(),
        Unset::Default(value) => format!(" [default: {value}]"),
        Unset::Means(what) => format!(" [unset: {what}]"),
    }
}

fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.last_mut().expect("there is always a line");
        if last.is_empty() {
            last.push_str(word);
        } else if last.chars().count() + 1 + word.chars().count() <= width {
            last.push(' ');
            last.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_line_up_and_wrap() {
        let long =
            "how long a provider is left alone at most, whatever it says, and also when it says nothing";
        let table = [
            Setting::required("KEY", "the key").secret(),
            Setting::new("SECONDS", "900", long),
            Setting::optional("A_NAME_THAT_IS_MUCH_LONGER_THAN_ALL_OTHERS", "off", "where").section("Hook"),
        ];
        let expected = "\
Settings:
  KEY      the key [required]
  SECONDS  how long a provider is left alone at most, whatever it says, and also when it says
           nothing [default: 900]

Settings (Hook):
  A_NAME_THAT_IS_MUCH_LONGER_THAN_ALL_OTHERS
                                    where [unset: off]

Settings are environment variables; NAME_FILE names a file that holds the value of NAME.";
        assert_eq!(help(&table, &[]), expected);
        assert!(!help(&table, &[""]).contains("Hook"));
        assert!(help(&table, &[]).lines().all(|line| line.len() <= WIDTH));
    }
}
