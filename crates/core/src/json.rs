//! The one gate before every store: which JSON is accepted.
//!
//! UTF-8, no NUL, at most 64 deep, integers within 64 bits, numbers that a
//! double can hold, no duplicate keys, within a size. What passes is kept as
//! text, minified and otherwise as it came (key order, digits, escapes), so
//! every store gives back exactly what it got.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::error::Invalid;

/// How deep arrays and objects may be nested.
pub const DEPTH_MAX: usize = 64;
/// Bytes of a payload.
pub const PAYLOAD_BYTES_MAX: usize = 1024 * 1024;
/// Bytes of a step's output.
pub const STEP_BYTES_MAX: usize = 1024 * 1024;
/// Bytes of a result.
pub const RESULT_BYTES_MAX: usize = 64 * 1024;
/// Bytes of a progress report.
pub const PROGRESS_BYTES_MAX: usize = 8 * 1024;
/// Bytes of a job's meta data.
pub const META_BYTES_MAX: usize = 16 * 1024;

/// A number of so many digits and no exponent fits into a double.
const DIGITS_MAX: usize = 300;

/// JSON text that has passed the gate.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Json(Arc<str>);

impl Json {
    /// Checks `text` and keeps it minified. `field` and `bytes_max` are for the refusal.
    pub fn new(field: &'static str, text: &[u8], bytes_max: usize) -> Result<Self, Invalid> {
        if text.len() > bytes_max {
            return Err(Invalid::new(
                field,
                format!("has {} bytes; at most {bytes_max} are allowed", text.len()),
            ));
        }
        let text = std::str::from_utf8(text).map_err(|_| Invalid::new(field, "is not UTF-8"))?;
        let mut gate = Gate { text, at: 0, kept: 0, out: String::new() };
        gate.document().map_err(|why| Invalid::new(field, format!("{why} (at byte {})", gate.at)))?;
        Ok(Self(gate.minified()))
    }

    /// A payload: JSON of at most [`PAYLOAD_BYTES_MAX`] bytes.
    pub fn payload(text: impl AsRef<[u8]>) -> Result<Self, Invalid> {
        Self::new("payload", text.as_ref(), PAYLOAD_BYTES_MAX)
    }

    /// Turns a value into JSON and checks it.
    pub fn from_value<T: Serialize + ?Sized>(
        field: &'static str,
        value: &T,
        bytes_max: usize,
    ) -> Result<Self, Invalid> {
        let text = serde_json::to_vec(value)
            .map_err(|error| Invalid::new(field, format!("cannot be written as JSON: {error}")))?;
        Self::new(field, &text, bytes_max)
    }

    /// Takes text that came through this gate before: from a store of ours.
    pub fn trusted(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// `null`.
    pub fn null() -> Self {
        Self(Arc::from("null"))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Reads the text as a value.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(&self.0)
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Payloads do not belong into logs; their size does no harm.
        write!(f, "Json({} bytes)", self.0.len())
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match serde_json::from_str::<&RawValue>(&self.0) {
            Ok(raw) => raw.serialize(to),
            Err(error) => Err(serde::ser::Error::custom(error)),
        }
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(from)?;
        Self::new("json", raw.get().as_bytes(), PAYLOAD_BYTES_MAX).map_err(serde::de::Error::custom)
    }
}

/// Reads a field that may be left out: when it is there it is JSON, even when
/// that JSON is `null`. For `#[serde(default, deserialize_with = "…")]`.
pub fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Json>, D::Error> {
    Json::deserialize(from).map(Some)
}

struct Gate<'a> {
    text: &'a str,
    at: usize,
    /// Up to here, the text without its spaces is in `out`.
    kept: usize,
    out: String,
}

type Checked = Result<(), Cow<'static, str>>;

impl<'a> Gate<'a> {
    fn document(&mut self) -> Checked {
        self.value(0)?;
        self.space();
        match self.peek() {
            None => Ok(()),
            Some(_) => Err("has text after its end".into()),
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn space(&mut self) {
        let from = self.at;
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
        if self.at > from {
            self.out.push_str(&self.text[self.kept..from]);
            self.kept = self.at;
        }
    }

    /// The text without its spaces; mostly it has none.
    fn minified(self) -> Arc<str> {
        let Self { text, at: _, kept, mut out } = self;
        if kept == 0 {
            return Arc::from(text);
        }
        out.push_str(&text[kept..]);
        Arc::from(out)
    }

    fn value(&mut self, depth: usize) -> Checked {
        self.space();
        match self.peek() {
            Some(b'{') => self.object(depth + 1),
            Some(b'[') => self.array(depth + 1),
            Some(b'"') => self.string().map(drop),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word("true"),
            Some(b'f') => self.word("false"),
            Some(b'n') => self.word("null"),
            Some(_) => Err("is not JSON".into()),
            None => Err("ends too early".into()),
        }
    }

    fn word(&mut self, word: &'static str) -> Checked {
        if !self.text[self.at..].starts_with(word) {
            return Err("is not JSON".into());
        }
        self.at += word.len();
        Ok(())
    }

    fn object(&mut self, depth: usize) -> Checked {
        check_depth(depth)?;
        let mut keys: Vec<Cow<'a, str>> = Vec::new();
        self.at += 1;
        self.space();
        if self.peek() != Some(b'}') {
            loop {
                self.space();
                if self.peek() != Some(b'"') {
                    return Err("has an object without a key in quotes".into());
                }
                keys.push(self.string()?);
                self.space();
                if self.peek() != Some(b':') {
                    return Err("lacks a colon".into());
                }
                self.at += 1;
                self.value(depth)?;
                self.space();
                match self.peek() {
                    Some(b',') => self.at += 1,
                    Some(b'}') => break,
                    _ => return Err("has an object that is not closed".into()),
                }
            }
        }
        self.at += 1;
        keys.sort_unstable();
        if keys.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err("has an object with a duplicate key".into());
        }
        Ok(())
    }

    fn array(&mut self, depth: usize) -> Checked {
        check_depth(depth)?;
        self.at += 1;
        self.space();
        if self.peek() != Some(b']') {
            loop {
                self.value(depth)?;
                self.space();
                match self.peek() {
                    Some(b',') => self.at += 1,
                    Some(b']') => break,
                    _ => return Err("has an array that is not closed".into()),
                }
            }
        }
        self.at += 1;
        Ok(())
    }

    /// Takes a string and answers what it means, so that keys can be compared.
    fn string(&mut self) -> Result<Cow<'a, str>, Cow<'static, str>> {
        let start = self.at;
        let mut escaped = false;
        self.at += 1;
        loop {
            let plain = |byte: &u8| !matches!(byte, 0..=0x1f | b'"' | b'\\');
            self.at += self.text.as_bytes()[self.at..].iter().take_while(|byte| plain(byte)).count();
            match self.peek() {
                None => return Err("has a string that is not closed".into()),
                Some(b'"') => break,
                Some(b'\\') => {
                    escaped = true;
                    self.escape()?;
                }
                Some(_) => return Err("has a control character in a string".into()),
            }
        }
        self.at += 1;
        let raw = &self.text[start..self.at];
        if escaped {
            let meant: String =
                serde_json::from_str(raw).map_err(|_| Cow::from("has a string that is not JSON"))?;
            Ok(Cow::Owned(meant))
        } else {
            Ok(Cow::Borrowed(&raw[1..raw.len() - 1]))
        }
    }

    fn escape(&mut self) -> Checked {
        self.at += 1;
        match self.peek() {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 1,
            Some(b'u') => {
                let first = self.hex()?;
                match first {
                    0 => return Err("contains NUL".into()),
                    0xD800..=0xDBFF => {
                        if !self.text[self.at..].starts_with("\\u") {
                            return Err("has half of a surrogate pair".into());
                        }
                        self.at += 1;
                        if !matches!(self.hex()?, 0xDC00..=0xDFFF) {
                            return Err("has half of a surrogate pair".into());
                        }
                    }
                    0xDC00..=0xDFFF => return Err("has half of a surrogate pair".into()),
                    _ => {}
                }
            }
            _ => return Err("has an unknown escape in a string".into()),
        }
        Ok(())
    }

    /// At the `u` of `\uXXXX`: takes it and its four digits.
    fn hex(&mut self) -> Result<u32, Cow<'static, str>> {
        let digits = self.text.get(self.at + 1..self.at + 5);
        let digits = digits.filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()));
        let code = digits.and_then(|d| u32::from_str_radix(d, 16).ok());
        self.at += 5;
        code.ok_or_else(|| "has an unknown escape in a string".into())
    }

    fn number(&mut self) -> Checked {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.peek() {
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => self.digits()?,
            _ => return Err("has a number without digits".into()),
        }
        let (mut whole, mut exponent) = (true, false);
        if self.peek() == Some(b'.') {
            whole = false;
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            (whole, exponent) = (false, true);
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        let raw = &self.text[start..self.at];
        if whole {
            if raw.parse::<i64>().is_err() {
                return Err("has an integer that does not fit into 64 bits".into());
            }
        } else if (exponent || raw.len() > DIGITS_MAX) && !raw.parse::<f64>().is_ok_and(f64::is_finite) {
            return Err("has a number that is too large".into());
        }
        Ok(())
    }

    fn digits(&mut self) -> Checked {
        if !matches!(self.peek(), Some(b'0'..=b'9')) {
            return Err("has a number without digits".into());
        }
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        Ok(())
    }
}

fn check_depth(depth: usize) -> Checked {
    if depth > DEPTH_MAX {
        return Err(format!("is nested deeper than {DEPTH_MAX}").into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(text: &[u8], expected: Result<&str, &str>) {
        let found = Json::payload(text);
        match (&found, expected) {
            (Ok(json), Ok(kept)) => assert_eq!(json.as_str(), kept),
            (Err(error), Err(why)) => assert!(
                error.why.contains(why),
                "{:?}: {error}, expected {why}",
                String::from_utf8_lossy(text)
            ),
            _ => panic!("{:?}: {found:?}", String::from_utf8_lossy(text)),
        }
    }

    /// Fault 56: the same payloads for every store. Fault 58: depth and UTF-8.
    #[test]
    fn fault_56_58_the_gate() {
        let kept: [(&str, &str); 8] = [
            (" { \"b\" : 1 , \"a\" : [ ] } ", r#"{"b":1,"a":[]}"#),
            ("9223372036854775807", "9223372036854775807"),
            ("-9223372036854775808", "-9223372036854775808"),
            ("[0.10, 1e2, -0]", "[0.10,1e2,-0]"),
            (r#""\u00e9\ud83d\ude00""#, r#""\u00e9\ud83d\ude00""#),
            (r#"{"a":{"a":1},"b":{"a":1}}"#, r#"{"a":{"a":1},"b":{"a":1}}"#),
            ("null", "null"),
            (r#"{"":{}}"#, r#"{"":{}}"#),
        ];
        for (text, minified) in kept {
            check(text.as_bytes(), Ok(minified));
        }
        let refused: [(&[u8], &str); 17] = [
            (b"", "ends too early"),
            (b"{", "without a key"),
            (b"{\"a\":1,}", "without a key"),
            (b"[1,]", "is not JSON"),
            (b"nul", "is not JSON"),
            (b"1 2", "after its end"),
            (b"01", "after its end"),
            (b"9223372036854775808", "64 bits"),
            (b"123456789012345678901234567890", "64 bits"),
            (b"1e400", "too large"),
            (b"\"\\u0000\"", "NUL"),
            (b"\"a\0b\"", "control character"),
            (b"\"\\ud800\"", "surrogate"),
            (b"\"\\udc00\"", "surrogate"),
            (b"\"\\x\"", "escape"),
            (b"{\"a\":1,\"\\u0061\":2}", "duplicate key"),
            (b"\"\xff\"", "UTF-8"),
        ];
        for (text, why) in refused {
            check(text, Err(why));
        }
        check(format!("{}.5", "9".repeat(400)).as_bytes(), Err("too large"));
        let long = format!("{}.5", "9".repeat(200));
        check(long.as_bytes(), Ok(&long));
        let nested = |n: usize| [vec![b'['; n], vec![b']'; n]].concat();
        assert!(Json::payload(nested(DEPTH_MAX)).is_ok());
        check(&nested(DEPTH_MAX + 1), Err("nested deeper"));
        check(&nested(10_000), Err("nested deeper"));
        check(&vec![b' '; PAYLOAD_BYTES_MAX + 1], Err("at most 1048576"));
    }

    proptest! {
        /// Whatever passes means to serde_json what it meant before, and passes again unchanged.
        #[test]
        fn what_passes_is_json_and_stable(bytes in proptest::collection::vec(
            proptest::sample::select(br#"{}[]",:0123456789.eE+-\utrfalsn "#.to_vec()), 0..40)) {
            if let Ok(json) = Json::payload(&bytes) {
                let before: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
                prop_assert_eq!(json.read::<serde_json::Value>().unwrap(), before);
                prop_assert_eq!(Json::payload(json.as_str()).unwrap(), json);
            }
        }
    }
}
