//! JSON for reading: indented, coloured by sort, folded when long, and copied
//! as it came. Works on the text itself, so that numbers stay as they were.

use maud::{Markup, html};

/// Longer than this many lines is folded.
const FOLD_LINES: usize = 24;
/// Not even folded: the browser would only suffer.
const SHOWN_BYTES_MAX: usize = 256 * 1024;

/// A block of JSON with its name.
pub(super) fn block(name: &str, json: &str) -> Markup {
    let shown = json.len() <= SHOWN_BYTES_MAX;
    let pieces = if shown { pieces(json) } else { Vec::new() };
    let lines = 1 + pieces.iter().filter(|piece| matches!(piece, Piece::Break(_))).count();
    let body = html! { pre { (text(&pieces)) } };
    html! {
        div.json {
            button.copy type="button" data-copy=(json) { "Copy" }
            @if !shown {
                p.quiet { (json.len()) " bytes of JSON; copy it to read it" }
            } @else if lines > FOLD_LINES {
                details { summary { (name) ", " (lines) " lines" } (body) }
            } @else {
                (body)
            }
        }
    }
}

/// A text of many lines, folded when long.
pub(super) fn folded(text: &str) -> Markup {
    let first = text.lines().next().unwrap_or("");
    let short: String = first.chars().take(160).collect();
    html! {
        @if text.len() == short.len() { span.text { (text) } }
        @else { details.text { summary { (short) " …" } pre { (text) } } }
    }
}

enum Piece<'a> {
    Key(&'a str),
    Text(&'a str),
    Word(&'a str),
    Mark(&'a str),
    /// A new line, so deep.
    Break(usize),
}

fn text(pieces: &[Piece<'_>]) -> Markup {
    html! {
        @for piece in pieces {
            @match piece {
                Piece::Key(text) => { b { (text) } }
                Piece::Text(text) => { i { (text) } }
                Piece::Word(text) => { u { (text) } }
                Piece::Mark(text) => { (text) @if *text == ":" || *text == "," { " " } }
                Piece::Break(depth) => { "\n" (" ".repeat(2 * depth)) }
            }
        }
    }
}

/// Cuts JSON into pieces. It came through the gate, so it is well-formed and not deep.
fn pieces(json: &str) -> Vec<Piece<'_>> {
    let bytes = json.as_bytes();
    let mut pieces = Vec::new();
    let mut depth = 0;
    let mut at = 0;
    while at < bytes.len() {
        let from = at;
        at += 1;
        match bytes[from] {
            b' ' | b'\n' | b'\r' | b'\t' => {}
            b'"' => {
                at = end_of_string(bytes, at);
                let is_key = json[at..].trim_start().starts_with(':');
                let piece = &json[from..at];
                pieces.push(if is_key { Piece::Key(piece) } else { Piece::Text(piece) });
            }
            b'{' | b'[' => {
                let close = if bytes[from] == b'{' { '}' } else { ']' };
                let inside = json[at..].trim_start();
                if inside.starts_with(close) {
                    at = json.len() - inside.len() + 1;
                    pieces.push(Piece::Mark(if close == '}' { "{}" } else { "[]" }));
                } else {
                    depth += 1;
                    pieces.extend([Piece::Mark(&json[from..at]), Piece::Break(depth)]);
                }
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                pieces.extend([Piece::Break(depth), Piece::Mark(&json[from..at])]);
            }
            b',' => pieces.extend([Piece::Mark(","), Piece::Break(depth)]),
            b':' => pieces.push(Piece::Mark(":")),
            _ => {
                while at < bytes.len() && !b",]} \n\r\t".contains(&bytes[at]) {
                    at += 1;
                }
                pieces.push(Piece::Word(&json[from..at]));
            }
        }
    }
    pieces
}

fn end_of_string(bytes: &[u8], mut at: usize) -> usize {
    while at < bytes.len() && bytes[at] != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(json: &str) -> String {
        let markup = text(&pieces(json)).into_string();
        let tags = ["<b>", "</b>", "<i>", "</i>", "<u>", "</u>"];
        tags.iter().fold(markup, |text, tag| text.replace(tag, "")).replace("&quot;", "\"")
    }

    #[test]
    fn json_is_indented_and_numbers_stay() {
        for (json, expected) in [
            ("1.10", "1.10"),
            ("[]", "[]"),
            ("{ }", "{}"),
            (
                r#"{"a":1e5,"b":[true,"x,\"}"]}"#,
                "{\n  \"a\": 1e5, \n  \"b\": [\n    true, \n    \"x,\\\"}\"\n  ]\n}",
            ),
        ] {
            assert_eq!(plain(json), expected);
        }
    }

    /// Fault 67: what is in JSON is text on the page.
    #[test]
    fn fault_67_json_is_escaped() {
        let shown = block("payload", r#"{"<script>":"</pre><img src=x onerror=alert(1)>"}"#).into_string();
        assert!(!shown.contains("<script") && !shown.contains("<img"), "{shown}");
    }
}
