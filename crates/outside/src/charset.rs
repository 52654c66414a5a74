//! Text in the encoding that it says it is in.
//!
//! A mark at its beginning says it best, then who sent it, then the document
//! itself; one that nobody says anything about is UTF-8 or, where it cannot be,
//! windows-1252, as browsers have it.

use std::borrow::Cow;

use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};

/// How far into a document its own word on its encoding is looked for.
const DECLARATION_BYTES_MAX: usize = 256;

/// The text of an XML document that came with this content type.
pub(crate) fn decode<'a>(bytes: &'a [u8], content_type: Option<&str>) -> Cow<'a, str> {
    let said = content_type.and_then(|value| known(parameter(value)?)).or_else(|| declared(bytes));
    let encoding =
        said.unwrap_or_else(|| if std::str::from_utf8(bytes).is_ok() { UTF_8 } else { WINDOWS_1252 });
    // A byte order mark goes before what was said; what cannot be read becomes U+FFFD.
    encoding.decode(bytes).0
}

fn known(label: &str) -> Option<&'static Encoding> {
    Encoding::for_label(label.as_bytes())
}

/// `x` of `application/xml; charset="x"`.
fn parameter(content_type: &str) -> Option<&str> {
    let mut all = content_type.split(';').skip(1).filter_map(|parameter| parameter.split_once('='));
    let (_, value) = all.find(|(name, _)| name.trim().eq_ignore_ascii_case("charset"))?;
    Some(value.trim().trim_matches(['"', '\'']))
}

/// What `<?xml … encoding="x"?>` says. Who can read that far reads ASCII, so it is never UTF-16.
fn declared(bytes: &[u8]) -> Option<&'static Encoding> {
    let head = &bytes[..bytes.len().min(DECLARATION_BYTES_MAX)];
    let head: String = head.iter().map(|byte| char::from(*byte)).collect();
    let declaration = head.trim_start().strip_prefix("<?xml")?.split("?>").next()?;
    let (_, rest) = declaration.split_once("encoding")?;
    let rest = rest.trim_start().strip_prefix('=')?.trim_start();
    let quote = rest.chars().next().filter(|quote| matches!(quote, '"' | '\''))?;
    let encoding = known(rest[1..].split(quote).next()?)?;
    Some(encoding.output_encoding())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_in_every_encoding() {
        let xml = |label: &str, text: &[u8]| {
            [format!("<?xml version='1.0' encoding={label}?>").as_bytes(), text].concat()
        };
        for (bytes, content_type, expected) in [
            (xml("\"ISO-8859-1\"", b"caf\xe9"), None, "café"),
            (xml("'windows-1252'", b"\x93caf\xe9\x94 \x80"), None, "“café” €"),
            (xml("\"iso-8859-1\"", b"\x93x\x94"), Some("text/xml"), "“x”"),
            (xml("\"ISO-8859-15\"", b"\xa4"), None, "€"),
            (xml("\"utf-8\"", "café".as_bytes()), Some("application/xml"), "café"),
            (xml("\"utf-8\"", b"caf\xe9"), Some("text/xml; Charset=\"iso-8859-1\""), "café"),
            (xml("\"iso-8859-1\"", "café".as_bytes()), Some("text/xml; charset=utf-8"), "café"),
            (xml("\"shift_jis\"", b"\x83j\x83\x85"), None, "ニュ"),
            (xml("\"no-such\"", b"caf\xe9"), Some("text/xml; charset=none"), "café"),
            (b"<a>caf\xe9</a>".to_vec(), None, "<a>café</a>"),
            ("<a>café</a>".as_bytes().to_vec(), None, "<a>café</a>"),
            (b"\xef\xbb\xbf<a>caf\xc3\xa9</a>".to_vec(), Some("text/xml; charset=iso-8859-1"), "<a>café</a>"),
            (b"\xff\xfe<\0a\0/\0>\0".to_vec(), None, "<a/>"),
            (xml("\"utf-16\"", b"<a/>"), None, "<a/>"),
        ] {
            let text = decode(&bytes, content_type);
            assert!(text.ends_with(expected), "{content_type:?} {text}");
        }
    }
}
