//! Text in the encoding that it says it is in.
//!
//! A mark at its beginning says it best, then who sent it, then the document
//! itself; one that nobody says anything about is UTF-8 or, where it cannot be,
//! windows-1252 for XML, and what its bytes look like for pages, as browsers
//! have it.

use std::borrow::Cow;

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};

/// How far into a document its own word on its encoding is looked for.
const DECLARATION_BYTES_MAX: usize = 256;
/// The same of a page. Browsers look at 1024 bytes; pages put more before it.
const META_BYTES_MAX: usize = 8 * 1024;
/// How much of a page is looked at for what its bytes look like.
const LOOKED_AT_BYTES_MAX: usize = 256 * 1024;

/// The text of an XML document that came with this content type.
pub(crate) fn decode<'a>(bytes: &'a [u8], content_type: Option<&str>) -> Cow<'a, str> {
    let said = content_type.and_then(|value| known(parameter(value)?)).or_else(|| declared(bytes));
    let encoding =
        said.unwrap_or_else(|| if std::str::from_utf8(bytes).is_ok() { UTF_8 } else { WINDOWS_1252 });
    // A byte order mark goes before what was said; what cannot be read becomes U+FFFD.
    encoding.decode(bytes).0
}

/// The text of a page that came with this content type.
pub(crate) fn decode_html<'a>(bytes: &'a [u8], content_type: Option<&str>) -> Cow<'a, str> {
    let said = content_type.and_then(|value| known(parameter(value)?)).or_else(|| meta(bytes));
    let looked = || {
        if std::str::from_utf8(bytes).is_ok() {
            return UTF_8;
        }
        let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
        detector.feed(&bytes[..bytes.len().min(LOOKED_AT_BYTES_MAX)], true);
        detector.guess(None, Utf8Detection::Deny)
    };
    said.unwrap_or_else(looked).decode(bytes).0
}

/// What the first `<meta charset="x">`, or `<meta … content="…; charset=x">`, says. Who can read that far
/// reads ASCII, so it is never UTF-16.
fn meta(bytes: &[u8]) -> Option<&'static Encoding> {
    let head = bytes[..bytes.len().min(META_BYTES_MAX)].to_ascii_lowercase();
    memchr::memmem::find_iter(&head, b"<meta").find_map(|at| {
        let tag = &head[at..];
        let tag = &tag[..memchr::memchr(b'>', tag)?];
        let value = &tag[memchr::memmem::find(tag, b"charset")? + b"charset".len()..];
        let value = value.trim_ascii_start().strip_prefix(b"=")?.trim_ascii_start();
        let value = value.strip_prefix(b"\"").or_else(|| value.strip_prefix(b"'")).unwrap_or(value);
        let is_end = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b'"' | b'\'' | b';' | b'/');
        let end = value.iter().position(is_end).unwrap_or(value.len());
        Some(Encoding::for_label(&value[..end])?.output_encoding())
    })
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

    #[test]
    fn pages_in_every_encoding() {
        let russian = "Биткоин подорожал во вторник, сообщили трейдеры, и рынок это заметил.";
        let japanese = "火曜日にビットコインが再び上昇したとトレーダーが述べた。";
        let in_encoding = |label: &str, text: &str| known(label).unwrap().encode(text).0.into_owned();
        let meta = |meta: &str, bytes: &[u8]| [meta.as_bytes(), bytes].concat();
        for (bytes, content_type, expected) in [
            (b"caf\xe9".to_vec(), Some("text/html; charset=ISO-8859-1"), "café"),
            (
                meta("<meta charset=windows-1251>", &in_encoding("windows-1251", russian)),
                Some("text/html"),
                russian,
            ),
            (meta("<META Charset = 'Shift_JIS' />", &in_encoding("shift_jis", japanese)), None, japanese),
            (
                meta(
                    "<meta http-equiv=content-type content=\"text/html; charset=koi8-r\">",
                    &in_encoding("koi8-r", russian),
                ),
                None,
                russian,
            ),
            (meta("<meta charset=utf-16>", "café".as_bytes()), None, "café"),
            (meta("<meta charset=no-such><meta charset=iso-8859-1>", b"caf\xe9"), None, "café"),
            ("café".as_bytes().to_vec(), None, "café"),
            (in_encoding("windows-1251", russian), None, russian),
            (in_encoding("euc-jp", japanese), None, japanese),
            (
                in_encoding("gbk", "比特币在星期二再次上涨，交易员表示，市场注意到了这一点。"),
                None,
                "比特币在星期二再次上涨",
            ),
            (b"\xef\xbb\xbfcaf\xc3\xa9".to_vec(), Some("text/html; charset=iso-8859-1"), "café"),
            (b"\xfe\xff\0h\0i".to_vec(), None, "hi"),
        ] {
            let text = decode_html(&bytes, content_type);
            assert!(text.contains(expected), "{content_type:?} {text}");
        }
    }
}
