//! Files that are not ours, not of this version, or not to be written.

use std::os::unix::fs::PermissionsExt;

use rusqlite::Connection;
use windlass_core::error::StoreError;
use windlass_sqlite::SqliteStore;
use windlass_testkit::clock::FakeClock;

use crate::scene::{open, options};
use windlass_testkit::needs;
use windlass_testkit::small_disk::SmallDisk;

/// Fault 22: a newer schema is refused, and nothing of it is changed.
#[tokio::test]
async fn fault_22_a_newer_schema_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("w.db");
    let clock = FakeClock::default();
    drop(open(&path, &clock).await);
    let conn = Connection::open(&path).expect("the file");
    conn.pragma_update(None, "user_version", 99).expect("a newer version");
    drop(conn);
    let before = std::fs::read(&path).expect("the file");
    let error = SqliteStore::open_with(&path, options(&clock)).await.err().expect("a refusal");
    assert_eq!(error.code(), "schema_mismatch");
    assert!(error.to_string().contains("schema version 99"), "{error}");
    assert_eq!(std::fs::read(&path).expect("the file"), before);
}

/// Fault 22: two programs that open a new file at once make one schema.
#[tokio::test]
async fn fault_22_two_programs_make_one_schema() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("w.db");
    let clock = FakeClock::default();
    let (one, two) = tokio::join!(
        SqliteStore::open_with(&path, options(&clock)),
        SqliteStore::open_with(&path, options(&clock))
    );
    for opened in [one, two] {
        opened.expect("a store that opens");
    }
}

/// The database of another program is refused, and nothing of it is changed;
/// so is a file that is no database.
#[tokio::test]
async fn fault_22_strangers_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let clock = FakeClock::default();
    let foreign = folder.path().join("foreign.db");
    Connection::open(&foreign).expect("a file").execute_batch("CREATE TABLE t (x)").expect("a table");
    let text = folder.path().join("notes.txt");
    std::fs::write(&text, "not a database, ".repeat(100)).expect("a file");
    for path in [foreign, text] {
        let before = std::fs::read(&path).expect("the file");
        let error = SqliteStore::open_with(&path, options(&clock)).await.err().expect("a refusal");
        assert_eq!(error.code(), "schema_mismatch", "{error}");
        assert_eq!(std::fs::read(&path).expect("the file"), before);
    }
}

/// All files of the store belong to their owner alone.
#[tokio::test]
async fn files_are_for_their_owner_only() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("new").join("w.db");
    let store = open(&path, &FakeClock::default()).await;
    let mode = |path: &std::path::Path| std::fs::metadata(path).expect("a file").permissions().mode() & 0o777;
    assert_eq!(mode(path.parent().expect("a folder")), 0o700);
    let mut names = Vec::new();
    for entry in std::fs::read_dir(path.parent().expect("a folder")).expect("the files") {
        let entry = entry.expect("a file");
        assert_eq!(mode(&entry.path()), 0o600, "{}", entry.path().display());
        names.push(entry.file_name().into_string().expect("a name"));
    }
    names.sort();
    assert_eq!(names, ["w.db", "w.db-ballast", "w.db-mark", "w.db-shm", "w.db-wal"]);
    drop(store);
}

/// A file that may not be written is refused with a sentence.
#[tokio::test]
async fn a_read_only_file_is_refused() {
    if !needs::root() {
        return;
    }
    let disk = SmallDisk::mount(8 << 20);
    let path = disk.path().join("w.db");
    let clock = FakeClock::default();
    drop(open(&path, &clock).await);
    disk.freeze();
    let error = SqliteStore::open_with(&path, options(&clock)).await.err().expect("a refusal");
    assert!(matches!(error, StoreError::CannotWrite(_)), "{error}");
    assert!(error.to_string().contains("w.db"), "{error}");
}
