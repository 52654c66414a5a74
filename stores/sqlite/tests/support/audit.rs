//! What must hold between the rows of a file.

use std::path::Path;

use rusqlite::Connection;

/// Fails when the file is damaged, or its rows contradict each other.
pub fn audit(path: &Path) {
    let conn = Connection::open(path).expect("the file of the store");
    let sound: String = conn.query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("a check");
    assert_eq!(sound, "ok", "{}", path.display());
    let mut select = conn.prepare(include_str!("../../sql/audit.sql")).expect("the audit");
    let breaches = select.query_map([], |row| row.get::<_, String>(0)).expect("the audit");
    let breaches: Vec<String> = breaches.map(|breach| breach.expect("a breach")).collect();
    assert!(breaches.is_empty(), "{breaches:#?}");
}
