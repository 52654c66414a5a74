//! The settings as a file to begin with: every one of them, with what it is for and what holds without it.

use super::setting::{Setting, Unset, sections};

/// The file of an app's table. What must be set stands there empty, everything else as a comment.
pub fn env_file(app: &str, table: &[Setting]) -> String {
    let mut lines = vec![
        format!("# Settings of `windlass {app}`. A shell reads them by `set -a; . ./{app}.env; set +a`,"),
        "# systemd by `EnvironmentFile=`. NAME_FILE=PATH instead of NAME keeps a secret out of this file."
            .to_owned(),
    ];
    for (title, settings) in sections(table) {
        lines.push(String::new());
        if !title.is_empty() {
            lines.push(format!("# --- {title} ---"));
        }
        lines.extend(settings.into_iter().flat_map(entry));
    }
    lines.push(String::new());
    lines.join("\n")
}

fn entry(setting: &Setting) -> [String; 2] {
    let Setting { name, unset, help, .. } = setting;
    match unset {
        Unset::Refused => [format!("# {help}"), format!("{name}=")],
        Unset::Default(value) => [format!("# {help}"), format!("#{name}={}", quoted(value))],
        Unset::Means(what) => [format!("# {help} (unset: {what})"), format!("#{name}=")],
    }
}

/// A value as a shell reads it, and systemd as well where it has no quote in it.
pub(crate) fn quoted(value: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_-./:@,%+".contains(letter);
    match value.chars().all(is_plain) {
        true => value.to_owned(),
        false => format!("'{}'", value.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_every_setting() {
        let table = [
            Setting::required("KEY", "the key").secret(),
            Setting::new("URL", "https://a.example/b", "where it is"),
            Setting::new("CRON", "0 * * * *", "when it runs").section("times"),
            Setting::optional("HOOK", "off", "who is told").section("times"),
        ];
        let file = env_file("shop", &table);
        let (_, rest) = file.split_once("\n\n").unwrap();
        assert_eq!(
            rest,
            "# the key\nKEY=\n# where it is\n#URL=https://a.example/b\n\n# --- times ---\n# when it runs\n\
             #CRON='0 * * * *'\n# who is told (unset: off)\n#HOOK=\n"
        );
        assert!(file.contains("windlass shop") && file.contains("./shop.env"), "{file}");
    }
}
