//! Intervals as people write them: `5 minutes`, `one hour and 30 minutes`, `2.5 days`.
//!
//! Mirrors the package `human-interval`, which every version of Agenda reads them with.

const UNITS: [(&str, f64); 7] = [
    ("second", 1e3),
    ("minute", 6e4),
    ("hour", 3.6e6),
    ("day", 8.64e7),
    ("week", 6.048e8),
    ("month", 2.592e9),
    ("year", 3.1536e10),
];

const WORDS: [(&str, f64); 28] = [
    ("zero", 0.0),
    ("one", 1.0),
    ("two", 2.0),
    ("three", 3.0),
    ("four", 4.0),
    ("five", 5.0),
    ("six", 6.0),
    ("seven", 7.0),
    ("eight", 8.0),
    ("nine", 9.0),
    ("ten", 10.0),
    ("eleven", 11.0),
    ("twelve", 12.0),
    ("thirteen", 13.0),
    ("fourteen", 14.0),
    ("fifteen", 15.0),
    ("sixteen", 16.0),
    ("seventeen", 17.0),
    ("eighteen", 18.0),
    ("nineteen", 19.0),
    ("twenty", 20.0),
    ("thirty", 30.0),
    ("forty", 40.0),
    ("fifty", 50.0),
    ("sixty", 60.0),
    ("seventy", 70.0),
    ("eighty", 80.0),
    ("ninety", 90.0),
];

/// How many milliseconds an interval has; nothing when it is none.
pub(crate) fn interval_ms(text: &str) -> Option<i64> {
    let text = cleaned(text);
    let (mut rest, mut total) = (text.as_str(), None);
    while let Some((at, word, unit_ms)) = first_unit(rest) {
        total = Some(total.unwrap_or(0.0) + number(rest[..at].trim())? * unit_ms);
        rest = &rest[at + word.len()..];
        rest = rest.strip_prefix('s').unwrap_or(rest);
    }
    total.filter(|ms: &f64| ms.is_finite() && *ms > 0.0 && *ms < 1e15).map(|ms| ms.round() as i64)
}

/// Whatever is no word and no number becomes a space, and so does "and".
fn cleaned(text: &str) -> String {
    let kept = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '.' || c == '-';
    text.replace("and", " ").chars().map(|c| if kept(c) { c } else { ' ' }).collect()
}

fn first_unit(text: &str) -> Option<(usize, &'static str, f64)> {
    let found = UNITS.iter().filter_map(|(word, ms)| text.find(word).map(|at| (at, *word, *ms)));
    found.min_by_key(|(at, ..)| *at)
}

fn number(text: &str) -> Option<f64> {
    if text.is_empty() {
        return Some(1.0);
    }
    let digits = |c: char| c.is_ascii_digit() || c == '.' || c == '-';
    let end = text.find(|c| !digits(c)).unwrap_or(text.len());
    text[..end].parse().ok().or_else(|| in_words(text))
}

/// "twenty five", "two hundred", "one thousand two hundred".
fn in_words(text: &str) -> Option<f64> {
    let (mut total, mut current) = (0.0, 0.0);
    for word in text.split([' ', '-']).filter(|word| !word.is_empty()) {
        match word {
            "hundred" => current = f64::max(current, 1.0) * 100.0,
            "thousand" => {
                total += f64::max(current, 1.0) * 1000.0;
                current = 0.0;
            }
            _ => current += WORDS.iter().find(|(known, _)| *known == word)?.1,
        }
    }
    Some(total + current)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `human-interval` 2.0.1 answers; `tests/agenda/intervals.js` asks it for the same.
    #[test]
    fn intervals_are_read_as_node_reads_them() {
        for (text, expected) in [
            ("5 minutes", Some(300_000)),
            ("3 hours", Some(10_800_000)),
            ("one day", Some(86_400_000)),
            ("2.5 days", Some(216_000_000)),
            ("minute", Some(60_000)),
            ("an hour", None),
            ("1 hour and 30 minutes", Some(5_400_000)),
            ("1 hour, 30 seconds", Some(3_630_000)),
            ("twenty five seconds", Some(25_000)),
            ("two hundred seconds", Some(200_000)),
            ("3 weeks", Some(1_814_400_000)),
            ("1 month", Some(2_592_000_000)),
            ("1 year", Some(31_536_000_000)),
            ("* * * * *", None),
            ("soon", None),
            ("", None),
        ] {
            assert_eq!(interval_ms(text), expected, "{text:?}");
        }
    }
}
