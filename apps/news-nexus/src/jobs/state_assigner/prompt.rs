//! The prompt with an article in it.

const TITLE: &str = "{articleTitle}";
const CONTENT: &str = "{articleContent}";

/// Puts title and content where the prompt wants them, in one pass: what an
/// article says is text, even when it looks like a placeholder.
pub(super) fn fill(prompt: &str, title: &str, content: &str) -> String {
    let mut filled = String::with_capacity(prompt.len() + title.len() + content.len());
    let mut rest = prompt;
    while let Some(at) = rest.find('{') {
        filled.push_str(&rest[..at]);
        rest = &rest[at..];
        let (text, bytes) = if rest.starts_with(TITLE) {
            (title, TITLE.len())
        } else if rest.starts_with(CONTENT) {
            (content, CONTENT.len())
        } else {
            ("{", 1)
        };
        filled.push_str(text);
        rest = &rest[bytes..];
    }
    filled.push_str(rest);
    filled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_literal() {
        for (prompt, expected) in [
            ("T: {articleTitle}\nC: {articleContent}", "T: $& {articleContent}\nC: {articleTitle} $1"),
            ("{articleTitle}{articleTitle}", "$& {articleContent}$& {articleContent}"),
            ("{ {articletitle} {{articleTitle}}", "{ {articletitle} {$& {articleContent}}"),
            ("no place", "no place"),
        ] {
            assert_eq!(fill(prompt, "$& {articleContent}", "{articleTitle} $1"), expected);
        }
    }
}
