//! What an error says, without what only tells one job from another.

/// The longest text of a group.
const CHARS_MAX: usize = 200;
/// A word of hexadecimal digits is an id from this length on.
const HEX_MIN: usize = 8;

/// The first line, with `#` for each number and id, `…` for what stands in quotes, and addresses cut behind their
/// host: so that "row 17" and "row 18" are one, and so are "\"a.png\" is no image" and "\"b.png\" is no image".
pub fn folded(error: &str) -> String {
    let line: Vec<char> = error.lines().next().unwrap_or("").chars().take(CHARS_MAX).collect();
    let mut folded = String::new();
    let mut at = 0;
    while at < line.len() {
        let before = at.checked_sub(1).map(|before| line[before]);
        if let Some(end) = quoted_to(&line, at, before) {
            folded.extend([line[at], '…', line[end]]);
            at = end + 1;
        } else if is_of_word(line[at]) {
            let end = (at..line.len()).find(|end| !is_of_word(line[*end])).unwrap_or(line.len());
            let word: String = line[at..end].iter().collect();
            fold_word(&word, &mut folded);
            at = end;
        } else if line[at..].starts_with(&[':', '/', '/']) {
            let host = at + 3;
            let path = (host..line.len()).find(|end| "/ \"'<>)?#".contains(line[*end])).unwrap_or(line.len());
            let end = (path..line.len()).find(|end| " \"'<>)".contains(line[*end])).unwrap_or(line.len());
            folded.push_str("://");
            fold_word(&line[host..path].iter().collect::<String>(), &mut folded);
            if end > path + 1 {
                folded.push_str("/…");
            }
            at = end;
        } else {
            folded.push(line[at]);
            at += 1;
        }
    }
    folded
}

/// Where a quote that begins here ends.
fn quoted_to(line: &[char], at: usize, before: Option<char>) -> Option<usize> {
    let quote = line[at];
    let inside_word = before.is_some_and(char::is_alphanumeric);
    if !"\"'`".contains(quote) || (quote == '\'' && inside_word) {
        return None;
    }
    let closes = |end: usize| {
        line[end] == quote && (quote != '\'' || line.get(end + 1).is_none_or(|next| !next.is_alphanumeric()))
    };
    (at + 1..line.len()).find(|end| closes(*end))
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || c == '-' || c == '_'
}

/// Ids become `#` as a whole, and so does each number within a word.
fn fold_word(word: &str, folded: &mut String) {
    let hex = word.chars().filter(char::is_ascii_hexdigit).count();
    let is_hex = word.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
    if is_hex && hex >= HEX_MIN && word.chars().any(|c| c.is_ascii_digit()) {
        folded.push('#');
        return;
    }
    let mut in_number = false;
    for c in word.chars() {
        match c.is_ascii_digit() {
            true if in_number => {}
            true => folded.push('#'),
            false => folded.push(c),
        }
        in_number = c.is_ascii_digit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_fold() {
        for (error, expected) in [
            ("row 17 of 200\nmore", "row # of #"),
            ("", ""),
            ("no number", "no number"),
            ("the feed \"Sport\" is gone", "the feed \"…\" is gone"),
            ("can't read 'a b.txt': it's empty", "can't read '…': it's empty"),
            ("job 0198c0de-0000-7000-8000-0123456789ab failed", "job # failed"),
            ("commit 3fa9c21b is bad", "commit # is bad"),
            ("facade and cafe stay", "facade and cafe stay"),
            ("GET https://a.example/v1/items/7?x=1 gave 503", "GET https://a.example/… gave #"),
            ("http://127.0.0.1:8080 refused", "http://#.#.#.#:# refused"),
            ("cat-17.png: no image", "cat-#.png: no image"),
            ("an open \"quote", "an open \"quote"),
        ] {
            assert_eq!(folded(error), expected, "{error}");
        }
        assert_eq!(folded(&"ü".repeat(500)).chars().count(), CHARS_MAX);
    }
}
