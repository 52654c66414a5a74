//! How a book is written as bytes, and read back: the seam between a store that
//! keeps one document and whoever says what that document looks like.

use std::sync::Arc;

use crate::book::Book;
use crate::time::Time;
use crate::timekeeper::Timekeeper;

/// What a file holds.
#[derive(Debug, Clone, Default)]
pub struct Content {
    /// The jobs and all that belongs to them.
    pub book: Arc<Book>,
    /// How the store keeps time; nothing when the layout has no place for it,
    /// then time begins anew by the wall clock.
    pub timekeeper: Option<Timekeeper>,
    /// The time by the store's clock when it was written.
    pub saved_at: Option<Time>,
    /// How often it was written; 0 when the layout has no place for it.
    pub writes: u64,
}

/// Turns a book into bytes and back. A worker that has to keep the file format
/// of a program it replaces brings its own.
///
/// What `write` gave, `read` must give back; whatever else it gets, it must
/// refuse, and never read half a document as a whole one.
pub trait Layout: Send + Sync {
    /// The bytes of a content, or why it cannot be written.
    fn write(&self, content: &Content) -> Result<Vec<u8>, String>;

    /// The content of some bytes.
    fn read(&self, bytes: &[u8]) -> Result<Content, Unreadable>;

    /// Whether records have a place in it. A store says that it keeps none rather than forget them with its next
    /// start.
    fn keeps_records(&self) -> bool {
        false
    }

    /// Whether the store's epoch and the number of its writes have a place in it. Without, a file that was copied or put
    /// back is like any other, and every start lifts the floor of all fences.
    fn keeps_epochs(&self) -> bool {
        false
    }
}

/// Why bytes cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unreadable {
    /// They are not what was once written: the file is set aside.
    Damaged(String),
    /// They are whole, but written by another program or a newer version: the
    /// file is left as it is, and the store does not open.
    Foreign(String),
}
