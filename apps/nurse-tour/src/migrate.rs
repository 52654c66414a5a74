//! Adds what the database lacks, while others work with it.
//!
//! Tables, columns and functions come in one transaction, all or nothing. An index of a table that has rows is
//! built concurrently, which no transaction may hold: nobody's work stands still for it. One whose building
//! broke off is taken away by the next run.

use deadpool_postgres::{Object, Pool};
use tokio_postgres::SimpleQueryMessage;

use crate::database::{DatabaseError, Param, row};
use crate::mapping::MESSAGES;
use crate::schema::{DOCUMENTS, Missing, missing};
use crate::types::Types;

/// How often it is asked whether another has done its migration, a tenth of a second apart.
const TURNS_MAX: u32 = 6_000;

/// Adds what is missing, and says what it added. Safe to repeat, and to run from several machines at once.
pub async fn migrate(pool: &Pool) -> Result<Vec<String>, DatabaseError> {
    let mut alone = pool.get().await?;
    let turn = alone.transaction().await?;
    // It may stand open for as long as an index takes.
    turn.batch_execute("SET LOCAL idle_in_transaction_session_timeout = 0").await?;
    my_turn(&turn).await?;
    // What another has just added is seen from here on.
    let missing = missing(pool).await?;
    unique(pool, &missing).await?;
    let (beside, together): (Vec<Missing>, Vec<Missing>) = missing.into_iter().partition(|one| one.beside);
    let mut added = add(pool, together).await?;
    added.extend(build(pool, beside).await?);
    turn.commit().await?;
    Ok(added)
}

/// Waits for the turn without a statement that stands still: building an index waits for all of those.
async fn my_turn(turn: &deadpool_postgres::Transaction<'_>) -> Result<(), DatabaseError> {
    const ASK: &str = "SELECT pg_try_advisory_xact_lock(hashtext('nurse-tour migrate'))";
    for _ in 0..TURNS_MAX {
        // A simple query leaves nothing open. A prepared one would keep its portal, and with that its snapshot, to
        // the end of the transaction; and building an index waits for every older snapshot: for ever, for this one.
        let said = turn.simple_query(ASK).await?;
        let mine =
            said.iter().any(|one| matches!(one, SimpleQueryMessage::Row(row) if row.get(0) == Some("t")));
        if mine {
            return Ok(());
        }
        turn.batch_execute("SELECT pg_sleep(0.1)").await?;
    }
    Err(DatabaseError::busy("another migration has been under way for ten minutes; see what it waits for"))
}

/// Two rows of one message are for a person to decide, before anything is changed.
async fn unique(pool: &Pool, missing: &[Missing]) -> Result<(), DatabaseError> {
    let types = Types::read(pool).await?;
    for table in [MESSAGES, DOCUMENTS] {
        let wanted = missing.iter().find(|one| {
            one.sql.starts_with("CREATE UNIQUE INDEX")
                && one.sql.contains(&format!(" ON {table} (message_sid)"))
        });
        let Some(one) = wanted.filter(|_| types.has(table, Some("message_sid"))) else { continue };
        let params: [Param<'_>; 0] = [];
        let sql = include_str!("../sql/duplicates.sql").replace("{table}", table);
        if row(pool, &sql, &params).await?.get(0) {
            return Err(DatabaseError::duplicates(&one.what));
        }
    }
    Ok(())
}

async fn add(pool: &Pool, missing: Vec<Missing>) -> Result<Vec<String>, DatabaseError> {
    let mut client = pool.get().await?;
    let transaction = client.transaction().await?;
    for one in &missing {
        transaction
            .batch_execute(&one.sql)
            .await
            .map_err(|error| DatabaseError::migrating(&one.what, &error))?;
    }
    transaction.commit().await?;
    Ok(missing.into_iter().map(|one| one.what).collect())
}

async fn build(pool: &Pool, missing: Vec<Missing>) -> Result<Vec<String>, DatabaseError> {
    if missing.is_empty() {
        return Ok(Vec::new());
    }
    // A connection of its own, since what is set in it is for this alone.
    let client = Object::take(pool.get().await?);
    for setting in ["SET statement_timeout = 0", "SET lock_timeout = 0"] {
        client.batch_execute(setting).await?;
    }
    for one in &missing {
        if let Err(error) = client.batch_execute(&one.sql).await {
            if let Some(name) = index_name(&one.sql) {
                // Half an index costs and serves nobody. The first error is the one to tell.
                let _ = client.batch_execute(&format!("DROP INDEX CONCURRENTLY IF EXISTS {name}")).await;
            }
            return Err(DatabaseError::migrating(&one.what, &error));
        }
    }
    Ok(missing.into_iter().map(|one| one.what).collect())
}

fn index_name(sql: &str) -> Option<&str> {
    sql.split_once("CONCURRENTLY IF NOT EXISTS ")?.1.split(' ').next()
}
