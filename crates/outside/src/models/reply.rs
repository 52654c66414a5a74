//! What a model said.

use serde_json::Value;

use crate::text::cut;

/// How much of an answer is looked at.
const REPLY_BYTES_MAX: usize = 64 * 1024;

/// A model's answer: an object, or words. It is a stranger's text, for it was made from one.
#[derive(Clone, PartialEq)]
pub enum Reply {
    /// An object of JSON, whose form nobody has checked yet.
    Json(Value),
    /// Words.
    Words(String),
}

impl std::fmt::Debug for Reply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Json(_) => "Json(hidden)",
            Self::Words(_) => "Words(hidden)",
        })
    }
}

impl Reply {
    /// Reads an answer that is text: an object of JSON, also within a fence or a sentence around it, or words.
    pub fn of_text(text: &str) -> Self {
        let text = cut(text, REPLY_BYTES_MAX).trim();
        let object = |text: &str| serde_json::from_str::<Value>(text).ok().filter(Value::is_object);
        let within = || {
            let (begin, end) = (text.find('{')?, text.rfind('}')?);
            object(text.get(begin..=end)?)
        };
        match object(text).or_else(within) {
            Some(value) => Self::Json(value),
            None => Self::Words(text.to_owned()),
        }
    }

    /// Reads an answer that may be an object already.
    pub fn of_value(value: Value) -> Option<Self> {
        match value {
            Value::Object(_) => Some(Self::Json(value)),
            Value::String(text) => Some(Self::of_text(&text)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_and_words() {
        let object = Reply::Json(json!({"a": 1}));
        for text in ["{\"a\":1}", " ```json\n{\"a\": 1}\n``` ", "Here it is: {\"a\": 1}. Enjoy!"] {
            assert_eq!(Reply::of_text(text), object, "{text}");
        }
        for text in ["positive", "[1]", "\"positive\"", "} {", "{not json}", ""] {
            assert_eq!(Reply::of_text(text), Reply::Words(text.to_owned()), "{text}");
        }
        assert_eq!(Reply::of_value(json!({"a": 1})), Some(object));
        assert_eq!(Reply::of_value(json!(["a"])), None);
        let deep = "{\"a\":".repeat(100_000);
        assert!(matches!(Reply::of_text(&deep), Reply::Words(_)));
    }
}
