//! Whether other processes have written to the file. What is remembered of it is
//! true until they do.

use rusqlite::Connection;

use crate::fail::Done;

/// What this connection knows of the commits of others.
#[derive(Debug, Default)]
pub struct Others {
    /// Changes with each of them, and with no commit of our own.
    version: Option<i64>,
    /// They cannot write while our transaction does, so the file is asked once in each.
    asked: bool,
}

impl Others {
    /// A transaction begins.
    pub fn begin(&mut self) {
        self.asked = false;
    }

    /// Whether they have written since this was last asked.
    pub fn have_written(&mut self, conn: &Connection) -> Done<bool> {
        if self.asked {
            return Ok(false);
        }
        let mut select = conn.prepare_cached(sql!("file", "data_version"))?;
        let version: i64 = select.query_row([], |row| row.get(0))?;
        self.asked = true;
        Ok(self.version.replace(version) != Some(version))
    }
}
