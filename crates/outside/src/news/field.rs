//! Reading fields that anybody may have written.

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::safe_http::parse_url;
use crate::text::cut;
use crate::time::moment;

pub(super) const TITLE_BYTES_MAX: usize = 1024;
pub(super) const DESCRIPTION_BYTES_MAX: usize = 8 * 1024;
pub(super) const WORD_BYTES_MAX: usize = 200;
const URL_BYTES_MAX: usize = 8 * 1024;
const ID_BYTES_MAX: usize = 200;
const WORDS_MAX: usize = 16;

/// The first of these members that is there and not null.
pub(super) fn first<'a>(item: &'a Value, names: &[&str]) -> &'a Value {
    names.iter().map(|name| &item[*name]).find(|value| !value.is_null()).unwrap_or(&Value::Null)
}

/// Text on one line: control characters and runs of white space become one space.
pub(super) fn text(value: &Value, bytes_max: usize) -> Option<String> {
    let text = value.as_str()?;
    // Nobody is made to walk through megabytes for a line.
    let text = cut(text, bytes_max * 4);
    let words = text.split(|letter: char| letter.is_whitespace() || letter.is_control());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let line = words.join(" ");
    let line = cut(&line, bytes_max).trim_end();
    (!line.is_empty()).then(|| line.to_owned())
}

/// A word, or a number as a word.
pub(super) fn word(value: &Value) -> Option<String> {
    match value {
        Value::Number(number) => Some(number.to_string()),
        value => text(value, WORD_BYTES_MAX),
    }
}

/// A list of words, or one word.
pub(super) fn words(value: &Value) -> Vec<String> {
    match value {
        Value::Array(list) => list.iter().take(WORDS_MAX).filter_map(|one| word(named(one))).collect(),
        value => word(named(value)).into_iter().collect(),
    }
}

/// The name of a thing that has one, or the thing.
fn named(value: &Value) -> &Value {
    if value.is_object() { first(value, &["name", "code", "id"]) } else { value }
}

/// An address of http or https, in its one spelling. One that is too long is none: cut off, it leads elsewhere.
pub(super) fn url(value: &Value) -> Option<String> {
    let text = value.as_str().filter(|text| text.len() <= URL_BYTES_MAX)?;
    let url = parse_url(text).ok()?;
    let fits =
        matches!(url.scheme(), "http" | "https") && url.username().is_empty() && url.password().is_none();
    (fits && url.as_str().len() <= URL_BYTES_MAX).then(|| url.into())
}

/// A time as it is written, and what it means.
pub(super) fn time(value: &Value) -> (Option<String>, Option<i64>) {
    let written = text(value, 100);
    let ms = written.as_deref().and_then(moment);
    (written, ms)
}

/// An id with its provider before it.
pub(super) fn id(provider: &str, candidates: &[&Value]) -> Option<String> {
    plain_id(candidates).map(|id| format!("{provider}:{id}"))
}

/// An id alone. Ids are part of keys and paths, so one that is too long or has odd letters in it (the address of
/// an article, where there is no id) becomes a digest, always the same.
pub(super) fn plain_id(candidates: &[&Value]) -> Option<String> {
    let plain = |value: &&Value| match value {
        Value::Number(number) => Some(number.to_string()),
        value => value.as_str().map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned),
    };
    let id = candidates.iter().find_map(plain)?;
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'~');
    if id.len() <= ID_BYTES_MAX && id.bytes().all(fits) {
        return Some(id);
    }
    let digest = Sha256::digest(id.as_bytes());
    Some(format!("sha256-{}", digest[..16].iter().map(|byte| format!("{byte:02x}")).collect::<String>()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ids_are_strings_with_their_provider() {
        for (candidates, expected) in [
            (vec![json!("4f1c-a_b")], Some("newsdata:4f1c-a_b")),
            (vec![json!(null), json!(12345)], Some("newsdata:12345")),
            (vec![json!(""), json!("  x ")], Some("newsdata:x")),
            (vec![json!(null), json!([]), json!("")], None),
            (vec![], None),
        ] {
            assert_eq!(id("newsdata", &candidates.iter().collect::<Vec<_>>()).as_deref(), expected);
        }
        let from_link = id("apitube", &[&json!("https://paper.example/a?b=c")]).unwrap();
        assert_eq!(from_link.len(), "apitube:sha256-".len() + 32);
        assert_eq!(from_link, id("apitube", &[&json!("https://paper.example/a?b=c")]).unwrap());
        assert_ne!(from_link, id("apitube", &[&json!("https://paper.example/a?b=d")]).unwrap());
    }

    #[test]
    fn nothing_of_a_stranger_is_trusted() {
        assert_eq!(text(&json!(" a\n\u{1b}[31m b\u{0}"), 100).as_deref(), Some("a [31m b"));
        assert_eq!(text(&json!("grün"), 3).as_deref(), Some("gr"));
        assert_eq!(text(&json!("x".repeat(10_000)), 100).unwrap().len(), 100);
        for (value, expected) in [
            (json!("https://Paper.example/a b"), Some("https://paper.example/a%20b")),
            (json!("javascript:alert(1)"), None),
            (json!("//paper.example/a"), None),
            (json!("https://user:pw@paper.example/"), None),
            (json!(format!("https://paper.example/{}", "x".repeat(9000))), None),
            (json!(7), None),
        ] {
            assert_eq!(url(&value).as_deref(), expected, "{value}");
        }
        assert_eq!(words(&json!(["a", {"name": "b"}, null, 7])), ["a", "b", "7"]);
        assert_eq!(words(&json!("crypto")), ["crypto"]);
        assert_eq!(words(&json!(vec!["x"; 1000])).len(), WORDS_MAX);
    }
}
