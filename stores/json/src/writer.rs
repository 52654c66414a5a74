//! The one thread that writes: takes the newest draft to the disk, again and
//! again. Changes that came meanwhile are in the next one together.

use std::sync::Arc;

use windlass_core::book::layout::{Content, Layout};
use windlass_core::error::StoreError;
use windlass_core::time::Clock;

use crate::desk::{Desk, Sheet};
use crate::file::{NotWritten, StoreFile};

/// What the thread works with.
pub struct Writer {
    pub desk: Arc<Desk>,
    pub file: StoreFile,
    pub layout: Arc<dyn Layout>,
    pub clock: Arc<dyn Clock>,
    /// What is on the disk. A layout that keeps little has nothing new to say
    /// when a lease is renewed; then nothing is written.
    pub last: Vec<u8>,
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
        };
        let bytes = self.layout.write(&content).map_err(NotWritten::Refused)?;
        if bytes == self.last {
            return Ok(());
        }
        self.last.clear();
        self.file.write(&bytes)?;
        self.last = bytes;
        Ok(())
    }
}
