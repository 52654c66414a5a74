//! What SQLite says, in the words of a store.

use rusqlite::ErrorCode;
use rusqlite::ffi;
use windlass_core::error::{Invalid, StoreError};

/// Why an operation did not work: a refusal of ours, or something SQLite said.
#[derive(Debug)]
pub enum Fail {
    /// Already in the words of a store.
    Store(StoreError),
    /// As SQLite said it.
    Sql(rusqlite::Error),
}

/// What an operation gives.
pub type Done<T> = Result<T, Fail>;

impl From<rusqlite::Error> for Fail {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<StoreError> for Fail {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<Invalid> for Fail {
    fn from(error: Invalid) -> Self {
        Self::Store(error.into())
    }
}

impl Fail {
    /// A stored value that our own code cannot have written.
    pub fn damaged(what: impl std::fmt::Display) -> Self {
        Self::Store(StoreError::Broken(format!(
            "it holds {what}. Check the file with `PRAGMA integrity_check` and restore a backup if need be"
        )))
    }

    /// Whether there was no room left.
    pub fn is_full(&self) -> bool {
        let Self::Sql(error) = self else { return false };
        match extended_code(error) {
            Some(ffi::SQLITE_IOERR_SHMSIZE) => true,
            _ => error.sqlite_error_code() == Some(ErrorCode::DiskFull),
        }
    }

    /// Whether nothing that is written from now on could be trusted: a failed
    /// fsync may have lost pages that a second one would call clean.
    pub fn is_fatal(&self) -> bool {
        let Self::Sql(error) = self else { return false };
        let code = error.sqlite_error_code();
        !self.is_full()
            && matches!(
                code,
                Some(ErrorCode::SystemIoFailure | ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
            )
    }

    /// In the words of a store.
    pub fn into_store_error(self) -> StoreError {
        let full = self.is_full();
        let error = match self {
            Self::Store(error) => return error,
            Self::Sql(error) => error,
        };
        if full {
            return StoreError::CannotWrite(NO_ROOM.into());
        }
        match error.sqlite_error_code() {
            Some(ErrorCode::ReadOnly) => StoreError::CannotWrite(
                "its file is read-only; give this program the right to write the file and its folder".into(),
            ),
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Unavailable(
                "another process has been writing to the file for too long; look for a program that holds \
                 a transaction open on it"
                    .into(),
            ),
            Some(ErrorCode::CannotOpen) => StoreError::Unavailable(format!(
                "its file cannot be opened ({error}); check that it and its folder exist and may be written"
            )),
            Some(ErrorCode::NotADatabase) => {
                StoreError::Broken("its file is not an SQLite database; restore a backup".into())
            }
            Some(ErrorCode::DatabaseCorrupt) => StoreError::Broken(
                "its file is damaged; stop all programs that use it and restore a backup".into(),
            ),
            Some(ErrorCode::SystemIoFailure) => StoreError::Broken(format!(
                "the disk failed ({}); check the disk, then start the program again",
                describe(&error)
            )),
            Some(ErrorCode::ConstraintViolation) => StoreError::Broken(format!(
                "its schema refused a write ({}); nothing was changed, please report this",
                describe(&error)
            )),
            _ => StoreError::Unavailable(describe(&error)),
        }
    }
}

/// What is said when the disk is full.
pub const NO_ROOM: &str = "there is no room left on its disk; free some space";

/// SQLite's own words, which name columns and constraints but never values.
fn describe(error: &rusqlite::Error) -> String {
    match error {
        rusqlite::Error::SqliteFailure(code, Some(message)) => {
            format!("{message}, code {}", code.extended_code)
        }
        rusqlite::Error::SqliteFailure(code, None) => format!("code {}", code.extended_code),
        rusqlite::Error::InvalidColumnType(_, column, found) => {
            format!("column {column} holds a value of type {found}")
        }
        _ => "SQLite refused the statement".to_owned(),
    }
}

fn extended_code(error: &rusqlite::Error) -> Option<i32> {
    match error {
        rusqlite::Error::SqliteFailure(code, _) => Some(code.extended_code),
        _ => None,
    }
}
