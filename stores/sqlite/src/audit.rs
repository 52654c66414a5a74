//! What contradicts itself in a file.

use rusqlite::Connection;

use crate::fail::Done;

/// Checks the file, and what must hold between its rows.
pub fn audit(conn: &Connection) -> Done<Vec<String>> {
    let mut breaches = Vec::new();
    for sql in [include_str!("../sql/file_check.sql"), include_str!("../sql/audit.sql")] {
        let mut select = conn.prepare(sql)?;
        let mut rows = select.query([])?;
        while let Some(row) = rows.next()? {
            breaches.push(row.get(0)?);
        }
    }
    breaches.retain(|breach: &String| breach != "ok");
    Ok(breaches)
}
