//! Where in the history of a cluster something is: a resume token.

use std::cmp::Ordering;
use std::fmt;

use mongodb::bson::{Bson, Document, Timestamp, doc};
use mongodb::change_stream::event::ResumeToken;

/// A position in the history, as the server writes it: hexadecimal digits that sort as the history does.
///
/// A token of an event sorts behind the high-water mark of the same moment, so that "everything up to here" can be
/// compared between streams of different scope.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Token(String);

/// The byte before the cluster time: the type of a timestamp in a key string.
const TIMESTAMP_MARK: &str = "82";
/// A high-water mark: version 1, and the type of a mark that is no event.
const MARK_TAIL: &str = "2B0229296E04";

impl Token {
    pub(crate) fn of_text(text: &str) -> Option<Self> {
        let is_hex = text.len() >= 18 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        (is_hex && text.starts_with(TIMESTAMP_MARK)).then(|| Self(text.to_ascii_uppercase()))
    }

    /// The token of an event's `_id`.
    pub(crate) fn of_id(id: &Document) -> Option<Self> {
        Self::of_text(id.get_str("_data").ok()?)
    }

    /// What the driver keeps.
    pub(crate) fn of_driver(token: &ResumeToken) -> Option<Self> {
        let document = mongodb::bson::serialize_to_document(token).ok()?;
        Self::of_id(&document)
    }

    /// For the driver.
    pub(crate) fn for_driver(&self) -> Option<ResumeToken> {
        mongodb::bson::deserialize_from_bson(Bson::Document(doc! { "_data": &self.0 })).ok()
    }

    /// The high-water mark of a moment: everything before it is behind us.
    pub(crate) fn before(time: Timestamp) -> Self {
        Self(format!("{TIMESTAMP_MARK}{:08X}{:08X}{MARK_TAIL}", time.time, time.increment))
    }

    pub(crate) fn text(&self) -> &str {
        &self.0
    }

    /// The cluster time that the token begins with.
    pub(crate) fn cluster_time(&self) -> Timestamp {
        let number = |from: usize| u32::from_str_radix(&self.0[from..from + 8], 16).unwrap_or(0);
        Timestamp { time: number(2), increment: number(10) }
    }
}

impl Ord for Token {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.cmp(&other.0)
    }
}

impl PartialOrd for Token {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_knows_its_moment_and_its_order() {
        let event = Token::of_text("8264A1B2C3000000072B042C0100296E5A1004").unwrap();
        assert_eq!(event.cluster_time(), Timestamp { time: 0x64A1_B2C3, increment: 7 });
        let mark = Token::before(event.cluster_time());
        assert_eq!(mark.cluster_time(), event.cluster_time());
        assert!(mark < event, "an event is behind the mark of its own moment");
        assert!(event < Token::before(Timestamp { time: 0x64A1_B2C3, increment: 8 }));
        assert!(mark.for_driver().is_some());
        assert_eq!(Token::of_text("nonsense"), None);
        assert_eq!(Token::of_text("82"), None);
    }
}
