//! Where a job came from, as tracing systems say it: the `traceparent` of W3C
//! Trace Context, carried by the job's meta data from the enqueue to the attempt.
//!
//! It is the last member of the meta object, so that every store can tell a
//! job's own content from it by its text. It is no part of that content:
//! whoever repeats an enqueue does so in another span, and asks for the same job.

use std::borrow::Cow;
use std::fmt;

use crate::error::Invalid;
use crate::json::{Json, META_BYTES_MAX};

/// The member of the meta data that holds it.
pub const MEMBER: &str = "traceparent";

/// `00-<trace id>-<span id>-<flags>`, in small hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceParent([u8; LENGTH]);

const LENGTH: usize = 55;
/// What stands before it in the text of meta data, and behind it.
const OPENING: &str = "\"traceparent\":\"";
const CLOSING: &str = "\"}";

impl TraceParent {
    /// Reads the value of a `traceparent` header, of version 00.
    pub fn new(text: &str) -> Result<Self, Invalid> {
        let wrong = || Invalid::new(MEMBER, "is not 00-TRACE-SPAN-FLAGS in small hexadecimal digits");
        let bytes: [u8; LENGTH] = text.as_bytes().try_into().map_err(|_| wrong())?;
        let fits = |(at, byte): (usize, &u8)| match at {
            0 | 1 => *byte == b'0',
            2 | 35 | 52 => *byte == b'-',
            _ => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
        };
        let zero = |part: &[u8]| part.iter().all(|byte| *byte == b'0');
        if !bytes.iter().enumerate().all(fits) || zero(&bytes[3..35]) || zero(&bytes[36..52]) {
            return Err(wrong());
        }
        Ok(Self(bytes))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }

    /// The trace that it is part of: 32 digits.
    pub fn trace_id(&self) -> &str {
        &self.as_str()[3..35]
    }

    /// The span that enqueued: 16 digits.
    pub fn span_id(&self) -> &str {
        &self.as_str()[36..52]
    }

    /// Its flags: 2 digits.
    pub fn flags(&self) -> &str {
        &self.as_str()[53..]
    }

    /// The meta data with it. Meta data that is no object, that names a parent
    /// already, or that would become too large, stays as it is.
    pub fn put(&self, meta: Option<Json>) -> Option<Json> {
        let text = match meta.as_ref().map(Json::as_str) {
            None | Some("{}") => format!("{{{OPENING}{self}{CLOSING}"),
            Some(text) if !text.starts_with('{') || names_one(text) => return meta,
            Some(text) => format!("{},{OPENING}{self}{CLOSING}", &text[..text.len() - 1]),
        };
        if text.len() > META_BYTES_MAX { meta } else { Some(Json::trusted(text)) }
    }

    /// What meta data says of it.
    pub fn of(meta: Option<&Json>) -> Option<Self> {
        let text = meta?.as_str().strip_suffix(CLOSING)?;
        let (before, value) = text.split_at_checked(text.len().checked_sub(LENGTH)?)?;
        before.ends_with(OPENING).then(|| Self::new(value).ok())?
    }
}

/// Meta data without its trace parent: what of it is the job's own content. Of
/// an object with nothing else, nothing is left.
pub fn content(meta: Option<&Json>) -> Option<Cow<'_, str>> {
    let text = meta?.as_str();
    if TraceParent::of(meta).is_none() {
        return Some(Cow::Borrowed(text));
    }
    let own = &text[..text.len() - CLOSING.len() - LENGTH - OPENING.len()];
    Some(Cow::Owned(format!("{}}}", own.strip_suffix(',')?)))
}

/// Whether the object has the member, wherever it stands and whatever it is.
fn names_one(text: &str) -> bool {
    serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(text)
        .is_ok_and(|members| members.contains_key(MEMBER))
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    const OTHER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

    fn meta(text: &str) -> Option<Json> {
        Some(Json::new("meta", text.as_bytes(), META_BYTES_MAX).unwrap())
    }

    #[test]
    fn only_what_the_standard_allows() {
        assert_eq!(TraceParent::new(PARENT).unwrap().as_str(), PARENT);
        assert_eq!(TraceParent::new(PARENT).unwrap().trace_id(), "4bf92f3577b34da6a3ce929d0e0e4736");
        for wrong in [
            "",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\"",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-é",
        ] {
            assert!(TraceParent::new(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn it_is_put_behind_the_content_and_found_there() {
        let parent = TraceParent::new(PARENT).unwrap();
        for (own, rest) in [(None, None), (meta("{\"a\": 1.10}"), Some("{\"a\":1.10}")), (meta("{}"), None)] {
            let with = parent.put(own.clone());
            assert_eq!(TraceParent::of(with.as_ref()), Some(parent), "{own:?}");
            assert_eq!(content(with.as_ref()).as_deref(), rest);
            let text = with.as_ref().unwrap().as_str();
            assert_eq!(Json::new("meta", text.as_bytes(), META_BYTES_MAX).unwrap().as_str(), text);
            assert_eq!(TraceParent::new(OTHER).unwrap().put(with.clone()), with, "the first one stays");
        }
    }

    #[test]
    fn what_is_no_object_stays_as_it_is() {
        let parent = TraceParent::new(PARENT).unwrap();
        let large = format!("{{\"a\":\"{}\"}}", "x".repeat(META_BYTES_MAX - 20));
        for own in [meta("[1]"), meta("\"traceparent\""), meta("{\"traceparent\":7,\"b\":1}"), meta(&large)] {
            assert_eq!(parent.put(own.clone()), own);
            assert_eq!(TraceParent::of(own.as_ref()), None);
            assert_eq!(content(own.as_ref()).as_deref(), own.as_ref().map(Json::as_str));
        }
    }
}
