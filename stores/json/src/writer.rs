//! The one thread that writes: takes the newest draft to the disk, again and
//! again. Changes that came meanwhile are in the next one together.

use std::sync::Arc;

use windlass_core::book::layout::{Content, Layout};
use windlass_core::error::StoreError;
use windlass_core::time::Clock;

use crate::desk::{Desk, Sheet};
use crate::file::{NotWritten, StoreFile};
use crate::lock::Lock;
use crate::mark::MarkFile;

/// What the thread works with.
pub struct Writer {
    pub desk: Arc<Desk>,
    pub file: StoreFile,
    pub layout: Arc<dyn Layout>,
    pub clock: Arc<dyn Clock>,
    /// What is on the disk. A layout that keeps little has nothing new to say
    /// when a lease is renewed; then nothing is written.
    pub last: Vec<u8>,
    /// Whether there is a document on the disk, as far as we know.
    pub is_there: bool,
    /// How often it was written.
    pub writes: u64,
    /// Nothing where the layout keeps no epochs.
    pub mark: Option<MarkFile>,
    // Let go of when the thread ends, and not before.
    pub lock: Lock,
}

impl Writer {
    /// Writes until the desk is closed.
    pub fn run(mut self) {
        while let Some((version, sheet)) = self.desk.next_draft() {
            match self.write(&sheet) {
                Ok(()) => self.desk.written(version, sheet),
                Err(NotWritten::Refused(why)) => {
                    tracing::error!(why, "a change could not be written and was undone");
                    self.desk.refused(StoreError::CannotWrite(why));
                }
                Err(NotWritten::Unsure(why)) => {
                    tracing::error!(why, "the store has stopped");
                    self.desk.broke(StoreError::Broken(why));
                }
            }
        }
    }

    fn write(&mut self, sheet: &Sheet) -> Result<(), NotWritten> {
        let Sheet { book, timekeeper } = sheet;
        let content = Content {
            book: book.clone(),
            timekeeper: Some(*timekeeper),
            saved_at: Some(timekeeper.now(self.clock.as_ref())),
            writes: self.writes + 1,
        };
        let bytes = self.layout.write(&content).map_err(NotWritten::Refused)?;
        let whole = self.make_good()?;
        if whole && bytes == self.last {
            return Ok(());
        }
        self.last.clear();
        self.file.write(&bytes)?;
        (self.last, self.is_there, self.writes) = (bytes, true, content.writes);
        if let Some(mark) = &mut self.mark {
            mark.note(content.book.epoch(), content.writes);
        }
        Ok(())
    }

    /// Makes folder and lock again when somebody has deleted them; all that was
    /// in the document is in memory. Answers whether everything was in place.
    fn make_good(&mut self) -> Result<bool, NotWritten> {
        if self.mark.as_ref().is_some_and(MarkFile::is_another) {
            let path = self.file.path().display();
            return Err(NotWritten::Unsure(format!(
                "{path} was replaced by another file while it was open, which was left as it is. Start this program \
                 again to go on with that one"
            )));
        }
        let is_held = self.lock.is_held();
        if is_held && (self.file.is_there() || !self.is_there) {
            return Ok(true);
        }
        let path = self.file.path().display();
        tracing::error!(file = %path, "the store's file or its folder was deleted; it is written again from memory");
        self.file.make_folder()?;
        if !is_held {
            self.lock = Lock::take(&self.file.lock()).map_err(|error| match error {
                StoreError::InUse(why) => NotWritten::Unsure(why),
                other => NotWritten::Refused(other.to_string()),
            })?;
        }
        Ok(false)
    }
}
