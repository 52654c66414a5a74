//! Text out of HTML, without building a tree.
//!
//! A parser that builds the tree needs a minute for 100,000 nested elements.
//! This one walks over the text once and keeps nothing but what it found, and
//! only looks at the first part of it: its cost does not depend on who wrote it.

use crate::text::cut;

/// How much HTML is looked at.
pub const HTML_BYTES_MAX: usize = 64 * 1024;
/// How much text comes out.
pub const TEXT_BYTES_MAX: usize = 10 * 1024;

/// The text without its tags, comments, scripts and styles, trimmed.
/// References such as `&amp;` are left as they are.
pub fn text(html: &str) -> String {
    let mut out = String::new();
    let mut rest = window(html);
    while let Some(at) = rest.find('<') {
        out.push_str(&rest[..at]);
        match Tag::parse(&rest[at..]) {
            Some(tag) => rest = skip_content(&tag, &rest[at + tag.bytes..]),
            None => {
                out.push('<');
                rest = &rest[at + 1..];
            }
        }
        if out.len() > TEXT_BYTES_MAX {
            return cut(&out, TEXT_BYTES_MAX).trim().to_owned();
        }
    }
    out.push_str(rest);
    cut(out.trim(), TEXT_BYTES_MAX).trim_end().to_owned()
}

/// The text of the first link, if there is one that has any.
pub fn first_link(html: &str) -> Option<String> {
    let mut rest = window(html);
    while let Some(at) = rest.find('<') {
        rest = &rest[at..];
        let Some(tag) = Tag::parse(rest) else {
            rest = &rest[1..];
            continue;
        };
        rest = &rest[tag.bytes..];
        if tag.is("a") {
            let end = end_of_link(rest)?;
            return Some(text(&rest[..end])).filter(|text| !text.is_empty());
        }
    }
    None
}

/// The part that is looked at. A tag that the cut went through is not part of it.
fn window(html: &str) -> &str {
    let part = cut(html, HTML_BYTES_MAX);
    match part.rfind('<') {
        Some(at) if part.len() < html.len() && !part[at..].contains('>') => &part[..at],
        _ => part,
    }
}

fn end_of_link(html: &str) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from + find(&html[from..], "</a")?;
        let next = html.as_bytes().get(at + 3);
        if next.is_none_or(|byte| byte.is_ascii_whitespace() || matches!(byte, b'>' | b'/')) {
            return Some(at);
        }
        from = at + 3;
    }
}

/// Where a word of plain letters begins, in whatever case.
fn find(html: &str, word: &str) -> Option<usize> {
    html.as_bytes().windows(word.len()).position(|window| window.eq_ignore_ascii_case(word.as_bytes()))
}

/// A tag or comment at the beginning of a text.
struct Tag<'a> {
    name: &'a str,
    bytes: usize,
}

impl<'a> Tag<'a> {
    fn parse(html: &'a str) -> Option<Self> {
        let inside = &html[1..];
        if let Some(comment) = inside.strip_prefix("!--") {
            let bytes = comment.find("-->").map_or(html.len(), |at| at + 7);
            return Some(Self { name: "!", bytes });
        }
        let first = inside.bytes().next()?;
        if !(first.is_ascii_alphabetic() || matches!(first, b'/' | b'!' | b'?')) {
            return None;
        }
        let name = inside.find(|letter: char| letter.is_whitespace() || letter == '>');
        // A tag that does not end is no text either.
        Some(Self {
            name: &inside[..name.unwrap_or(inside.len())],
            bytes: end_of_tag(html).unwrap_or(html.len()),
        })
    }

    fn is(&self, name: &str) -> bool {
        self.name.trim_end_matches('/').eq_ignore_ascii_case(name)
    }
}

/// Where a tag ends; a `>` within quotes is not its end.
fn end_of_tag(html: &str) -> Option<usize> {
    let mut quote = None;
    for (at, byte) in html.bytes().enumerate() {
        match quote {
            Some(open) if byte == open => quote = None,
            Some(_) => {}
            None if byte == b'>' => return Some(at + 1),
            None if matches!(byte, b'"' | b'\'') => quote = Some(byte),
            None => {}
        }
    }
    None
}

/// What follows a tag; for a script or style, what follows its end.
fn skip_content<'a>(tag: &Tag<'_>, after: &'a str) -> &'a str {
    for (name, end) in [("script", "</script"), ("style", "</style")] {
        if tag.is(name) {
            return find(after, end).map_or("", |at| &after[at..]);
        }
    }
    after
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_taken_out() {
        for (html, expected) in [
            ("plain", "plain"),
            ("  a <b>bold</b> word ", "a bold word"),
            ("1 < 2 and 3 > 2", "1 < 2 and 3 > 2"),
            ("a<br/>b<!-- <i>no</i> -->c", "abc"),
            ("a<script>if (1<2) alert('x')</script>b<STYLE>p{}</Style>c", "abc"),
            ("<p title=\"a > b\">text</p>", "text"),
            ("text<p", "text"),
            ("text<!-- never ends", "text"),
            ("&amp; stays &amp;", "&amp; stays &amp;"),
            ("", ""),
        ] {
            assert_eq!(text(html), expected, "{html:?}");
        }
    }

    #[test]
    fn the_first_link() {
        for (html, expected) in [
            ("<ol><li><A HREF='x'>One <b>two</b></A> more</li></ol>", Some("One two")),
            ("<abbr>no</abbr><a>yes</a>", Some("yes")),
            ("no link", None),
            ("<a href='x'>never ends", None),
            ("<a></a>", None),
            ("<a>x</abbr>y</a>", Some("xy")),
        ] {
            assert_eq!(first_link(html).as_deref(), expected, "{html:?}");
        }
    }

    /// Fault 60: what costs a tree builder a minute costs nothing here. The
    /// work is bounded by the cut, whatever comes after it, so the same bomb
    /// a thousand times as long gives the same answer from the same bytes.
    #[test]
    fn fault_60_nested_and_unclosed_html_is_cut_first() {
        for piece in
            ["<div>", "<a>", "<", "</", "<!--", "<a href=\"", "<script>", "<script></script>", "<p>x"]
        {
            let bomb = format!("<a>{}", piece.repeat(100_000));
            let shorter = &bomb[..HTML_BYTES_MAX + 5000];
            assert_eq!(text(&bomb), text(shorter), "{piece}");
            assert_eq!(first_link(&bomb), first_link(shorter), "{piece}");
            assert!(text(&bomb).len() <= TEXT_BYTES_MAX);
        }
    }
}
