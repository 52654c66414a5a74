//! One entry: operations that were done together.

use std::sync::Arc;

use mongodb::bson::oid::ObjectId;
use mongodb::bson::spec::BinarySubtype;
use mongodb::bson::{Binary, DateTime};
use serde::{Deserialize, Serialize};
use windlass_core::error::StoreError;
use windlass_core::time::Time;

use super::Copy;
use super::op::{Answer, Op};

/// What an operation means. It is raised with every change of `core` that makes an operation do something else, since
/// programs that disagree about that must not share a journal. Entries of meaning 1 held only what had been tried and
/// had changed something; 2 also holds what is refused, or changes nothing, once its turn comes; in 3 one operation
/// cancels or retries many jobs; in 4 an entry names the one before it, and may begin an epoch; in 5 jobs that are alike are
/// written once (`jobs_form`).
pub(crate) const MEANING: i32 = 5;
const MEANINGS_READ: std::ops::RangeInclusive<i32> = 1..=MEANING;
/// How much of an entry is in one document; MongoDB takes 16 MB.
pub(crate) const PART_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Operations that follow each other, at one moment.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) number: i64,
    pub(crate) mark: ObjectId,
    /// The mark of the entry before it. Until meaning 4 none was named.
    pub(crate) after: Option<ObjectId>,
    pub(crate) at: Time,
    /// Which program wrote it.
    pub(crate) by: ObjectId,
    pub(crate) ops: Vec<Arc<Op>>,
}

/// What became of an operation: its answer, and whether it changed anything.
pub(crate) type Done = Result<(Answer, bool), StoreError>;

/// An entry as a document.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Stored {
    #[serde(rename = "_id")]
    pub(crate) number: i64,
    pub(crate) mark: ObjectId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    after: Option<ObjectId>,
    at: DateTime,
    by: ObjectId,
    meaning: i32,
    /// The operations as JSON, unless they are in parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    body: Option<Binary>,
    pub(crate) parts: u32,
    /// The server's time when it was read.
    #[serde(default, skip_serializing)]
    pub(crate) now: Option<DateTime>,
}

/// A piece of what does not fit into one document.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Part {
    #[serde(rename = "_id")]
    id: String,
    /// Of which entry.
    pub(crate) number: i64,
    pub(crate) bytes: Binary,
}

impl Part {
    /// Sorted by their ids, parts are in their order.
    pub(crate) fn id(mark: &str, at: u32) -> String {
        format!("{mark}.{at:06}")
    }

    /// Cuts bytes into parts.
    pub(crate) fn cut(mark: &str, number: i64, bytes: &[u8]) -> Vec<Self> {
        let part = |(at, bytes): (usize, &[u8])| Self {
            id: Self::id(mark, at as u32),
            number,
            bytes: binary(bytes),
        };
        bytes.chunks(PART_BYTES_MAX).enumerate().map(part).collect()
    }

    pub(crate) fn joined(parts: &[Self]) -> Vec<u8> {
        parts.iter().flat_map(|part| part.bytes.bytes.iter().copied()).collect()
    }
}

fn binary(bytes: &[u8]) -> Binary {
    Binary { subtype: BinarySubtype::Generic, bytes: bytes.to_vec() }
}

impl Entry {
    /// The entry as a document, what does not fit into it, and how many bytes its operations have.
    pub(crate) fn stored(&self) -> Result<(Stored, Vec<Part>, usize), StoreError> {
        let body = serde_json::to_vec(&self.ops).map_err(|error| StoreError::Unfit(error.to_string()))?;
        let parts = match body.len() > PART_BYTES_MAX {
            true => Part::cut(&self.mark.to_hex(), self.number, &body),
            false => Vec::new(),
        };
        let stored = Stored {
            number: self.number,
            mark: self.mark,
            after: self.after,
            at: DateTime::from_millis(self.at.ms()),
            by: self.by,
            meaning: MEANING,
            body: Some(binary(if parts.is_empty() { &body } else { &[] })),
            parts: parts.len() as u32,
            now: None,
        };
        Ok((stored, parts, body.len()))
    }

    /// The entry of a document, and how many bytes its operations have.
    pub(crate) fn read(stored: Stored, parts: Vec<Part>) -> Result<(Self, usize), StoreError> {
        let Stored { number, mark, after, at, by, meaning, body, parts: _, now: _ } = stored;
        if !MEANINGS_READ.contains(&meaning) {
            return Err(StoreError::Schema(format!(
                "entry {number} of the journal was written by a program that understands operations otherwise \
                 ({meaning}, and here {MEANING}); let all programs be of one version"
            )));
        }
        let body = match parts.is_empty() {
            true => body.map(|body| body.bytes).unwrap_or_default(),
            false => Part::joined(&parts),
        };
        let unreadable =
            |why: String| StoreError::Broken(format!("entry {number} of the journal cannot be read: {why}"));
        let ops = serde_json::from_slice(&body).map_err(|error| unreadable(error.to_string()))?;
        Ok((Self { number, mark, after, at: Time::from_ms(at.timestamp_millis()), by, ops }, body.len()))
    }

    /// Does to a copy what it says, and answers what became of each operation. What is refused is refused in every
    /// copy alike, and changes nothing. So is all of an entry that was written behind another one than is here.
    pub(crate) fn replay(&self, copy: &mut Copy, bytes: usize) -> Vec<Done> {
        let is_void = self.after.is_some_and(|after| after != copy.mark);
        let mut done = Vec::with_capacity(self.ops.len());
        for op in &self.ops {
            done.push(match &**op {
                _ if is_void => Err(StoreError::Unavailable("the history of the store was cut".to_owned())),
                Op::Turn(turn) => turn.apply(copy, self.at),
                op => op.apply(&mut copy.book, self.at),
            });
        }
        copy.before = Some(copy.mark);
        copy.number = self.number;
        copy.mark = self.mark;
        copy.at = self.at;
        copy.bytes += bytes;
        done
    }
}
