//! The schema and its versions. A migration that has shipped is never edited.

use std::path::Path;

use rusqlite::functions::FunctionFlags;
use rusqlite::{Connection, TransactionBehavior};
use windlass_core::error::StoreError;

use crate::fail::{Done, Fail};
use crate::ready::slot;

/// What marks a file as ours: "WNDL".
const APPLICATION_ID: i64 = 0x574E_444C;

const MIGRATIONS: [&str; 11] = [
    include_str!("../../migrations/0001_init.sql"),
    include_str!("../../migrations/0002_due.sql"),
    include_str!("../../migrations/0003_narrow.sql"),
    include_str!("../../migrations/0004_heirs.sql"),
    include_str!("../../migrations/0005_asked.sql"),
    include_str!("../../migrations/0006_records.sql"),
    include_str!("../../migrations/0007_looks.sql"),
    include_str!("../../migrations/0008_gates.sql"),
    include_str!("../../migrations/0009_epochs.sql"),
    include_str!("../../migrations/0010_pauses.sql"),
    include_str!("../../migrations/0011_actions.sql"),
];

/// Refuses a file that belongs to another program, or to a newer version of
/// this one. Changes nothing.
pub fn refuse_strangers(conn: &Connection, path: &Path) -> Done<()> {
    // In one transaction: another program may be making the schema at this moment.
    match conn.unchecked_transaction().and_then(|tx| marks(&tx)) {
        Ok(marks) => marks.check(path),
        Err(error) if error.sqlite_error_code() == Some(rusqlite::ErrorCode::NotADatabase) => {
            Err(StoreError::Schema(format!(
                "{} is not an SQLite database; give the path of another file",
                path.display()
            ))
            .into())
        }
        Err(error) => Err(error.into()),
    }
}

/// Refuses a connection to anything but the file of a store with this very schema.
pub fn require_newest(conn: &Connection) -> Done<()> {
    let Marks { application_id, version, .. } = marks(conn)?;
    if application_id == APPLICATION_ID && version == MIGRATIONS.len() as i64 {
        return Ok(());
    }
    let why = "this is not the file of a store, or not of this version; open it once with SqliteStore::open";
    Err(StoreError::Schema(why.into()).into())
}

/// Brings the schema to the newest version, in one transaction.
pub fn run(conn: &mut Connection, path: &Path) -> Done<()> {
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Again, now that nobody else can change it.
    let marks = marks(&tx)?;
    marks.check(path)?;
    let done = usize::try_from(marks.version).unwrap_or(0);
    if done == MIGRATIONS.len() {
        return Ok(());
    }
    know_slots(&tx)?;
    for migration in &MIGRATIONS[done..] {
        tx.execute_batch(migration)?;
    }
    tx.pragma_update(None, "application_id", APPLICATION_ID)?;
    tx.pragma_update(None, "user_version", MIGRATIONS.len() as i64)?;
    tx.commit()?;
    Ok(())
}

/// Migrations have to give keys their slots.
fn know_slots(conn: &Connection) -> Done<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    conn.create_scalar_function("windlass_slot", 2, flags, |call| {
        Ok(slot::of(call.get_raw(0).as_str()?, call.get_raw(1).as_str()?))
    })?;
    Ok(())
}

struct Marks {
    application_id: i64,
    version: i64,
    empty: bool,
}

fn marks(conn: &Connection) -> rusqlite::Result<Marks> {
    Ok(Marks {
        application_id: conn.pragma_query_value(None, "application_id", |row| row.get(0))?,
        version: conn.pragma_query_value(None, "user_version", |row| row.get(0))?,
        empty: conn.query_row("SELECT NOT EXISTS (SELECT 1 FROM sqlite_schema)", [], |row| row.get(0))?,
    })
}

impl Marks {
    fn check(&self, path: &Path) -> Result<(), Fail> {
        let Self { application_id, version, empty } = *self;
        if application_id == 0 && version == 0 && empty {
            return Ok(());
        }
        let newest = MIGRATIONS.len();
        let why = if application_id != APPLICATION_ID {
            format!("{} is the database of another program; give the path of another file", path.display())
        } else if version > newest as i64 {
            format!(
                "{} has schema version {version}, and this program knows versions up to {newest}; use the \
                 newer program, or a backup from before it was used",
                path.display()
            )
        } else {
            return Ok(());
        };
        Err(StoreError::Schema(why).into())
    }
}
