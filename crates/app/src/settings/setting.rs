//! One setting, as the table has it.

/// Something that can be set.
///
/// ```
/// use windlass_app::Setting;
///
/// static TABLE: &[Setting] = &[
///     Setting::required("SHOP_KEY", "the key of the shop's API").secret(),
///     Setting::new("SHOP_URL", "https://api.example.com", "the base of the shop's API"),
///     Setting::optional("SHOP_LANGUAGE", "detected", "two letters, such as de"),
///     Setting::new("HOOK_LISTEN", "127.0.0.1:8080", "where the hook listens").section("Hook"),
/// ];
/// # assert!(windlass_app::settings::problems(TABLE).is_empty());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    /// The name of the variable.
    pub name: &'static str,
    /// What holds when nothing is said.
    pub unset: Unset,
    /// What it is for, in a line.
    pub help: &'static str,
    /// Whether its value is shown to nobody.
    pub is_secret: bool,
    /// The heading that it stands under; empty for the first.
    pub section: &'static str,
}

/// What holds when nothing is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unset {
    /// Whoever needs it does not start.
    Refused,
    /// This value.
    Default(&'static str),
    /// No value; what that means, in a word or two.
    Means(&'static str),
}

impl Setting {
    /// A setting with a default.
    pub const fn new(name: &'static str, default: &'static str, help: &'static str) -> Self {
        Self { name, unset: Unset::Default(default), help, is_secret: false, section: "" }
    }

    /// A setting that must be there.
    pub const fn required(name: &'static str, help: &'static str) -> Self {
        Self { unset: Unset::Refused, ..Self::new(name, "", help) }
    }

    /// A setting that may be left out, and what that means: `off`, `none`, `made up`.
    pub const fn optional(name: &'static str, without: &'static str, help: &'static str) -> Self {
        Self { unset: Unset::Means(without), ..Self::new(name, "", help) }
    }

    /// Its value is shown to nobody.
    #[must_use]
    pub const fn secret(self) -> Self {
        Self { is_secret: true, ..self }
    }

    /// It stands under this heading.
    #[must_use]
    pub const fn section(self, section: &'static str) -> Self {
        Self { section, ..self }
    }
}

/// What is wrong with a table, for the test of an app.
pub fn problems(table: &[Setting]) -> Vec<String> {
    let mut found = Vec::new();
    for (at, setting) in table.iter().enumerate() {
        let Setting { name, unset, help, is_secret, section: _ } = setting;
        if table[..at].iter().any(|earlier| earlier.name == *name) {
            found.push(format!("{name} stands in the table twice"));
        }
        if table.iter().any(|other| other.name.strip_suffix("_FILE") == Some(name)) {
            found.push(format!("{name}_FILE is a setting, so that {name} cannot come from a file"));
        }
        if help.is_empty() || help.contains(['\n', '|']) {
            found.push(format!("{name} has no line of help that can stand in a table"));
        }
        if *is_secret && matches!(unset, Unset::Default(_)) {
            found.push(format!("{name} is a secret with a default, which everybody knows"));
        }
    }
    found
}

/// The table by its headings, in the order in which they appear.
pub(super) fn sections(table: &[Setting]) -> Vec<(&'static str, Vec<&Setting>)> {
    let mut sections: Vec<(&'static str, Vec<&Setting>)> = Vec::new();
    for setting in table {
        match sections.iter_mut().find(|(title, _)| *title == setting.section) {
            Some((_, settings)) => settings.push(setting),
            None => sections.push((setting.section, vec![setting])),
        }
    }
    sections
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_that_contradicts_itself_is_found_out() {
        let table = [
            Setting::required("A", "a"),
            Setting::required("A", "a"),
            Setting::new("A_FILE", "", "a"),
            Setting::new("B", "b", ""),
            Setting::new("C", "c", "c").secret(),
        ];
        let found = problems(&table).join("\n");
        for word in ["A stands in the table twice", "A_FILE", "B has no line", "C is a secret"] {
            assert!(found.contains(word), "{found}");
        }
        assert!(problems(&[Setting::required("A", "a").secret()]).is_empty());
    }
}
