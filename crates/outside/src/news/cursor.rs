//! Where the next page is.

use serde::{Deserialize, Serialize};

/// Longer than any that was seen; a longer one is refused and not cut, for it would lead elsewhere.
const CURSOR_BYTES_MAX: usize = 2048;

/// A provider's word for the next page. It can be kept and used later. It is never an address: whatever the
/// provider said, the next call goes to the configured base.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Cursor(String);

impl Cursor {
    pub(super) fn new(text: impl Into<String>) -> Option<Self> {
        let text = text.into();
        let fits = !text.is_empty() && text.len() <= CURSOR_BYTES_MAX && !text.chars().any(char::is_control);
        fits.then_some(Self(text))
    }

    /// The cursor as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<Cursor> for String {
    fn from(cursor: Cursor) -> Self {
        cursor.0
    }
}

impl TryFrom<String> for Cursor {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::new(text).ok_or("a cursor is 1 to 2048 bytes without control characters")
    }
}
