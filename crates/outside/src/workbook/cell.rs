//! What a cell holds.

use std::borrow::Cow;
use std::sync::Arc;

/// The value of a cell; of a formula, the result that was stored with it.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// Text; of rich text, all of its runs. Shared, because a small file can
    /// use one long text a million times.
    Text(Arc<str>),
    /// A number.
    Number(f64),
    /// A date or a time of day, as ISO 8601 has it.
    Date(String),
    /// True or false.
    Bool(bool),
    /// A formula that failed, `#N/A`.
    Error(String),
    /// A formula whose result was not stored: the program that wrote it does not calculate.
    Unknown,
}

impl Cell {
    /// The value as text: whole numbers without a point, dates in ISO 8601,
    /// what has no value as nothing (see [`Cell::trouble`]).
    pub fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Text(text) => Cow::Borrowed(text.trim()),
            Self::Number(number) => Cow::Owned(number.to_string()),
            Self::Date(text) => Cow::Borrowed(text),
            Self::Bool(true) => Cow::Borrowed("true"),
            Self::Bool(false) => Cow::Borrowed("false"),
            Self::Error(_) | Self::Unknown => Cow::Borrowed(""),
        }
    }

    /// Why the cell has no value although something is in it, if that is so.
    pub fn trouble(&self) -> Option<&'static str> {
        match self {
            Self::Error(_) => Some("formula_error"),
            Self::Unknown => Some("formula_without_value"),
            Self::Text(_) | Self::Number(_) | Self::Date(_) | Self::Bool(_) => None,
        }
    }
}

/// The column of a cell's name, from 0: 1 of `B7`; and its row, from 1.
pub(super) fn position(name: &str) -> Option<(u32, u32)> {
    let letters = name.find(|letter: char| !letter.is_ascii_alphabetic())?;
    let (column, row) = name.split_at(letters);
    if column.is_empty() || column.len() > 3 || !row.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number =
        column.bytes().fold(0, |sum, byte| sum * 26 + u32::from(byte.to_ascii_uppercase() - b'A') + 1);
    Some((number - 1, row.parse().ok().filter(|row| *row > 0)?))
}

/// A number of days as Excel counts them, as a date.
pub(super) fn date(serial: f64, since_1904: bool) -> Option<String> {
    if !(0.0..2_958_466.0).contains(&serial) {
        return None;
    }
    let (days, ms) = (serial.floor() as i64, (serial.fract() * 86_400_000.0).round() as i64);
    let first = match since_1904 {
        true => jiff::civil::date(1904, 1, 1),
        // Excel believes that 1900 had a 29th of February.
        false if days < 60 => jiff::civil::date(1899, 12, 31),
        false => jiff::civil::date(1899, 12, 30),
    };
    let span = jiff::Span::new().days(days).milliseconds(ms);
    let moment = first.to_datetime(jiff::civil::Time::midnight()).checked_add(span).ok()?;
    Some(format!("{moment:.3}Z"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions() {
        for (name, expected) in [
            ("A1", Some((0, 1))),
            ("B7", Some((1, 7))),
            ("AA10", Some((26, 10))),
            ("XFD1048576", Some((16_383, 1_048_576))),
            ("a1", Some((0, 1))),
            ("A0", None),
            ("A", None),
            ("1", None),
            ("", None),
            ("ABCD1", None),
            ("A-1", None),
            ("A99999999999", None),
        ] {
            assert_eq!(position(name), expected, "{name}");
        }
    }

    #[test]
    fn dates() {
        for (serial, since_1904, expected) in [
            (45_658.0, false, Some("2025-01-01T00:00:00.000Z")),
            (45_658.5, false, Some("2025-01-01T12:00:00.000Z")),
            (1.0, false, Some("1900-01-01T00:00:00.000Z")),
            (61.0, false, Some("1900-03-01T00:00:00.000Z")),
            (0.0, true, Some("1904-01-01T00:00:00.000Z")),
            (-1.0, false, None),
            (3e6, false, None),
            (f64::NAN, false, None),
        ] {
            assert_eq!(date(serial, since_1904).as_deref(), expected, "{serial}");
        }
    }

    #[test]
    fn numbers_as_text() {
        for (number, expected) in [(7.0, "7"), (7.5, "7.5"), (-0.25, "-0.25"), (1e15, "1000000000000000")] {
            assert_eq!(Cell::Number(number).text(), expected);
        }
    }
}
