//! What contradicts itself in a file.

use rusqlite::Connection;
use windlass_core::audit::{AuditBite, AuditFrom};

use crate::fail::Done;

/// The file as SQLite sees it, then what must hold between its rows: each is one question, answered beside the writer.
const PARTS: [&str; 2] = [sql!("file", "check"), include_str!("../../sql/audit.sql")];

/// Asks one of them.
pub fn audit(conn: &Connection, from: AuditFrom) -> Done<AuditBite> {
    let mut findings = Vec::new();
    if let Some(sql) = PARTS.get(from.part as usize) {
        let mut select = conn.prepare(sql)?;
        let mut rows = select.query([])?;
        while let Some(row) = rows.next()? {
            findings.push(row.get(0)?);
        }
        findings.retain(|breach: &String| breach != "ok");
    }
    let done = from.part.saturating_add(1);
    let next = ((done as usize) < PARTS.len()).then_some(AuditFrom { part: done, at: 0 });
    Ok(AuditBite { findings, next, done: u64::from(done).min(PARTS.len() as u64), of: PARTS.len() as u64 })
}

/// Asks all of them.
pub fn whole(conn: &Connection) -> Done<Vec<String>> {
    let mut findings = Vec::new();
    for part in 0..PARTS.len() as u32 {
        findings.extend(audit(conn, AuditFrom { part, at: 0 })?.findings);
    }
    Ok(findings)
}
