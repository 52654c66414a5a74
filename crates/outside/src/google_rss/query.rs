//! A search in Google's own language.

/// How far back a search looks when nothing is said.
pub const DAYS_DEFAULT: u32 = 180;

/// What to search for. Each cell is a list with commas; a comma within quotes
/// separates too.
#[derive(Debug, Clone, Copy, Default)]
pub struct Cells<'a> {
    /// Words that must all be there.
    pub and_keywords: &'a str,
    /// Phrases that must all be there.
    pub and_exact_phrases: &'a str,
    /// Words of which one must be there.
    pub or_keywords: &'a str,
    /// Phrases of which one must be there.
    pub or_exact_phrases: &'a str,
    /// How far back: digits and `d`.
    pub time_range: &'a str,
}

/// A search that is ready to be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// The text for Google.
    pub text: String,
    /// The terms that must all be there, as they were given, joined by comma and space.
    pub and: Option<String>,
    /// The terms of which one must be there, likewise.
    pub or: Option<String>,
    /// How far back it looks.
    pub days: u32,
    /// A range was given, but not one that can be used.
    pub bad_range: bool,
}

impl Query {
    /// Builds the search. Without a single term there is none: it would ask
    /// for everything there is.
    pub fn build(cells: Cells<'_>) -> Option<Self> {
        let Cells { and_keywords, and_exact_phrases, or_keywords, or_exact_phrases, time_range } = cells;
        let and: Vec<&str> = terms(and_keywords).chain(terms(and_exact_phrases)).collect();
        let or: Vec<&str> = terms(or_keywords).chain(terms(or_exact_phrases)).collect();
        if and.is_empty() && or.is_empty() {
            return None;
        }
        let mut parts: Vec<String> = and.iter().map(|term| quote(term)).collect();
        let any = or.iter().map(|term| quote(term)).collect::<Vec<_>>().join(" OR ");
        match or.len() {
            0 => {}
            1 => parts.push(any),
            _ if and.is_empty() => parts.push(any),
            _ => parts.push(format!("({any})")),
        }
        let days = range(time_range);
        let bad_range = days.is_none() && !time_range.trim().is_empty();
        let days = days.unwrap_or(DAYS_DEFAULT);
        parts.push(format!("when:{days}d"));
        Some(Self { text: parts.join(" "), and: listed(&and), or: listed(&or), days, bad_range })
    }
}

fn terms(cell: &str) -> impl Iterator<Item = &str> {
    cell.split(',').map(str::trim).filter(|term| !term.is_empty())
}

fn listed(terms: &[&str]) -> Option<String> {
    (!terms.is_empty()).then(|| terms.join(", "))
}

/// A term with a space in it is quoted, unless it has its quotes already.
fn quote(term: &str) -> String {
    let quoted = |mark: char| term.len() > 1 && term.starts_with(mark) && term.ends_with(mark);
    if quoted('"') || quoted('\'') || !term.contains(' ') { term.to_owned() } else { format!("\"{term}\"") }
}

fn range(text: &str) -> Option<u32> {
    let digits = text.trim().strip_suffix('d')?;
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|days| plain && *days > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(cells: Cells<'_>, expected: &str) -> Query {
        let query = Query::build(cells).unwrap();
        assert_eq!(query.text, expected);
        query
    }

    #[test]
    fn terms_become_a_query() {
        let cells = Cells { and_keywords: "fire, recall", ..Cells::default() };
        check(cells, "fire recall when:180d");
        check(Cells { or_keywords: "a, b c", ..cells }, "fire recall (a OR \"b c\") when:180d");
        check(Cells { or_keywords: "a", ..cells }, "fire recall a when:180d");
        check(Cells { or_keywords: "a,b", ..Cells::default() }, "a OR b when:180d");
        let exact =
            Cells { and_exact_phrases: "burn injury,single,'kept as is',\"so too\"", ..Cells::default() };
        check(exact, "\"burn injury\" single 'kept as is' \"so too\" when:180d");
        let both = Cells { or_exact_phrases: " x y , ,", time_range: " 7d ", ..cells };
        let query = check(both, "fire recall \"x y\" when:7d");
        assert_eq!((query.and.as_deref(), query.or.as_deref()), (Some("fire, recall"), Some("x y")));
    }

    #[test]
    fn ranges() {
        for (range, days, bad) in [
            ("", 180, false),
            ("1d", 1, false),
            ("30d", 30, false),
            ("0d", 180, true),
            ("1w", 180, true),
            ("+3d", 180, true),
            ("d", 180, true),
            ("99999999999d", 180, true),
        ] {
            let query =
                Query::build(Cells { and_keywords: "x", time_range: range, ..Cells::default() }).unwrap();
            assert_eq!((query.days, query.bad_range), (days, bad), "{range:?}");
        }
    }

    #[test]
    fn without_terms_there_is_no_query() {
        assert_eq!(Query::build(Cells { and_keywords: " , ", time_range: "7d", ..Cells::default() }), None);
    }
}
