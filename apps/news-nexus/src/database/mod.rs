//! The News Nexus database: a SQLite file that other programs use, too.
//!
//! Tables that are missing are created, and none is ever changed; nor is the
//! file's journal mode, which belongs to its owner. Others write at the same time, so whoever finds the file locked waits, and transactions
//! are short. Calls block; they are made by a process that has nothing else to do.

mod articles;
mod first_rows;
mod scores;
mod states;

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, Transaction, TransactionBehavior};
use windlass_engine::core::time::Time;

pub(crate) use articles::Feed;
pub(crate) use first_rows::Categorizer;
pub(crate) use scores::{Score, ScoreText};
pub(crate) use states::{AssignText, Assignment, Prompt};

/// How long to wait for a program that is writing.
const BUSY: Duration = Duration::from_secs(30);

/// How often work is begun again because the file was replaced meanwhile.
const REPLACED_MAX: usize = 5;

/// The open database.
pub(crate) struct Database {
    connection: Connection,
    path: PathBuf,
    file: Option<FileId>,
    /// How many files were opened at this place before.
    generation: u64,
}

/// Which file it is, whatever it is called: device and inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileId(u64, u64);

impl FileId {
    fn of(path: &Path) -> Option<Self> {
        std::fs::metadata(path).ok().map(|file| Self(file.dev(), file.ino()))
    }
}

/// Why the database could not do it. The text names no file.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct DatabaseError(String);

impl DatabaseError {
    fn unusable(why: &str) -> Self {
        Self(format!("the database cannot be used: {why}"))
    }
}

impl From<rusqlite::Error> for DatabaseError {
    fn from(error: rusqlite::Error) -> Self {
        use rusqlite::ErrorCode::{CannotOpen, DatabaseBusy, DatabaseLocked, DiskFull, NotADatabase};
        let why = match (error.sqlite_error_code(), &error) {
            (Some(CannotOpen), _) => "the file cannot be opened; check PATH_DATABASE and NAME_DB".to_owned(),
            (Some(NotADatabase), _) => "the file is not a SQLite database; check NAME_DB".to_owned(),
            (Some(DatabaseBusy | DatabaseLocked), _) => {
                format!("another program has kept it locked for {} s", BUSY.as_secs())
            }
            (Some(DiskFull), _) => "its disk is full".to_owned(),
            (_, rusqlite::Error::SqliteFailure(_, Some(said))) => said.clone(),
            (_, rusqlite::Error::SqlInputError { msg, .. }) => msg.clone(),
            _ => "an answer of it has not the form that was expected; the schema may differ".to_owned(),
        };
        Self::unusable(&why)
    }
}

impl Database {
    /// Opens the database of a job. One that is not there is made, and that is said: whoever has one has lost it.
    pub(crate) fn open(path: &Path) -> Result<Self, DatabaseError> {
        let is_new = !path.exists();
        let database = Self::make(path)?;
        if is_new {
            tracing::warn!(
                "The database file was not there; a new one was made, without articles. If there was one, stop the server, \
                 put it back and check PATH_DATABASE and NAME_DB"
            );
        }
        Ok(database)
    }

    /// Opens the database, and makes it and its tables where they are missing.
    pub(crate) fn make(path: &Path) -> Result<Self, DatabaseError> {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder).map_err(|error| {
                DatabaseError::unusable(&format!("its folder PATH_DATABASE cannot be made: {}", error.kind()))
            })?;
        }
        let connection = Connection::open(path)?;
        connection.busy_timeout(BUSY)?;
        connection.pragma_update(None, "foreign_keys", true)?;
        connection.execute_batch(include_str!("../../sql/schema.sql"))?;
        Ok(Self { connection, file: FileId::of(path), path: path.to_owned(), generation: 0 })
    }

    /// Whether the file that is open is the one that others find: somebody may
    /// have put another in its place, or deleted it.
    pub(crate) fn is_current(&self) -> bool {
        self.file.is_some() && self.file == FileId::of(&self.path)
    }

    /// Opens the file that is in the place now, if it is another one. Answers
    /// whether it was; then no id that was read before means anything.
    pub(crate) fn follow(&mut self) -> Result<bool, DatabaseError> {
        if self.is_current() {
            return Ok(false);
        }
        tracing::error!(
            "The database file was replaced or deleted; the job goes on with what is in its place now"
        );
        let generation = self.generation + 1;
        *self = Self { generation, ..Self::open(&self.path.clone())? };
        Ok(true)
    }

    /// Which file it is of those that were at this place: ids of one say nothing in the next.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Does something to the file that is in the place now; again, if it was
    /// replaced meanwhile, for then what was written is gone with it. The work
    /// is told whether it has another file before it than the caller knew.
    pub(crate) fn on_current<T>(
        &mut self,
        mut work: impl FnMut(&mut Self, bool) -> Result<T, DatabaseError>,
    ) -> Result<T, DatabaseError> {
        let mut replaced = false;
        for _ in 0..REPLACED_MAX {
            replaced |= self.follow()?;
            let done = work(self, replaced);
            if self.is_current() {
                return done;
            }
        }
        Err(DatabaseError::unusable("its file is replaced again and again; let it be for a while"))
    }

    /// A transaction that writes: it waits for its turn at the beginning, and
    /// not half way.
    fn transaction(&mut self) -> Result<Transaction<'_>, DatabaseError> {
        Ok(self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?)
    }

    /// Who categorizes articles under the name of this program.
    pub(crate) fn categorizer(&self, name: &str) -> Result<Option<i64>, DatabaseError> {
        use rusqlite::OptionalExtension;
        let found =
            self.connection.query_row(include_str!("../../sql/categorizer.sql"), [name], |row| row.get(0));
        Ok(found.optional()?)
    }

    /// As [`Self::categorizer`]; others make that entry, or `init` does.
    pub(crate) fn known_categorizer(&self, name: &str) -> Result<i64, DatabaseError> {
        self.categorizer(name)?.ok_or_else(|| {
            DatabaseError(format!(
                "the database has no entry for {name}: run `windlass news-nexus init`, or add it to \
                 ArtificialIntelligences and its id to EntityWhoCategorizedArticles"
            ))
        })
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

    /// Whether readers wait for writers is for the owner of the file to say.
    #[test]
    fn the_journal_mode_stays_as_it_is() {
        for mode in ["delete", "wal", "truncate"] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("news.db");
            let ask = |sql: &str| -> String {
                Connection::open(&path).unwrap().query_row(sql, [], |row| row.get(0)).unwrap()
            };
            ask(&format!("PRAGMA journal_mode = {mode}"));
            Connection::open(&path).unwrap().execute_batch("CREATE TABLE owned (id INTEGER)").unwrap();
            let before = std::fs::read(&path).unwrap()[18];
            let mut database = Database::open(&path).unwrap();
            database.found_by(Time::from_ms(0)).unwrap();
            let during: String =
                database.connection.query_row("PRAGMA journal_mode", [], |row| row.get(0)).unwrap();
            drop(database);
            assert_eq!(during == "wal", mode == "wal", "{during}");
            assert_eq!(std::fs::read(&path).unwrap()[18], before, "{mode}");
        }
    }

    /// A file that was put in the place of the open one is the one that is written to.
    #[test]
    fn a_replaced_file_is_followed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("news.db");
        let finders = || -> i64 {
            let connection = Connection::open(&path).unwrap();
            connection.query_row("SELECT count(*) FROM EntityWhoFoundArticles", [], |row| row.get(0)).unwrap()
        };
        let mut database = Database::open(&path).unwrap();
        assert!(database.is_current() && !database.follow().unwrap());
        let other = folder.path().join("other.db");
        drop(Database::open(&other).unwrap());
        std::fs::rename(&other, &path).unwrap();
        assert!(!database.is_current());
        database.on_current(|database, _| database.found_by(Time::from_ms(0))).unwrap();
        assert_eq!(finders(), 1);
        std::fs::remove_file(&path).unwrap();
        let mut times = 0;
        database
            .on_current(|database, replaced| {
                assert!(replaced);
                times += 1;
                let found = database.found_by(Time::from_ms(0))?;
                if times == 1 {
                    std::fs::remove_file(&path).unwrap();
                }
                Ok(found)
            })
            .unwrap();
        assert_eq!((times, finders()), (2, 1), "what was replaced meanwhile is done again");
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
