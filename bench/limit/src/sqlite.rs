//! SQLite: WAL, synchronous = FULL, one connection. Every insert call is a
//! commit of its own, as somebody would write it by hand.

use std::sync::{Arc, Mutex, PoisonError};

use peer::{Ask, Fault, Work};
use rusqlite::{Connection, params};

const SCHEMA: &str = "
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = FULL;
    CREATE TABLE IF NOT EXISTS jobs (id INTEGER PRIMARY KEY, state INTEGER NOT NULL DEFAULT 0, payload TEXT NOT NULL);
    CREATE INDEX IF NOT EXISTS jobs_ready ON jobs (id) WHERE state = 0;";
const INSERT: &str = "INSERT INTO jobs (payload) VALUES (?1)";
const CLAIM: &str = "
    UPDATE jobs SET state = 1 WHERE id IN (SELECT id FROM jobs WHERE state = 0 ORDER BY id LIMIT ?1)
    RETURNING id, payload";
const SETTLE: &str = "UPDATE jobs SET state = 2 WHERE id = ?1";

pub struct Limit {
    connection: Arc<Mutex<Connection>>,
    claim: i64,
}

impl Limit {
    pub fn open(path: &str, ask: &Ask) -> Result<Self, Fault> {
        let connection = Connection::open(path)?;
        connection.execute_batch(SCHEMA)?;
        Ok(Self { connection: Arc::new(Mutex::new(connection)), claim: ask.number("claim", 1_000) as i64 })
    }

    pub async fn insert(&self, work: Vec<Work>) -> Result<(), Fault> {
        let connection = self.connection.clone();
        let inserted = tokio::task::spawn_blocking(move || {
            let mut connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
            let transaction = connection.transaction()?;
            {
                let mut insert = transaction.prepare_cached(INSERT)?;
                for work in &work {
                    insert.execute([serde_json::to_string(work)?])?;
                }
            }
            Ok::<(), Fault>(transaction.commit()?)
        });
        inserted.await?
    }

    pub fn work(&self) -> Result<(), Fault> {
        let (connection, claim) = (self.connection.clone(), self.claim);
        std::thread::spawn(move || {
            if let Err(fault) = drain(&connection, claim) {
                eprintln!("the limit failed: {fault}");
                std::process::exit(1);
            }
        });
        Ok(())
    }
}

fn drain(connection: &Mutex<Connection>, limit: i64) -> Result<(), Fault> {
    let mut connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let transaction = connection.transaction()?;
        let rows: Vec<(i64, String)> = transaction
            .prepare_cached(CLAIM)?
            .query_map(params![limit], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect::<Result<_, _>>()?;
        transaction.commit()?;
        if rows.is_empty() {
            return Ok(());
        }
        for (_, payload) in &rows {
            peer::ran(&serde_json::from_str(payload)?);
        }
        let transaction = connection.transaction()?;
        {
            let mut settle = transaction.prepare_cached(SETTLE)?;
            for (id, _) in &rows {
                settle.execute([id])?;
            }
        }
        transaction.commit()?;
    }
}
