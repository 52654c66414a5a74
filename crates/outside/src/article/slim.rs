//! HTML cut down before a parser sees it.
//!
//! One pass over the text, whose cost does not depend on who wrote it, takes out what no reader sees (scripts,
//! styles, pictures, comments), what no reader needs (letters in bold), and all attributes but a few. What it
//! writes is nested properly and never deeper than [`DEPTH_MAX`], so that a tree builder, which walks over its
//! open elements at every tag, has few to walk over.

mod kind;
mod tokens;

pub(super) use kind::separates;
pub(super) use tokens::{Tag, Token, Tokens};

use kind::{Kind, kind};

/// How deep elements are nested. Pages in the wild have 30 to 60.
const DEPTH_MAX: usize = 128;
/// How many elements are kept. What comes after is cut off; a page of 2 MiB has 20,000.
const ELEMENTS_MAX: usize = 50_000;
/// How much is written. A page of 2 MiB comes to a quarter of it, and a `<` that is text to four times.
const OUT_BYTES_MAX: usize = 1024 * 1024;
/// Attributes that say what an element is for, and whether it is seen.
const ATTRIBUTES: [&str; 8] = ["class", "id", "role", "style", "hidden", "aria-hidden", "href", "itemprop"];
const ATTRIBUTE_BYTES_MAX: usize = 256;

/// The same page, smaller and well nested.
pub(super) fn slim(html: &str) -> String {
    let mut slim =
        Slim { out: String::with_capacity(html.len() / 2), open: Vec::new(), over: 0, elements: 0 };
    slim.out.push_str("<!DOCTYPE html>");
    let mut tokens = Tokens::new(html);
    let mut titled = false;
    while let Some(token) = tokens.next() {
        match token {
            Token::Text(text) => slim.text(text),
            Token::Close(tag) => slim.close(tag.name.as_str()),
            Token::Open(tag) => match kind(tag.name.as_str()) {
                Kind::Title if !titled => {
                    titled = true;
                    slim.out.push_str("<title>");
                    slim.text(tokens.raw(tag.name.as_str()));
                    slim.out.push_str("</title>");
                }
                Kind::Title | Kind::Raw => drop(tokens.raw(tag.name.as_str())),
                Kind::Unseen if !tag.closed => tokens.skip(tag.name.as_str()),
                Kind::Unseen | Kind::Nothing => {}
                Kind::Void => slim.void(&tag),
                Kind::Inline | Kind::Block => slim.open(tag),
            },
        }
        if slim.elements >= ELEMENTS_MAX || slim.out.len() >= OUT_BYTES_MAX {
            break;
        }
    }
    slim.shut(0);
    slim.out
}

struct Slim<'a> {
    out: String,
    open: Vec<Element<'a>>,
    /// How many elements are open that were too deep to be written.
    over: usize,
    elements: usize,
}

struct Element<'a> {
    tag: Tag<'a>,
    /// Whether it was written: an inline element without attributes says nothing.
    written: bool,
}

impl<'a> Slim<'a> {
    /// A `<` that begins no tag must not begin one in what is written.
    fn text(&mut self, text: &str) {
        let text = crate::text::cut(text, OUT_BYTES_MAX.saturating_sub(self.out.len()));
        let mut parts = text.split('<');
        self.out.push_str(parts.next().unwrap_or_default());
        for part in parts {
            self.out.push_str("&lt;");
            self.out.push_str(part);
        }
    }

    fn void(&mut self, tag: &Tag<'_>) {
        self.elements += 1;
        self.out.push('<');
        self.out.push_str(tag.name.as_str());
        self.out.push('>');
    }

    fn open(&mut self, tag: Tag<'a>) {
        if self.over > 0 || self.open.len() == DEPTH_MAX {
            self.over += 1;
            // Too deep for an element, but its words are not those before it.
            if separates(tag.name.as_str()) {
                self.out.push(' ');
            }
            return;
        }
        self.imply(tag.name.as_str());
        let begin = self.out.len();
        self.out.push('<');
        self.out.push_str(tag.name.as_str());
        let named = self.out.len();
        self.attributes(&tag);
        let written = tag.name.as_str() != "span" || self.out.len() > named;
        if written {
            self.out.push('>');
            self.elements += 1;
        } else {
            self.out.truncate(begin);
        }
        self.open.push(Element { tag, written });
    }

    fn attributes(&mut self, tag: &Tag<'_>) {
        let mut seen = [false; ATTRIBUTES.len()];
        for (name, value) in tag.attributes() {
            let Some(at) = ATTRIBUTES.iter().position(|known| name.eq_ignore_ascii_case(known)) else {
                continue;
            };
            let cut = crate::text::cut(value, ATTRIBUTE_BYTES_MAX);
            if !std::mem::replace(&mut seen[at], true) && !cut.contains('"') {
                self.out.push(' ');
                self.out.push_str(ATTRIBUTES[at]);
                self.out.push_str("=\"");
                self.out.push_str(cut);
                self.out.push('"');
            }
        }
    }

    /// Ends what a new element ends without saying so: a paragraph ends a paragraph.
    fn imply(&mut self, name: &str) {
        let ends: &[&str] = match name {
            "li" => &["li"],
            "dd" | "dt" => &["dd", "dt"],
            "td" | "th" => &["td", "th"],
            "tr" => &["tr"],
            "tbody" | "thead" | "tfoot" => &["tbody", "thead", "tfoot"],
            "a" => &["a"],
            name if kind(name) == Kind::Block => &["p"],
            _ => return,
        };
        let bounds: &[&str] = match name {
            "li" => &["ul", "ol", "menu", "table", "td", "th"],
            "dd" | "dt" => &["dl", "table", "td", "th"],
            "td" | "th" => &["tr", "table"],
            "tr" => &["tbody", "thead", "tfoot", "table"],
            "tbody" | "thead" | "tfoot" => &["table"],
            _ => &[],
        };
        for at in (0..self.open.len()).rev() {
            let open = self.open[at].tag.name.as_str();
            if ends.contains(&open) {
                return self.shut(at);
            }
            let is_bound = if bounds.is_empty() { kind(open) == Kind::Block } else { bounds.contains(&open) };
            if is_bound {
                return;
            }
        }
    }

    fn close(&mut self, name: &str) {
        if !matches!(kind(name), Kind::Inline | Kind::Block) {
            return;
        }
        if self.over > 0 {
            self.over -= 1;
            return;
        }
        let is_block = kind(name) == Kind::Block;
        for at in (0..self.open.len()).rev() {
            let open = self.open[at].tag.name.as_str();
            if open == name {
                return self.shut(at);
            }
            // A link that ends within a paragraph which began in it does not end the paragraph.
            let is_bound =
                if is_block { open == "table" && name != "table" } else { kind(open) == Kind::Block };
            if is_bound {
                return;
            }
        }
    }

    /// Ends all elements from this depth on.
    fn shut(&mut self, depth: usize) {
        for element in self.open.drain(depth..).rev() {
            if element.written {
                self.out.push_str("</");
                self.out.push_str(element.tag.name.as_str());
                self.out.push('>');
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(html: &str, expected: &str) {
        assert_eq!(slim(html).trim_start_matches("<!DOCTYPE html>"), expected, "{html}");
    }

    #[test]
    fn pages_become_smaller() {
        check("<p>a<b>b</b>c", "<p>abc</p>");
        check("<P Class=x onclick='y' ID=\"z\">a</P>", "<p class=\"x\" id=\"z\">a</p>");
        check("<p>a<p>b<div>c", "<p>a</p><p>b</p><div>c</div>");
        check(
            "<ul><li>a<li>b<ul><li>c</ul><li>d</ul>",
            "<ul><li>a</li><li>b<ul><li>c</li></ul></li><li>d</li></ul>",
        );
        check(
            "<table><tr><td>a<td>b<tr><td>c</table>d",
            "<table><tr><td>a</td><td>b</td></tr><tr><td>c</td></tr></table>d",
        );
        check("<script>if (a<b) '</scr' </script >x<style>y</style>", "x");
        check("a<!-- <p> -->b<!x>c<?y?>d</ z>e", "abcde");
        check("1 < 2 <3 <", "1 &lt; 2 &lt;3 &lt;");
        check("<svg><path/></svg>a<svg/>b<svg>c", "abc");
        check("<span>a</span><span hidden>b</span>", "a<span hidden=\"\">b</span>");
        check("<div title='a>b' class=\"c>d\">e</div>", "<div class=\"c>d\">e</div>");
        check("<a href=/x>y<p>z</a>w</p>", "<a href=\"/x\">y<p>zw</p></a>");
        check("<title>a<b></title><title>c</title>", "<title>a&lt;b></title>");
        check("a</p></div>b<br>c</br>d<hr>", "ab<br>cd<hr>");
        check("<div", "");
        check("<div class=\"never ends", "");
    }

    /// Fault 60: nothing is nested deeper than this, and what is too deep is still read.
    #[test]
    fn fault_60_depth_is_bounded() {
        let deep = slim(&format!("{}words", "<div>".repeat(100_000)));
        assert_eq!(deep.matches("<div>").count(), DEPTH_MAX);
        assert_eq!(deep.matches("</div>").count(), DEPTH_MAX);
        assert!(deep.contains("words"));
        let wide = slim(&"<p>x".repeat(200_000));
        assert_eq!(wide.matches("<p>").count(), ELEMENTS_MAX);
        for much in ["<", "x", "&", "ü", "<x> ", "<p class=\"a long name\">"] {
            let most = OUT_BYTES_MAX + DEPTH_MAX * 16 + ATTRIBUTES.len() * (ATTRIBUTE_BYTES_MAX + 16);
            assert!(slim(&much.repeat(2_000_000 / much.len())).len() <= most, "{much}");
        }
    }
}
