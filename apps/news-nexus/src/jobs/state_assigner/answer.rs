//! What a model answers, read with patience.

use serde_json::{Map, Value};

/// How much of a reasoning is kept.
const REASONING_CHARS_MAX: usize = 10_000;

/// What a model says of an article.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Said {
    pub in_the_us: bool,
    pub reasoning: String,
    /// The state as it was written; nothing when none was named.
    pub state: Option<String>,
}

/// Reads an answer. Models put fences around JSON and words before and after it.
pub(super) fn read(text: &str) -> Result<Said, &'static str> {
    let fields = object(text).ok_or("the answer has no JSON object")?;
    // The misspelling is part of the contract.
    let in_the_us = fields.get("occuredInTheUS").and_then(Value::as_bool);
    let in_the_us = in_the_us.ok_or("occuredInTheUS is not true or false")?;
    let reasoning = fields.get("reasoning").and_then(Value::as_str).map(str::trim).unwrap_or_default();
    if reasoning.is_empty() {
        return Err("reasoning is not a text");
    }
    let state = fields.get("state").and_then(Value::as_str).map(str::trim).filter(|state| !state.is_empty());
    let reasoning = reasoning.chars().take(REASONING_CHARS_MAX).collect();
    Ok(Said { in_the_us, reasoning, state: state.filter(|_| in_the_us).map(str::to_owned) })
}

fn object(text: &str) -> Option<Map<String, Value>> {
    let whole = serde_json::from_str(text.trim()).ok();
    whole.or_else(|| {
        let (from, to) = (text.find('{')?, text.rfind('}')?);
        serde_json::from_str(text.get(from..=to)?).ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_in_every_wrapping() {
        let json = r#"{"occuredInTheUS": true, "reasoning": " In {Austin}. ", "state": " Texas "}"#;
        let expected =
            Said { in_the_us: true, reasoning: "In {Austin}.".into(), state: Some("Texas".into()) };
        for text in [
            json.to_owned(),
            format!("```json\n{json}\n```"),
            format!("Here you are:\n{json}\nI hope this helps!"),
            format!("\u{feff}  {json}\n"),
        ] {
            assert_eq!(read(&text), Ok(expected.clone()), "{text}");
        }
        let elsewhere = read(r#"{"occuredInTheUS": false, "reasoning": "Paris", "state": "Texas"}"#).unwrap();
        assert_eq!((elsewhere.in_the_us, elsewhere.state), (false, None));
        let odd = read(r#"{"occuredInTheUS": true, "reasoning": "x", "state": 7}"#).unwrap();
        assert_eq!(odd.state, None);
    }

    #[test]
    fn what_is_no_answer() {
        for text in [
            "",
            "Texas",
            "{",
            "}{",
            "[]",
            "{\"a\": 1} and {\"b\": 2}",
            r#"{"occurredInTheUS": true, "reasoning": "x"}"#,
            r#"{"occuredInTheUS": "true", "reasoning": "x"}"#,
            r#"{"occuredInTheUS": true, "reasoning": " "}"#,
            r#"{"occuredInTheUS": true, "reasoning": 7}"#,
        ] {
            assert!(read(text).is_err(), "{text}");
        }
        let deep = "[".repeat(200_000);
        assert!(read(&format!("{{\"a\": {deep}}}")).is_err());
    }
}
