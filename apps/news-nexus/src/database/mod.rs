//! The News Nexus database: a SQLite file that other programs use, too.
//!
//! Tables that are missing are created, and none is ever changed. Others write
//! at the same time, so whoever finds the file locked waits, and transactions
//! are short. Calls block; they are made by a process that has nothing else to do.

mod articles;
mod scores;
mod states;

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, Transaction, TransactionBehavior};
use windlass::core::time::Time;

pub(crate) use articles::{Feed, FoundBy};
pub(crate) use scores::{Score, ScoreText};
pub(crate) use states::{AssignText, Assignment, Prompt};

/// How long to wait for a program that is writing.
const BUSY: Duration = Duration::from_secs(30);

/// The open database.
pub(crate) struct Database {
    connection: Connection,
}

/// Why the database could not do it. The text names no file.
#[derive(Debug, thiserror::Error)]
#[error("the database cannot be used: {0}")]
pub(crate) struct DatabaseError(String);

impl From<rusqlite::Error> for DatabaseError {
    fn from(error: rusqlite::Error) -> Self {
        use rusqlite::ErrorCode::{CannotOpen, DatabaseBusy, DatabaseLocked, DiskFull, NotADatabase};
        Self(match (error.sqlite_error_code(), &error) {
            (Some(CannotOpen), _) => "the file cannot be opened; check PATH_DATABASE and NAME_DB".to_owned(),
            (Some(NotADatabase), _) => "the file is not a SQLite database; check NAME_DB".to_owned(),
            (Some(DatabaseBusy | DatabaseLocked), _) => {
                format!("another program has kept it locked for {} s", BUSY.as_secs())
            }
            (Some(DiskFull), _) => "its disk is full".to_owned(),
            (_, rusqlite::Error::SqliteFailure(_, Some(said))) => said.clone(),
            (_, rusqlite::Error::SqlInputError { msg, .. }) => msg.clone(),
            _ => "an answer of it has not the form that was expected; the schema may differ".to_owned(),
        })
    }
}

impl Database {
    /// Opens the database, and makes it and its tables where they are missing.
    pub(crate) fn open(path: &Path) -> Result<Self, DatabaseError> {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder).map_err(|error| {
                DatabaseError(format!("its folder PATH_DATABASE cannot be made: {}", error.kind()))
            })?;
        }
        let connection = Connection::open(path)?;
        connection.busy_timeout(BUSY)?;
        connection.pragma_update(None, "foreign_keys", true)?;
        // Readers and one writer at the same time. Should somebody hold the
        // file just now, it stays as it is; that is slower, not wrong.
        let mode = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get::<_, String>(0));
        if !matches!(mode.as_deref(), Ok("wal")) {
            tracing::warn!("the database could not be switched to WAL; it goes on without");
        }
        connection.execute_batch(include_str!("../../sql/schema.sql"))?;
        Ok(Self { connection })
    }

    /// A transaction that writes: it waits for its turn at the beginning, and
    /// not half way.
    fn transaction(&mut self) -> Result<Transaction<'_>, DatabaseError> {
        Ok(self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?)
    }

    /// Who categorizes articles under the name of this program; others made that entry.
    pub(crate) fn categorizer(&self, name: &str) -> Result<Option<i64>, DatabaseError> {
        use rusqlite::OptionalExtension;
        let found =
            self.connection.query_row(include_str!("../../sql/categorizer.sql"), [name], |row| row.get(0));
        Ok(found.optional()?)
    }
}

/// A moment as the other programs write it: `2026-02-27 20:14:18.123 +00:00`.
pub(crate) fn moment(at: Time) -> String {
    format!("{} +00:00", at.to_string().trim_end_matches('Z').replace('T', " "))
}

/// The day of a moment, UTC.
pub(crate) fn day(at: Time) -> String {
    at.to_string().chars().take(10).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_and_days() {
        let at: Time = "2026-02-27T20:14:18.123Z".parse().unwrap();
        assert_eq!(moment(at), "2026-02-27 20:14:18.123 +00:00");
        assert_eq!(day(at), "2026-02-27");
    }

    #[test]
    fn what_is_there_is_not_changed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/news.db");
        Database::open(&path).unwrap();
        let connection = Connection::open(&path).unwrap();
        let dump = || {
            let mut statement = connection.prepare("SELECT sql FROM sqlite_master ORDER BY name").unwrap();
            let rows = statement.query_map([], |row| row.get::<_, Option<String>>(0)).unwrap();
            rows.collect::<Result<Vec<_>, _>>().unwrap()
        };
        connection
            .execute_batch("DROP TABLE States; CREATE TABLE States (id INTEGER PRIMARY KEY, other TEXT)")
            .unwrap();
        let before = dump();
        Database::open(&path).unwrap();
        assert_eq!(dump(), before);
        assert!(before.iter().flatten().any(|sql| sql.contains("other TEXT")));
    }

    #[test]
    fn errors_name_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("canary-file.db");
        std::fs::write(&path, "this is text and no database, and it is long enough to be looked at").unwrap();
        let text = Database::open(&path).err().unwrap().to_string();
        assert!(text.contains("not a SQLite database") && !text.contains("canary"), "{text}");
        let text = Database::open(folder.path()).err().unwrap().to_string();
        assert!(text.contains("cannot be opened") && !text.contains("tmp"), "{text}");
    }
}
