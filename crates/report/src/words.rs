//! Numbers and ids among words, the same wherever people read them.

use windlass_engine::core::id::JobId;

/// How many digits of an id are shown.
const ID_DIGITS: usize = 8;

/// The end of an id: its beginning only says when it was made. It names the job wherever one is asked for on the command line;
/// links and programs have the whole of it.
pub fn short_id(id: JobId) -> String {
    let text = id.to_string();
    text[text.len() - ID_DIGITS..].to_owned()
}

/// A number with commas between its thousands.
pub fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// So many of a thing whose plural ends in `s`: `1 job`, `8,040 jobs`.
pub fn counted(count: u64, thing: &str) -> String {
    format!("{} {thing}{}", number(count), if count == 1 { "" } else { "s" })
}

/// The one word for one of them, the other for any other number: `1 job waits`, `2 jobs wait`.
pub fn agreeing(count: u64, one: &'static str, more: &'static str) -> &'static str {
    if count == 1 { one } else { more }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_an_id_the_end_is_shown() {
        assert_eq!(short_id("0198c0de-0000-7000-8000-0123456789ab".parse().unwrap()), "456789ab");
    }

    #[test]
    fn thousands_are_apart() {
        let said = [0, 999, 1_000, 1_234_567].map(number);
        assert_eq!(said, ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn one_is_no_plural() {
        let said = [0, 1, 2, 8_040, 1_234_567].map(|count| counted(count, "failed attempt"));
        let expected = ["0 failed attempts", "1 failed attempt", "2 failed attempts"];
        assert_eq!(said[..3], expected);
        assert_eq!(said[3..], ["8,040 failed attempts", "1,234,567 failed attempts"]);
        assert_eq!([0, 1, 2].map(|count| agreeing(count, "waits", "wait")), ["wait", "waits", "wait"]);
    }
}
