//! Reading XML from strangers: elements and text, to a depth, and no entities
//! but the five that XML itself knows. A document type is skipped, so nothing
//! can be declared, expanded or fetched.

use std::borrow::Cow;

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

/// What comes next in a document.
pub(crate) enum Part<'a> {
    /// An element begins. One without content is followed by its end all the same.
    Open(BytesStart<'a>),
    /// An element ends.
    Close,
    /// A piece of text.
    Text(Cow<'a, str>),
    /// The document is over.
    Over,
}

/// Why a document is not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum XmlError {
    #[error("it is not well-formed XML")]
    Malformed,
    #[error("its elements are nested too deeply")]
    TooDeep,
}

/// A document that is read part by part.
pub(crate) struct Xml<'a> {
    reader: Reader<&'a [u8]>,
    depth: usize,
    depth_max: usize,
}

impl<'a> Xml<'a> {
    pub(crate) fn new(text: &'a str, depth_max: usize) -> Self {
        let mut reader = Reader::from_str(text);
        reader.config_mut().expand_empty_elements = true;
        // Feeds have bare ampersands in their links.
        reader.config_mut().allow_dangling_amp = true;
        Self { reader, depth: 0, depth_max }
    }

    /// How many elements are open.
    pub(crate) fn depth(&self) -> usize {
        self.depth
    }

    pub(crate) fn next(&mut self) -> Result<Part<'a>, XmlError> {
        loop {
            match self.reader.read_event().map_err(|_| XmlError::Malformed)? {
                Event::Start(element) | Event::Empty(element) => {
                    self.depth += 1;
                    if self.depth > self.depth_max {
                        return Err(XmlError::TooDeep);
                    }
                    return Ok(Part::Open(element));
                }
                Event::End(_) => {
                    self.depth -= 1;
                    return Ok(Part::Close);
                }
                Event::Text(text) => return text.decode().map(Part::Text).map_err(|_| XmlError::Malformed),
                Event::CData(text) => return text.decode().map(Part::Text).map_err(|_| XmlError::Malformed),
                Event::GeneralRef(name) => {
                    let name = name.decode().map_err(|_| XmlError::Malformed)?;
                    return Ok(Part::Text(resolve(name)));
                }
                Event::Eof if self.depth == 0 => return Ok(Part::Over),
                Event::Eof => return Err(XmlError::Malformed),
                Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::DocType(_) => {}
            }
        }
    }

    /// The text of the element that was opened last, of all that is within it, up to its end.
    pub(crate) fn text(&mut self, bytes_max: usize) -> Result<String, XmlError> {
        let (outside, mut all) = (self.depth - 1, String::new());
        while self.depth > outside {
            match self.next()? {
                Part::Text(text) if all.len() < bytes_max => {
                    all.push_str(crate::text::cut(&text, bytes_max - all.len()));
                }
                Part::Over => return Err(XmlError::Malformed),
                _ => {}
            }
        }
        Ok(all)
    }
}

/// The value of an attribute, when it has one that can be read.
pub(crate) fn attribute(element: &BytesStart<'_>, name: &[u8]) -> Option<String> {
    let mut all = element.attributes();
    let mut all = all.with_checks(false).flatten();
    let found = all.find(|attribute| attribute.key.local_name().as_ref() == name)?;
    let raw = std::str::from_utf8(&found.value).ok()?;
    quick_xml::escape::unescape(raw).ok().map(Cow::into_owned)
}

/// What a reference stands for; one that is not known stays as it is written.
fn resolve(name: Cow<'_, str>) -> Cow<'_, str> {
    let known = match &*name {
        "lt" => "<",
        "gt" => ">",
        "amp" => "&",
        "quot" => "\"",
        "apos" => "'",
        "nbsp" => "\u{a0}",
        other => return Cow::Owned(character(other).map_or_else(|| format!("&{other};"), String::from)),
    };
    Cow::Borrowed(known)
}

fn character(name: &str) -> Option<char> {
    let digits = name.strip_prefix('#')?;
    let code = match digits.strip_prefix(['x', 'X']) {
        Some(hex) => u32::from_str_radix(hex, 16).ok()?,
        None => digits.parse().ok()?,
    };
    char::from_u32(code).filter(|letter| *letter == '\t' || *letter == '\n' || !letter.is_control())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(xml: &str) -> Result<String, XmlError> {
        let mut xml = Xml::new(xml, 16);
        loop {
            if let Part::Open(_) = xml.next()? {
                return xml.text(100);
            }
        }
    }

    #[test]
    fn text_and_references() {
        assert_eq!(text_of("<a>1 &lt; <b>2</b> &#65;&#x42; <![CDATA[<c>]]></a>").unwrap(), "1 < 2 AB <c>");
        assert_eq!(
            text_of("<a>x&nbsp;&unknown;&#0;&#27; a & b</a>").unwrap(),
            "x\u{a0}&unknown;&#0;&#27; a & b"
        );
        assert_eq!(text_of("<a/>").unwrap(), "");
        assert_eq!(text_of(&format!("<a>{}</a>", "ü".repeat(80))).unwrap().len(), 100);
    }

    #[test]
    fn entities_are_not_expanded() {
        let laughs = "<!DOCTYPE a [<!ENTITY b \"lol\"><!ENTITY c \"&b;&b;\"><!ENTITY d SYSTEM \"file:///etc/passwd\">]>\
                      <a>&c;&d;</a>";
        assert_eq!(text_of(laughs).unwrap(), "&c;&d;");
    }

    #[test]
    fn broken_and_deep_documents() {
        assert_eq!(text_of("<a><b></a>"), Err(XmlError::Malformed));
        assert_eq!(text_of("<a>"), Err(XmlError::Malformed));
        assert_eq!(text_of(&"<a>".repeat(100_000)), Err(XmlError::TooDeep));
    }
}
