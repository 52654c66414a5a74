//! Tags and text, in the order in which they are written. No tree, and nothing is looked at twice.

use memchr::{memchr, memmem};

/// The longest name of an element that is told from others.
const NAME_BYTES_MAX: usize = 24;

/// A name in lower case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::article) struct Name {
    bytes: [u8; NAME_BYTES_MAX],
    length: u8,
}

impl Name {
    /// Names that are too long or not of ASCII are all one: `x-x`.
    fn new(name: &str) -> Self {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        let name = if name.len() <= NAME_BYTES_MAX && name.bytes().all(fits) { name } else { "x-x" };
        let mut bytes = [0; NAME_BYTES_MAX];
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        bytes.make_ascii_lowercase();
        Self { bytes, length: name.len() as u8 }
    }

    pub(in crate::article) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..usize::from(self.length)]).unwrap_or_default()
    }
}

#[derive(Debug, Clone, Copy)]
pub(in crate::article) struct Tag<'a> {
    pub(in crate::article) name: Name,
    /// Whether it ends with `/>`.
    pub(in crate::article) closed: bool,
    attributes: &'a str,
}

impl<'a> Tag<'a> {
    /// Names and values as they are written.
    pub(super) fn attributes(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        let mut rest = self.attributes;
        std::iter::from_fn(move || {
            let (name, value, after) = attribute(rest)?;
            rest = after;
            Some((name, value.unwrap_or_default()))
        })
    }
}

pub(in crate::article) enum Token<'a> {
    Text(&'a str),
    Open(Tag<'a>),
    Close(Tag<'a>),
}

pub(in crate::article) struct Tokens<'a> {
    rest: &'a str,
    /// Names of elements that do not end any more: nobody looks for their ends again.
    endless: Vec<Name>,
}

impl<'a> Tokens<'a> {
    pub(in crate::article) fn new(html: &'a str) -> Self {
        Self { rest: html, endless: Vec::new() }
    }

    pub(in crate::article) fn next(&mut self) -> Option<Token<'a>> {
        loop {
            if self.rest.is_empty() {
                return None;
            }
            let at = memchr(b'<', self.rest.as_bytes()).unwrap_or(self.rest.len());
            if at > 0 {
                return Some(Token::Text(self.take(at)));
            }
            match self.rest.as_bytes().get(1) {
                Some(letter) if letter.is_ascii_alphabetic() => return self.tag(1).map(Token::Open),
                Some(b'/') => match self.rest.as_bytes().get(2) {
                    Some(letter) if letter.is_ascii_alphabetic() => return self.tag(2).map(Token::Close),
                    Some(_) => self.past(">", 2),
                    None => return Some(Token::Text(self.take(1))),
                },
                // From the dashes on, for `<!-->` is a whole comment.
                Some(b'!') if self.rest.starts_with("<!--") => self.past("-->", 2),
                Some(b'!' | b'?') => self.past(">", 2),
                _ => return Some(Token::Text(self.take(1))),
            }
        }
    }

    /// The text until the end of an element whose text has no tags; all of it, if it does not end.
    pub(in crate::article) fn raw(&mut self, name: &str) -> &'a str {
        match end_of(name, self.rest) {
            Some((at, after)) => {
                let text = &self.rest[..at];
                self.rest = &self.rest[after..];
                text
            }
            None => self.take(self.rest.len()),
        }
    }

    /// Goes to the end of an element. Nothing is skipped if it does not end.
    pub(in crate::article) fn skip(&mut self, name: &str) {
        let key = Name::new(name);
        if self.endless.contains(&key) {
            return;
        }
        match end_of(name, self.rest) {
            Some((_, after)) => self.rest = &self.rest[after..],
            None => self.endless.push(key),
        }
    }

    fn take(&mut self, bytes: usize) -> &'a str {
        let (text, rest) = self.rest.split_at(bytes);
        self.rest = rest;
        text
    }

    fn past(&mut self, end: &str, from: usize) {
        let found = memmem::find(&self.rest.as_bytes()[from..], end.as_bytes());
        self.rest = found.map_or("", |at| &self.rest[from + at + end.len()..]);
    }

    /// A tag whose name begins at `from`. One that does not end is none, and there is nothing after it.
    fn tag(&mut self, from: usize) -> Option<Tag<'a>> {
        let inside = &self.rest[from..];
        let end = inside.find(|letter: char| letter.is_ascii_whitespace() || matches!(letter, '/' | '>'));
        let (name, attributes) = inside.split_at(end.unwrap_or(inside.len()));
        let mut rest = attributes;
        while let Some((_, _, after)) = attribute(rest) {
            rest = after;
        }
        let Some(after) = rest.trim_start_matches(is_between).strip_prefix('>') else {
            self.rest = "";
            return None;
        };
        let attributes = &attributes[..attributes.len() - after.len() - 1];
        self.rest = after;
        Some(Tag { name: Name::new(name), closed: attributes.ends_with('/'), attributes })
    }
}

fn is_between(letter: char) -> bool {
    letter.is_ascii_whitespace() || letter == '/'
}

/// The next attribute, its value, and what comes after; nothing at the end of the tag, or of the text.
fn attribute(text: &str) -> Option<(&str, Option<&str>, &str)> {
    let text = text.trim_start_matches(is_between);
    if text.is_empty() || text.starts_with('>') {
        return None;
    }
    // A `=` at the beginning is part of a name.
    let skip = usize::from(text.starts_with('='));
    let end = text[skip..].find(|letter: char| is_between(letter) || matches!(letter, '>' | '='));
    let (name, rest) = text.split_at(end.map_or(text.len(), |end| end + skip));
    let Some(value) = rest.trim_start().strip_prefix('=') else { return Some((name, None, rest)) };
    let value = value.trim_start();
    match value.as_bytes().first() {
        Some(quote @ (b'"' | b'\'')) => {
            let end = memchr(*quote, &value.as_bytes()[1..]);
            let end = end.map_or(value.len(), |end| end + 1);
            Some((name, Some(&value[1..end]), value.get(end + 1..).unwrap_or_default()))
        }
        _ => {
            let end = value.find(|letter: char| letter.is_ascii_whitespace() || letter == '>');
            let (value, rest) = value.split_at(end.unwrap_or(value.len()));
            Some((name, Some(value), rest))
        }
    }
}

/// Where the end tag of an element begins, and where it ends.
fn end_of(name: &str, text: &str) -> Option<(usize, usize)> {
    let bytes = text.as_bytes();
    for at in memmem::find_iter(bytes, b"</") {
        let rest = &bytes[at + 2..];
        let is_it = rest.get(..name.len()).is_some_and(|found| found.eq_ignore_ascii_case(name.as_bytes()));
        let next = rest.get(name.len());
        if is_it && next.is_none_or(|next| next.is_ascii_whitespace() || matches!(next, b'/' | b'>')) {
            let end = memchr(b'>', rest).map_or(bytes.len(), |end| at + 2 + end + 1);
            return Some((at, end));
        }
    }
    None
}
