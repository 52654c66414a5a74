//! What a caller asks: path, query and body, read strictly.

use std::str::FromStr;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use serde::de::DeserializeOwned;
use serde_json::json;
use windlass_engine::core::error::Invalid;
use windlass_engine::core::id::JobId;
use windlass_engine::core::trace::{self, TraceParent};
use windlass_listen::BodyHold;

use crate::access::Caller;
use crate::answer::Refusal;
use crate::api::Api;
use crate::object::Object;

/// One call, after it was let in.
pub(crate) struct Ask {
    pub api: Arc<Api>,
    pub caller: Caller,
    pub path: Vec<(String, String)>,
    pub query: Option<String>,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// The memory that the body takes, for as long as it is worked on.
    pub _hold: BodyHold,
}

impl Ask {
    /// The body, strictly: UTF-8, known fields only, each once, nothing after its end.
    pub(crate) fn body<T: DeserializeOwned>(&self) -> Result<T, Refusal> {
        let text = std::str::from_utf8(&self.body).map_err(|_| Refusal::field("body", "is not UTF-8"))?;
        if text.trim().is_empty() {
            return Err(Refusal::field("body", "is empty; a JSON object is needed"));
        }
        let read: Result<Object<T>, _> = serde_json::from_str(text);
        read.map(|Object(body)| body).map_err(|_| refuse_body::<T>(text))
    }

    /// The id in the path: 36 characters, as the server writes them.
    pub(crate) fn id(&self) -> Result<JobId, Refusal> {
        let text = self.segment("id");
        if text.len() != 36 {
            return Err(Refusal::field("id", "is not a UUID"));
        }
        Ok(text.parse::<JobId>()?)
    }

    /// The span of the caller. One that cannot be read is as none: tracing never fails a call.
    pub(crate) fn traceparent(&self) -> Option<TraceParent> {
        self.headers.get(trace::MEMBER)?.to_str().ok().and_then(|text| TraceParent::new(text.trim()).ok())
    }

    /// A name in the path.
    pub(crate) fn name<T: FromStr<Err = Invalid>>(&self) -> Result<T, Refusal> {
        Ok(self.segment("name").parse()?)
    }

    /// A part of the path, as it was written there.
    pub(crate) fn segment(&self, name: &str) -> &str {
        self.path.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
    }

    /// The parameters of the query, each known and each but `repeats` at most once.
    pub(crate) fn query(
        &self,
        known: &[&'static str],
        repeats: &[&str],
    ) -> Result<Vec<(String, String)>, Refusal> {
        let mut found: Vec<(String, String)> = Vec::new();
        let pairs = self.query.as_deref().unwrap_or("").split('&').filter(|pair| !pair.is_empty());
        for pair in pairs {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (name, value) = (decoded(name)?, decoded(value)?);
            if !known.contains(&name.as_str()) {
                return Err(unknown(&name, known));
            }
            if !repeats.contains(&name.as_str()) && found.iter().any(|(other, _)| *other == name) {
                return Err(Refusal::field(&name, "is there twice"));
            }
            found.push((name, value));
        }
        Ok(found)
    }
}

fn unknown(name: &str, known: &[&str]) -> Refusal {
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    let message = format!("unknown field `{name}`; known are: {known}");
    Refusal::new(StatusCode::BAD_REQUEST, "unknown_field", message).details(json!({ "field": name }))
}

/// Reads `text` once more to find out where it goes wrong.
fn refuse_body<T: DeserializeOwned>(text: &str) -> Refusal {
    let mut reader = serde_json::Deserializer::from_str(text);
    let found: Result<Object<T>, _> = serde_path_to_error::deserialize(&mut reader);
    let Err(error) = found else {
        return Refusal::field("body", "has text after its end");
    };
    let path = error.path().to_string();
    let why = error.into_inner().to_string();
    let code = if why.starts_with("unknown field") { "unknown_field" } else { "invalid" };
    let named = why.split('`').nth(1).filter(|_| why.contains(" field `"));
    let field = match (named, path.as_str()) {
        (Some(name), "." | "?") => name.to_owned(),
        (Some(name), path) if !path.ends_with(name) => format!("{path}.{name}"),
        (_, "." | "?") => "body".to_owned(),
        (_, path) => path.to_owned(),
    };
    let message = format!("{field}: {why}");
    Refusal::new(StatusCode::BAD_REQUEST, code, message).details(json!({ "field": field }))
}

/// Percent and plus, as in a form.
pub(crate) fn decoded(text: &str) -> Result<String, Refusal> {
    let refuse = || Refusal::field("query", "has a part that is not percent-encoded UTF-8");
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [byte, tail @ ..] = rest {
        rest = tail;
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let digits = rest.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
                let digits = digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
                bytes.push(digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()).ok_or_else(refuse)?);
                rest = &rest[2..];
            }
            byte => bytes.push(*byte),
        }
    }
    String::from_utf8(bytes).map_err(|_| refuse())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_decoded_strictly() {
        for (text, expected) in [
            ("a+b%20c", Some("a b c")),
            ("gr%C3%B6%C3%9Fe", Some("größe")),
            ("%7B%22%24gt%22%3A%22%22%7D", Some(r#"{"$gt":""}"#)),
            ("%", None),
            ("%4", None),
            ("%zz", None),
            ("%+1", None),
            ("%ff", None),
        ] {
            assert_eq!(decoded(text).ok().as_deref(), expected, "{text}");
        }
    }
}
