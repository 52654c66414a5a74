//! Readable text out of a page.
//!
//! What is in the page besides the article is found by a port of Mozilla's Readability, which builds a tree.
//! What it gets was cut down before ([`slim`]), so that neither nesting nor size can hurt it.

use legible::Options;

use super::slim::{self, Token, Tokens};
use crate::text::cut;

/// How much HTML is looked at.
pub const HTML_BYTES_MAX: usize = 2 * 1024 * 1024;

/// The readable text of a page, at most `chars_max` characters of it: blocks on lines of their own, white space
/// as one space, references decoded. Empty when there is none. It never panics.
pub fn text(html: &str, chars_max: usize) -> String {
    let slim = slim::slim(cut(html, HTML_BYTES_MAX));
    let options = Options::new().disable_json_ld(true);
    match legible::parse(&slim, None, Some(options)) {
        Ok(article) => plain(&article.content, chars_max),
        Err(_) => String::new(),
    }
}

/// The text of clean HTML, as a tree was written down.
fn plain(html: &str, chars_max: usize) -> String {
    let mut out = Plain { text: String::new(), chars: 0, chars_max, gap: None };
    let mut tokens = Tokens::new(html);
    while let Some(token) = tokens.next() {
        match token {
            Token::Text(text) => out.push(text),
            Token::Open(tag) | Token::Close(tag) if slim::separates(tag.name.as_str()) => {
                out.gap = Some('\n')
            }
            Token::Open(_) | Token::Close(_) => {}
        }
        if out.chars >= chars_max {
            break;
        }
    }
    out.text.truncate(out.text.trim_end().len());
    out.text
}

/// Text that grows word by word.
struct Plain {
    text: String,
    chars: usize,
    chars_max: usize,
    /// What comes before the next letter.
    gap: Option<char>,
}

impl Plain {
    fn push(&mut self, html: &str) {
        let mut rest = html;
        while let Some(first) = rest.chars().next() {
            let (letter, bytes) = match first {
                '&' => reference(rest),
                letter => (letter, letter.len_utf8()),
            };
            rest = &rest[bytes..];
            self.letter(letter);
            if self.chars >= self.chars_max {
                return;
            }
        }
    }

    fn letter(&mut self, letter: char) {
        if letter.is_whitespace() {
            self.gap = self.gap.or(Some(' '));
        } else if !letter.is_control() {
            let gap = self.gap.take().filter(|_| !self.text.is_empty());
            for letter in gap.into_iter().chain([letter]) {
                if self.chars < self.chars_max {
                    self.text.push(letter);
                    self.chars += 1;
                }
            }
        }
    }
}

/// The references that a tree is written down with: all others were decoded when it was made.
fn reference(text: &str) -> (char, usize) {
    const NAMES: [(&str, char); 5] =
        [("&amp;", '&'), ("&lt;", '<'), ("&gt;", '>'), ("&quot;", '"'), ("&nbsp;", ' ')];
    let found = NAMES.iter().find(|(name, _)| text.starts_with(name));
    found.map_or(('&', 1), |(name, letter)| (*letter, name.len()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FILLER: &str = "The price of Bitcoin rose again on Tuesday, traders said, and the market took note of it, \
        as it does, because the figures that were published in the morning were better than expected, which is rare.";

    fn page(body: &str) -> String {
        let filler = format!("<p>{FILLER}</p>").repeat(4);
        format!(
            "<html><head><title>A title</title></head><body><article>{body}{filler}</article></body></html>"
        )
    }

    fn check(body: &str, expected: &str) {
        let text = text(&page(body), 100_000);
        assert!(text.starts_with(expected), "{body}: {}", &text[..text.len().min(200)]);
    }

    #[test]
    fn blocks_separate_words_and_inline_elements_do_not() {
        check(
            "<p>Bit<b>coin</b> is Bit<span>coin</span><a href='/x'>s</a>.</p>",
            "Bitcoin is Bitcoins.\nThe price",
        );
        check(
            "<p>One, and more of it.</p><p>Two, and more of it.</p>",
            "One, and more of it.\nTwo, and more of it.\n",
        );
        check("<p>One<br>Two<br/>Three, and more.</p>", "One\nTwo\nThree, and more.");
        check(
            "<ul><li>One, and more of it, and more</li><li>Two, and more of it, and more</ul>",
            "One, and more of it, and more\nTwo",
        );
        check("<p>A <i> wide </i>\n\t gap</p>", "A wide gap\n");
    }

    #[test]
    fn references_are_decoded() {
        check(
            "<p>R&amp;D &lt;b&gt; &quot;x&quot; caf&eacute; &#8364;5 &#x1F600; a&nbsp;b &amp;amp; &unknown; AT&T</p>",
            "R&D <b> \"x\" café €5 😀 a b &amp; &unknown; AT&T\n",
        );
        check("<p>1 < 2, and 3 > 2, they say</p>", "1 < 2, and 3 > 2, they say\n");
    }

    #[test]
    fn what_is_not_the_article_is_left_out() {
        let html = page("<script>var a = '<p>no-1</p>';</script><style>no-2 {}</style><!-- no-3 --><noscript>no-4</noscript>\
            <template>no-5</template><svg><text>no-6</text></svg><select><option>no-7</select><textarea>no-8</textarea>\
            <iframe>no-9</iframe><p hidden>no-0</p><p style='display: none'>no-0</p><p>Yes, this is of the article.</p>")
            .replace("<body>", "<body><nav><ul><li><a href=/>no-nav</a></li></ul></nav><div class='sidebar'><p>no-side</p></div>")
            .replace("</body>", "<footer><p>no-footer</p></footer><div id='comments'><p>no-comment</p></div></body>");
        let text = text(&html, 100_000);
        assert!(text.starts_with("Yes, this is of the article."), "{text}");
        assert!(!text.contains("no-"), "{text}");
    }

    #[test]
    fn text_is_cut_between_characters() {
        let html = page(&format!("<p>{}</p>", "ü€😀 ".repeat(100)));
        for max in [0, 1, 2, 3, 4, 5, 100] {
            let text = text(&html, max);
            assert!(text.chars().count() <= max, "{max}");
        }
        assert_eq!(text(&html, 3), "ü€😀");
        assert_eq!(text(&page(""), 9), "The price");
    }

    #[test]
    fn pages_without_text() {
        for html in ["", " ", "<html></html>", "<script>x</script>", "<!-- x", "<title>only</title>", "<!"] {
            assert_eq!(text(html, 100), "", "{html}");
        }
    }

    /// Fault 60: what overflows a stack or costs a tree builder minutes is cut before it. Each of these is done
    /// at once; with the cut taken out, most of them do not end while anybody waits.
    #[test]
    fn fault_60_hostile_pages() {
        let fonts: String = (0..60_000).map(|number| format!("<font size={number}>")).collect();
        let attributes: String = (0..150_000).map(|number| format!(" a{number}=1")).collect();
        let bolds: String = (0..500).map(|number| format!("<b id={number}>")).collect();
        let all = |piece: &str| piece.repeat(HTML_BYTES_MAX / 4 / piece.len());
        for html in [
            "<div>".repeat(100_000),
            "<div>".repeat(HTML_BYTES_MAX / 5),
            all("<div>x"),
            all("<div></div>"),
            all("<p>x"),
            all("<b><i>"),
            all("<a href=x>y"),
            all("<a><p>"),
            all("<table><tr><td>x"),
            all("<table><div>"),
            all("<dd><li>"),
            all("<span class=x>"),
            all("<x-y>"),
            all("<br>"),
            all("<li>x"),
            all("<svg>"),
            all("<form>"),
            all("<script>"),
            all("</div>"),
            all("</p>"),
            all("<"),
            all("&"),
            all("<!--"),
            all("<a href=\""),
            all("<div class='a b c' id=\"d\">x</div>"),
            fonts,
            format!("<div{attributes}>"),
            format!("<p>{bolds}{}", "<p>x".repeat(100_000)),
            "\0".repeat(HTML_BYTES_MAX),
            "x".repeat(HTML_BYTES_MAX * 2),
        ] {
            let text = text(&html, 10_240);
            assert!(text.chars().count() <= 10_240);
        }
    }

    fn broken() -> impl Strategy<Value = String> {
        let tags = "div|p|a|b|span|table|tr|td|ul|li|dl|dd|dt|script|style|svg|select|option|form|h1|br|hr|img|article|\
            template|noscript|title|textarea|button|math|frameset|plaintext|body|html|head|math|object|caption|section";
        let tag = proptest::sample::select(tags.split('|').collect::<Vec<_>>());
        let piece = (tag, 0..12u8, "\\PC{0,12}").prop_map(|(tag, kind, text)| match kind {
            0..4 => format!("<{tag}>"),
            4..7 => format!("</{tag}>"),
            7 => format!("<{tag} class='{text}' id=\"x"),
            8 => format!("<{tag} {text}=\"a>b\" hidden/>"),
            9 => format!("<!--{text}"),
            10 => format!("{text}&#x{:x};&{tag};<{text}", text.len()),
            _ => format!("{text}, and more words, as there are in an article, of all kinds. "),
        });
        proptest::collection::vec(piece, 0..120).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        #[test]
        fn broken_pages_are_read_as_far_as_they_go(html in broken(), max in 0..2000usize) {
            let text = text(&html, max);
            prop_assert!(text.chars().count() <= max);
            prop_assert_eq!(text.trim(), &text);
        }
    }
}
