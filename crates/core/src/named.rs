//! Texts by name: a file holds all statements about one noun, each below a line `-- name: …`. For stores that keep their
//! statements in files; each has a macro `sql!(noun, name)` over this, so that one that is not there does not compile.

const MARK: &[u8] = b"-- name: ";

/// What stands between the line that names it and the next that names something, or the end.
///
/// # Panics
///
/// When nothing has this name; at compile time, since it is only called there.
pub const fn named(text: &'static str, name: &str) -> &'static str {
    let (bytes, name) = (text.as_bytes(), name.as_bytes());
    let mut at = 0;
    while at < bytes.len() {
        if starts(bytes, at, MARK) && starts(bytes, at + MARK.len(), name) {
            let begin = at + MARK.len() + name.len();
            if begin < bytes.len() && bytes[begin] == b'\n' {
                return slice(text, begin + 1, end(bytes, begin + 1));
            }
        }
        at += 1;
    }
    panic!("no statement has this name")
}

/// Where the statement that begins here ends.
const fn end(bytes: &[u8], mut at: usize) -> usize {
    while at < bytes.len() && !starts(bytes, at, MARK) {
        at += 1;
    }
    while bytes[at - 1] == b'\n' {
        at -= 1;
    }
    at
}

const fn starts(bytes: &[u8], at: usize, with: &[u8]) -> bool {
    let mut n = 0;
    while n < with.len() {
        if at + n >= bytes.len() || bytes[at + n] != with[n] {
            return false;
        }
        n += 1;
    }
    true
}

const fn slice(text: &'static str, begin: usize, end: usize) -> &'static str {
    text.split_at(end).0.split_at(begin).1
}

#[cfg(test)]
mod tests {
    use super::named;

    #[test]
    fn statements_are_found_by_name() {
        let text = "-- name: one\nSELECT 1\n\n-- name: one_more\n-- Why.\nSELECT\n  2\n";
        assert_eq!(named(text, "one"), "SELECT 1");
        assert_eq!(named(text, "one_more"), "-- Why.\nSELECT\n  2");
    }

    #[test]
    #[should_panic(expected = "no statement has this name")]
    fn one_that_is_not_there() {
        named("-- name: one\nSELECT 1\n", "two");
    }
}
