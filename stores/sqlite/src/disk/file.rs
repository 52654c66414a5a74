//! The file: who may read it, whose it is, and how connections to it are set up.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use windlass_core::error::StoreError;

use crate::disk::migrate;
use crate::fail::{Done, Fail};

/// Older ones have a rare race between checkpoints that can damage a file.
const SQLITE_VERSION_MIN: i32 = 3_051_003;

/// Statements that are kept prepared on a connection.
const STATEMENTS_KEPT: usize = 128;
/// How far the log's file is cut back after it was written into the database.
const WAL_BYTES_KEPT: u32 = 64 * 1024 * 1024;

/// Makes the file, for its owner only, when it is not there; refuses one that may not be written.
pub fn create(path: &Path) -> Result<(), StoreError> {
    let folder = folder_of(path);
    let cannot = |error: std::io::Error| cannot_write(path, &error);
    DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(cannot)?;
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(file) => {
            file.sync_all().map_err(cannot)?;
            sync_folder(path)
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            OpenOptions::new().write(true).open(path).map(drop).map_err(|error| read_only(path, &error))
        }
        Err(error) => Err(cannot(error)),
    }
}

/// Makes the names of the files durable. SQLite does that too, and does not
/// look whether it worked.
pub fn sync_folder(path: &Path) -> Result<(), StoreError> {
    let synced = File::open(folder_of(path)).and_then(|folder| folder.sync_all());
    synced.map_err(|error| cannot_write(path, &error))
}

fn folder_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}

fn cannot_write(path: &Path, error: &std::io::Error) -> StoreError {
    StoreError::CannotWrite(format!(
        "{} cannot be made ({error}); choose a folder that this program may write to",
        path.display()
    ))
}

fn read_only(path: &Path, error: &std::io::Error) -> StoreError {
    StoreError::CannotWrite(format!(
        "{} may not be written ({error}); give this program the right to write the file and its folder",
        path.display()
    ))
}

/// The connection that writes: checked, set up and with the newest schema.
pub fn open_writer(path: &Path, busy_ms: u32) -> Done<Connection> {
    if rusqlite::version_number() < SQLITE_VERSION_MIN {
        let found = rusqlite::version();
        return Err(StoreError::Schema(format!(
            "this program was built with SQLite {found}, and 3.51.3 is the oldest that is safe; build it again \
             with the bundled SQLite"
        ))
        .into());
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut conn = Connection::open_with_flags(path, flags)?;
    conn.busy_timeout(Duration::from_millis(u64::from(busy_ms)))?;
    // Before anything is changed: a file of another program stays as it is.
    migrate::refuse_strangers(&conn, path)?;
    use_log(&conn)?;
    conn.execute_batch(sql!("file", "pragmas_writer"))?;
    conn.pragma_update(None, "journal_size_limit", WAL_BYTES_KEPT)?;
    harden(&conn)?;
    migrate::run(&mut conn, path)?;
    rusqlite::vtab::array::load_module(&conn)?;
    Ok(conn)
}

/// Switches the file to a write-ahead log. The switch is a commit that can fail
/// after its answer, and SQLite then goes on without a log; so it is run to its
/// end, and looked at afterwards.
fn use_log(conn: &Connection) -> Done<()> {
    let mut switch = conn.prepare("PRAGMA journal_mode = WAL")?;
    let mut rows = switch.query([])?;
    while rows.next()?.is_some() {}
    let mode: String = conn.pragma_query_value(None, "journal_mode", |row| row.get(0))?;
    if mode == "wal" {
        return Ok(());
    }
    Err(StoreError::Unavailable(format!(
        "its file could not be switched to a write-ahead log (it stays at {mode}); check the disk, and that the \
         file is not on a network file system"
    ))
    .into())
}

/// A connection that reads. The writer has opened the file before.
pub fn open_reader(path: &Path, busy_ms: u32) -> Done<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags)?;
    conn.busy_timeout(Duration::from_millis(u64::from(busy_ms)))?;
    conn.execute_batch(sql!("file", "pragmas_reader"))?;
    harden(&conn)?;
    Ok(conn)
}

/// What a damaged or hostile file could otherwise make SQLite do.
fn harden(conn: &Connection) -> Result<(), Fail> {
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
    // Without this, SQLite plans a statement anew whenever a bound of a range or a LIMIT gets another value.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    conn.set_prepared_statement_cache_capacity(STATEMENTS_KEPT);
    Ok(())
}
