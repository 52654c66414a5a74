//! Cutting text.

/// The beginning of a text, at most `bytes_max` bytes, ending between two letters.
pub(crate) fn cut(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

/// A word of somebody else's that is fit to be shown: an error code, a
/// request id. Anything else could be a sentence with a patient's name in it.
pub(crate) fn identifier(text: &str) -> Option<&str> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    (!text.is_empty() && text.len() <= 64 && text.bytes().all(fits)).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_ends_between_letters() {
        assert_eq!(cut("grün", 3), "gr");
        assert_eq!(cut("grün", 4), "grü");
        assert_eq!(cut("grün", 99), "grün");
    }

    /// Fault 65: nothing of another's text reaches a log line unless it is a plain word.
    #[test]
    fn fault_65_identifiers_are_plain_words() {
        assert_eq!(identifier("insufficient_quota"), Some("insufficient_quota"));
        for text in ["", "two words", "a\nb", "\u{1b}[31m", "ä", &"x".repeat(65)] {
            assert_eq!(identifier(text), None, "{text:?}");
        }
    }
}
