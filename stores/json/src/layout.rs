//! Our own layout.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use windlass_core::book::layout::{Content, Layout, Unreadable};
use windlass_core::book::{Book, Document};
use windlass_core::time::Time;
use windlass_core::timekeeper::Timekeeper;

use crate::checksum::checksum;

/// Our own layout: one line of JSON that begins with the checksum of the rest.
#[derive(Debug, Clone, Copy, Default)]
pub struct Native;

const VERSION: u32 = 1;
const HEAD: &[u8] = b"{\"checksum\":\"";
/// Sixteen digits, and what stands between them and the rest.
const SUM_BYTES: usize = 16;
const NECK: &[u8] = b"\",";

#[derive(Serialize)]
struct Writing<'a> {
    format: &'a str,
    version: u32,
    saved_at: Option<Time>,
    timekeeper: Option<Timekeeper>,
    writes: u64,
    book: Document,
}

#[derive(Deserialize)]
struct Reading<'a> {
    format: String,
    version: u32,
    saved_at: Option<Time>,
    timekeeper: Option<Timekeeper>,
    #[serde(default)]
    writes: u64,
    #[serde(borrow)]
    book: &'a RawValue,
}

const FORMAT: &str = "windlass-json";

impl Layout for Native {
    fn write(&self, content: &Content) -> Result<Vec<u8>, String> {
        let Content { book, timekeeper, saved_at, writes } = content;
        let writing = Writing {
            format: FORMAT,
            version: VERSION,
            saved_at: *saved_at,
            timekeeper: *timekeeper,
            writes: *writes,
            book: book.to_document(),
        };
        let document = serde_json::to_vec(&writing).map_err(|error| error.to_string())?;
        let rest = &document[1..];
        let mut bytes = Vec::with_capacity(document.len() + 64);
        bytes.extend_from_slice(HEAD);
        bytes.extend_from_slice(format!("{:016x}", checksum(rest)).as_bytes());
        bytes.extend_from_slice(NECK);
        bytes.extend_from_slice(rest);
        bytes.push(b'\n');
        Ok(bytes)
    }

    fn read(&self, bytes: &[u8]) -> Result<Content, Unreadable> {
        let rest = verified(bytes).map_err(Unreadable::Damaged)?;
        let text = [b"{", rest].concat();
        let reading: Reading<'_> = serde_json::from_slice(&text).map_err(foreign)?;
        let Reading { format, version, saved_at, timekeeper, writes, book } = reading;
        if format != FORMAT || version != VERSION {
            return Err(Unreadable::Foreign(format!(
                "it is {format} version {version}, and this program reads {FORMAT} version {VERSION}"
            )));
        }
        let document: Document = serde_json::from_str(book.get()).map_err(foreign)?;
        let book = Book::from_document(document).map_err(|error| Unreadable::Foreign(error.to_string()))?;
        Ok(Content { book: Arc::new(book), timekeeper, saved_at, writes })
    }

    fn keeps_records(&self) -> bool {
        true
    }

    fn keeps_epochs(&self) -> bool {
        true
    }
}

/// What stands after the checksum, when it fits the checksum.
fn verified(bytes: &[u8]) -> Result<&[u8], String> {
    let damaged = |why: &str| Err(why.to_owned());
    let Some(after) = bytes.strip_prefix(HEAD) else { return damaged("it does not begin with its checksum") };
    let Some((sum, after)) = after.split_at_checked(SUM_BYTES) else { return damaged("it is cut off") };
    let Some(rest) = after.strip_prefix(NECK) else { return damaged("it is not as it was written") };
    let Some(rest) = rest.strip_suffix(b"\n") else { return damaged("its end is missing") };
    if sum != format!("{:016x}", checksum(rest)).as_bytes() {
        return damaged("its checksum does not fit");
    }
    Ok(rest)
}

/// The checksum fits, so this is what somebody meant to write.
fn foreign(error: serde_json::Error) -> Unreadable {
    // The text of a serde error can quote the document, which holds payloads.
    Unreadable::Foreign(format!(
        "it is no document of this version (line {}, column {})",
        error.line(),
        error.column()
    ))
}
