//! The settings in a guide: a test makes them from the table, and fails when
//! the page says something else.

use std::path::Path;

use super::setting::{Setting, Unset, sections};

const BEGIN: &str = "<!-- settings: made from the table in the code; WINDLASS_BLESS=1 writes them again -->";
const END: &str = "<!-- end of the settings -->";

/// Holds the part of a page between two marks to the table, for the test of an
/// app. With `WINDLASS_BLESS` set in the environment it is written instead.
///
/// # Panics
///
/// When the page cannot be read, has no such part, or says something else.
pub fn hold_guide(page: &Path, table: &[Setting]) {
    let shown = page.display();
    let text = std::fs::read_to_string(page).unwrap_or_else(|error| panic!("{shown}: {error}"));
    let made = with_settings(&text, table)
        .unwrap_or_else(|| panic!("{shown} has no place for the settings: write `{BEGIN}` and `{END}`"));
    if made == text {
        return;
    }
    if std::env::var_os("WINDLASS_BLESS").is_some() {
        std::fs::write(page, made).unwrap_or_else(|error| panic!("{shown}: {error}"));
        return;
    }
    panic!("the settings in {shown} are not those of the table; run this test with WINDLASS_BLESS=1");
}

fn with_settings(page: &str, table: &[Setting]) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n\n{}\n{END}{after}", markdown(table)))
}

fn markdown(table: &[Setting]) -> String {
    let mut text = String::new();
    for (title, settings) in sections(table) {
        let title = if title.is_empty() { "setting" } else { title };
        text.push_str(&format!("| {title} | unset | |\n|---|---|---|\n"));
        for setting in settings {
            let unset = match setting.unset {
                Unset::Refused => "required".to_owned(),
                Unset::Default(value) => format!("`{value}`"),
                Unset::Means(what) => what.to_owned(),
            };
            let secret = if setting.is_secret { " (secret)" } else { "" };
            text.push_str(&format!("| `{}` | {unset} | {}{secret} |\n", setting.name, setting.help));
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_says_something_else_is_found_out() {
        let table = [Setting::required("KEY", "the key").secret(), Setting::new("N", "5", "how many")];
        let page = format!("before\n{BEGIN}\nold\n{END}\nafter\n");
        let made = with_settings(&page, &table).unwrap();
        for line in ["| `KEY` | required | the key (secret) |", "| `N` | `5` | how many |", "before", "after"]
        {
            assert!(made.contains(line), "{made}");
        }
        assert!(!made.contains("old"));
        assert_eq!(with_settings(&made, &table).as_ref(), Some(&made), "made again, it is the same");
        assert_eq!(with_settings("no place", &table), None);
        assert_ne!(with_settings(&made, &table[..1]).as_ref(), Some(&made), "of another table it is another");
    }
}
