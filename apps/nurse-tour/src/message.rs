//! A voice message, as its row says it.

use serde::{Deserialize, Deserializer};
use windlass_engine::Context;
use windlass_engine::core::time::Time;
use windlass_outside::secret::Phi;

use crate::trouble::Trouble;

/// A voice message.
#[derive(Debug, Clone)]
pub(crate) struct Message {
    /// Twilio's id of it.
    pub(crate) sid: String,
    /// Where its audio is.
    pub(crate) media_url: Phi<Option<String>>,
    /// Its agency, as far as that is known.
    pub(crate) agency: Option<String>,
    /// When it arrived; when it was claimed if the row does not say.
    pub(crate) received_at: Time,
    /// When it was claimed, by the database's clock.
    pub(crate) claimed_at: Time,
}

#[derive(Deserialize)]
struct Row {
    message_sid: String,
    media_url: Option<String>,
    #[serde(default, deserialize_with = "id")]
    agency_id: Option<String>,
    received_at: Option<String>,
}

/// An id that a table keeps as text or as a number.
pub(crate) fn id<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    match Option::<serde_json::Value>::deserialize(from)? {
        None | Some(serde_json::Value::Null) => Ok(None),
        Some(serde_json::Value::String(text)) => Ok(Some(text)),
        Some(serde_json::Value::Number(number)) => Ok(Some(number.to_string())),
        Some(_) => Err(serde::de::Error::custom("an id is text or a number")),
    }
}

impl Message {
    pub(crate) fn read(context: &Context) -> Result<Self, Trouble> {
        let row: Row = context.payload().read().map_err(|_| Trouble::permanent("unreadable_row"))?;
        let claimed_at = context.job().started_at.unwrap_or(Time::MIN);
        if !is_plain(&row.message_sid) {
            return Err(Trouble::permanent("bad_message_sid"));
        }
        Ok(Self {
            sid: row.message_sid,
            media_url: Phi::new(row.media_url.filter(|url| !url.trim().is_empty())),
            agency: known(row.agency_id),
            received_at: row.received_at.and_then(|text| moment(&text)).unwrap_or(claimed_at),
            claimed_at,
        })
    }

    /// The day on which it arrived, in UTC: `2026-01-31`.
    pub(crate) fn day(&self) -> String {
        self.received_at.to_string().chars().take(10).collect()
    }
}

/// An agency that is really one.
pub(crate) fn known(agency: Option<String>) -> Option<String> {
    agency.filter(|agency| !agency.trim().is_empty() && agency != "unknown")
}

/// What may be part of an object's name and of a log line.
pub(crate) fn is_plain(id: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    !id.is_empty() && id.len() <= 100 && id.bytes().all(fits)
}

/// A moment in the forms that programs write: RFC 3339, or Postgres' own.
fn moment(text: &str) -> Option<Time> {
    let text = text.trim().replacen(' ', "T", 1);
    let spelled = [text.clone(), format!("{text}Z"), format!("{text}:00")];
    spelled.iter().find_map(|text| text.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_of_many_programs() {
        for text in [
            "2026-01-19T10:30:00.000Z",
            "2026-01-19 10:30:00+00",
            "2026-01-19 10:30:00",
            "2026-01-19T11:30:00+01:00",
        ] {
            let found = moment(text).map(|time| time.to_string());
            assert_eq!(found.as_deref(), Some("2026-01-19T10:30:00.000Z"), "{text}");
        }
        assert_eq!(moment("soon"), None);
    }
}
