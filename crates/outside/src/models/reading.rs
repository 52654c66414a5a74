//! What answers mean: a sentiment, and a summary. An object is taken at its word; plain words are searched for
//! the ones that were asked for.

use serde_json::Value;

use super::error::ModelError;
use super::reply::Reply;
use crate::news::Sentiment;

/// The longest summary that is kept, in characters.
pub const SUMMARY_CHARS_MAX: usize = 4000;
/// A text of so few characters is no summary of anything.
const SUMMARY_CHARS_MIN: usize = 21;
const MARKER: &str = "summary:";
const MISMATCHES: [&str; 2] = ["content_mismatch", "error:"];
/// How models begin who were not asked to.
const OPENINGS: [&str; 6] = [
    "the content matches",
    "the page text matches",
    "yes, the content",
    "here is a summary",
    "here is the summary",
    "here's a summary",
];

/// What a summary came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Summary {
    /// A summary, at most [`SUMMARY_CHARS_MAX`] characters.
    Text(String),
    /// The page is not about its headline: a paywall, an error, another article.
    Mismatch,
}

/// The sentiment that an answer states; nothing when it states none of the three.
pub fn sentiment(reply: &Reply) -> Option<Sentiment> {
    let text = match reply {
        Reply::Json(value) => value["sentiment"].as_str()?,
        Reply::Words(words) => words,
    };
    let text = text.to_lowercase();
    let all = [Sentiment::Positive, Sentiment::Negative, Sentiment::Neutral];
    all.into_iter().find(|sentiment| text.contains(sentiment.as_str()))
}

/// The summary that an answer gives.
pub fn summary(reply: &Reply) -> Result<Summary, ModelError> {
    let text = match reply {
        Reply::Json(value) => match (&value["matches"], &value["summary"]) {
            (Value::Bool(false), _) => return Ok(Summary::Mismatch),
            (Value::Bool(true), Value::String(text)) => text.as_str(),
            _ => return Err(ModelError::Unreadable("it has not the members that were asked for")),
        },
        Reply::Words(words) if words.is_empty() => return Err(ModelError::Unreadable("it is empty")),
        Reply::Words(words) if is_broken_object(words) => {
            return Err(ModelError::Unreadable("it is an object that is cut off or broken"));
        }
        Reply::Words(words) => match worded(words) {
            Some(text) => text,
            None => return Ok(Summary::Mismatch),
        },
    };
    let text: String = text.trim().chars().filter(|letter| *letter == '\n' || !letter.is_control()).collect();
    let text: String = text.chars().take(SUMMARY_CHARS_MAX).collect();
    let text = text.trim();
    if text.chars().count() < SUMMARY_CHARS_MIN {
        return Ok(Summary::Mismatch);
    }
    Ok(Summary::Text(text.to_owned()))
}

/// Whether words were meant as the object that was asked for: cut off by a limit, or written wrongly. What it
/// would have said is not known, and nobody reads it as a summary.
fn is_broken_object(words: &str) -> bool {
    let inner = words.trim_start().trim_start_matches('`').trim_start_matches("json").trim_start();
    inner.starts_with('{') || words.contains("\"matches\"")
}

/// What follows the marker; without one, what follows an opening. Nothing when the model says that the page is
/// about something else: before the marker, that is, for a summary may quote those words.
fn worded(words: &str) -> Option<&str> {
    // ASCII only, so that a place in one is the same place in the other.
    let lower = words.to_ascii_lowercase();
    let marker = lower.find(MARKER);
    let before = &lower[..marker.unwrap_or(lower.len())];
    if MISMATCHES.iter().any(|word| before.contains(word)) {
        return None;
    }
    match marker {
        Some(at) => Some(&words[at + MARKER.len()..]),
        None => Some(without_opening(words)),
    }
}

/// The text without a first line or sentence that only says what comes.
fn without_opening(words: &str) -> &str {
    let mut rest = words.trim_start();
    // Two at most: "The content matches the title. Here is a summary: …"
    for _ in 0..2 {
        let lower = rest.to_ascii_lowercase();
        if !OPENINGS.iter().any(|opening| lower.starts_with(opening)) {
            break;
        }
        let end = rest.find([':', '\n']).into_iter().chain(rest.find(". ")).min();
        let Some(end) = end else { break };
        rest = rest[end + 1..].trim_start();
    }
    rest
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn sentiments() {
        use Sentiment::{Negative, Neutral, Positive};
        for (reply, expected) in [
            (Reply::Json(json!({"sentiment": "positive"})), Some(Positive)),
            (Reply::Json(json!({"sentiment": "NEUTRAL"})), Some(Neutral)),
            (Reply::Json(json!({"sentiment": "bullish"})), None),
            (Reply::Json(json!({"mood": "positive"})), None),
            (Reply::Words("Positive.".to_owned()), Some(Positive)),
            (Reply::Words("I would call this Negative, on the whole.".to_owned()), Some(Negative)),
            (Reply::Words("neutral, neither positive nor negative".to_owned()), Some(Positive)),
            (Reply::Words("I cannot say.".to_owned()), None),
            (Reply::Words(String::new()), None),
        ] {
            assert_eq!(sentiment(&reply), expected, "{reply:?}");
        }
    }

    #[test]
    fn summaries() {
        const LONG: &str = "Bitcoin rose by four percent after the report.";
        let text = Ok(Summary::Text(LONG.to_owned()));
        for broken in [
            "{\"matches\": false, \"summary\": \"The page is a paywall and not the article that was prom",
            "```json\n{\"matches\": true, \"summary\": \"Bitcoin rose by a tenth in one day\",}\n```",
            "Here it is: {\"matches\": true, \"summary\": \"Bitcoin rose by a tenth",
        ] {
            assert!(summary(&Reply::of_text(broken)).is_err(), "{broken}");
        }
        let words = |text: String| summary(&Reply::Words(text));
        assert_eq!(summary(&Reply::Json(json!({"matches": true, "summary": LONG}))), text);
        assert_eq!(words(format!("SUMMARY: {LONG}")), text);
        assert_eq!(words(format!("The content matches the title.\n\nSummary:\n{LONG}")), text);
        assert_eq!(words(LONG.to_owned()), text);
        assert_eq!(words(format!("Here is a summary of the article:\n{LONG}")), text);
        assert_eq!(words(format!("The content matches the title. Here's a summary: {LONG}")), text);
        let quoting = format!("{LONG} The screen said ERROR: try later.");
        assert_eq!(words(format!("SUMMARY: {quoting}")), Ok(Summary::Text(quoting)));
        for mismatch in [
            Reply::Json(json!({"matches": false, "summary": LONG})),
            Reply::Json(json!({"matches": true, "summary": "short"})),
            Reply::Words("ERROR: CONTENT_MISMATCH".to_owned()),
            Reply::Words(format!("content_mismatch. SUMMARY: {LONG}")),
            Reply::Words("SUMMARY: short".to_owned()),
        ] {
            assert_eq!(summary(&mismatch), Ok(Summary::Mismatch), "{mismatch:?}");
        }
        for unreadable in [
            Reply::Json(json!({"summary": LONG})),
            Reply::Json(json!({"matches": "yes", "summary": LONG})),
            Reply::Json(json!({"matches": true})),
            Reply::Words(String::new()),
        ] {
            assert!(summary(&unreadable).is_err(), "{unreadable:?}");
        }
        let Ok(Summary::Text(cut)) = words("ü".repeat(10_000)) else { panic!() };
        assert_eq!(cut.chars().count(), SUMMARY_CHARS_MAX);
        assert_eq!(words("İ SUMMARY: ".to_owned() + LONG), text, "letters whose lower case is longer");
    }
}
