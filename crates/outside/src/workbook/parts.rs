//! The small parts of a workbook: which sheet is where, the shared texts, the formats.

use std::collections::HashMap;
use std::sync::Arc;

use quick_xml::events::BytesStart;

use super::{Limits, WorkbookError};
use crate::text::cut;
use crate::xml::{Part, Xml, XmlError, attribute};

pub(super) const DEPTH_MAX: usize = 64;
/// How many sheets and pointers are looked at; each sheet is looked up among all pointers.
const SHEETS_MAX: usize = 1000;

/// Goes through all elements of a part.
fn elements<'a>(
    text: &'a str,
    mut each: impl FnMut(&mut Xml<'a>, BytesStart<'a>) -> Result<(), WorkbookError>,
) -> Result<(), WorkbookError> {
    let mut xml = Xml::new(text.trim_start_matches('\u{feff}'), DEPTH_MAX);
    loop {
        match xml.next()? {
            Part::Open(element) => each(&mut xml, element)?,
            Part::Over => return Ok(()),
            Part::Close | Part::Text(_) => {}
        }
    }
}

/// A pointer from one part to another.
pub(super) struct Relation {
    pub(super) id: String,
    /// The last word of its type: `worksheet`, `sharedStrings`.
    pub(super) kind: String,
    pub(super) target: String,
}

/// The pointers of a part that lies in `folder`.
pub(super) fn relations(text: &str, folder: &str) -> Result<Vec<Relation>, WorkbookError> {
    let mut all = Vec::new();
    elements(text, |_, element| {
        if element.local_name().as_ref() == b"Relationship" && all.len() < SHEETS_MAX {
            let get = |name: &[u8]| attribute(&element, name).unwrap_or_default();
            let (target, kind) = (get(b"Target"), get(b"Type"));
            let target = match target.strip_prefix('/') {
                Some(absolute) => absolute.to_owned(),
                None => format!("{folder}{target}"),
            };
            let kind = kind.rsplit('/').next().unwrap_or_default().to_owned();
            all.push(Relation { id: get(b"Id"), kind, target });
        }
        Ok(())
    })?;
    Ok(all)
}

/// What the workbook says of itself.
#[derive(Default)]
pub(super) struct Contents {
    /// Names and relation ids of the sheets, in their order.
    pub(super) sheets: Vec<(String, String)>,
    /// Days are counted from 1904.
    pub(super) since_1904: bool,
}

pub(super) fn contents(text: &str) -> Result<Contents, WorkbookError> {
    let mut found = Contents::default();
    elements(text, |_, element| {
        match element.local_name().as_ref() {
            b"sheet" if found.sheets.len() < SHEETS_MAX => {
                let name = attribute(&element, b"name").unwrap_or_default();
                found
                    .sheets
                    .push((cut(&name, 255).to_owned(), attribute(&element, b"id").unwrap_or_default()));
            }
            b"workbookPr" => {
                let since = attribute(&element, b"date1904").unwrap_or_default();
                found.since_1904 = matches!(since.as_str(), "1" | "true");
            }
            _ => {}
        }
        Ok(())
    })?;
    Ok(found)
}

/// The texts that cells share.
pub(super) fn strings(text: &str, limits: &Limits) -> Result<Vec<Arc<str>>, WorkbookError> {
    let mut all = Vec::new();
    elements(text, |xml, element| {
        if element.local_name().as_ref() == b"si" {
            if all.len() == limits.strings_max {
                return Err(WorkbookError::TooLarge { what: "shared texts", max: limits.strings_max as u64 });
            }
            all.push(runs(xml, limits)?.into());
        }
        Ok(())
    })?;
    Ok(all)
}

/// The text of all runs of the element that was opened last. How a word is
/// pronounced is written beside it and is not part of it.
pub(super) fn runs(xml: &mut Xml<'_>, limits: &Limits) -> Result<String, XmlError> {
    let (outside, mut all) = (xml.depth() - 1, String::new());
    while xml.depth() > outside {
        let Part::Open(element) = xml.next()? else { continue };
        match element.local_name().as_ref() {
            b"t" => {
                let left = limits.text_bytes_max - all.len();
                all.push_str(&unescape(&xml.text(left)?));
            }
            b"rPh" => drop(xml.text(0)?),
            _ => {}
        }
    }
    Ok(all)
}

/// Excel writes letters that XML cannot hold as `_x000D_`.
pub(super) fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("_x") {
        out.push_str(&rest[..at]);
        let letter = rest.get(at + 2..at + 7).and_then(|code| code.strip_suffix('_'));
        let letter = letter.and_then(|code| u32::from_str_radix(code, 16).ok()).and_then(char::from_u32);
        match letter {
            Some(letter) => out.push(letter),
            None => out.push_str("_x"),
        }
        rest = &rest[at + if letter.is_some() { 7 } else { 2 }..];
    }
    out.push_str(rest);
    out
}

/// For each format of cells, whether it shows a number as a date.
pub(super) fn date_formats(text: &str) -> Result<Vec<bool>, WorkbookError> {
    let (mut custom, mut formats, mut within) = (HashMap::new(), Vec::new(), false);
    elements(text, |_, element| {
        let number = |name: &[u8]| attribute(&element, name).and_then(|text| text.parse::<u32>().ok());
        match element.local_name().as_ref() {
            b"numFmt" => {
                let code = attribute(&element, b"formatCode").unwrap_or_default();
                custom.insert(number(b"numFmtId"), is_date_code(&code));
            }
            b"cellXfs" => within = true,
            b"cellStyleXfs" | b"cellStyles" | b"dxfs" => within = false,
            b"xf" if within => {
                let id = number(b"numFmtId");
                let built_in = matches!(id, Some(14..=22 | 27..=36 | 45..=47 | 50..=58));
                formats.push(custom.get(&id).copied().unwrap_or(built_in));
            }
            _ => {}
        }
        Ok(())
    })?;
    Ok(formats)
}

/// Whether a format has a letter for a part of a date, outside of quotes and brackets.
fn is_date_code(code: &str) -> bool {
    let mut letters = code.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => drop(letters.by_ref().find(|end| *end == '"')),
            '[' => drop(letters.by_ref().find(|end| *end == ']')),
            '\\' | '_' | '*' => drop(letters.next()),
            'd' | 'm' | 'y' | 'h' | 's' | 'D' | 'M' | 'Y' | 'H' | 'S' => return true,
            // What follows is for negative numbers.
            ';' => return false,
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaped_letters() {
        for (text, expected) in [
            ("a_x000D_b", "a\rb"),
            ("_x", "_x"),
            ("_x00", "_x00"),
            ("_xZZZZ_", "_xZZZZ_"),
            ("_xé000_", "_xé000_"),
        ] {
            assert_eq!(unescape(text), expected);
        }
    }

    #[test]
    fn formats_of_dates() {
        for (code, expected) in [
            ("yyyy-mm-dd", true),
            ("h:mm", true),
            ("0.00", false),
            ("\"days\" 0", false),
            ("[Red]0", false),
            ("0\\d", false),
            ("General", false),
            ("#,##0;[Red]-d", false),
        ] {
            assert_eq!(is_date_code(code), expected, "{code}");
        }
    }
}
