//! A new life for messages that are over without a document.

use deadpool_postgres::Pool;
use tokio_postgres::types::Type;

use crate::database::{self, DatabaseError};

/// What became of a wish to retry a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Retried {
    /// It is tried again, from the stage that it has reached.
    Yes,
    /// It is not over, or is done: nothing changed. Its status.
    NotOver(String),
    /// There is no such message.
    NotFound,
}

/// Tries messages again, and answers in the order asked.
pub async fn retry(pool: &Pool, sids: &[String]) -> Result<Vec<Retried>, DatabaseError> {
    let rows = database::rows(pool, include_str!("../sql/retry.sql"), &[(&sids, Type::TEXT_ARRAY)]).await?;
    let retried: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    let statuses = "SELECT message_sid::text, coalesce(processing_status, 'none') FROM whatsapp_inbound_messages \
                    WHERE message_sid = ANY ($1)";
    let rows = database::rows(pool, statuses, &[(&sids, Type::TEXT_ARRAY)]).await?;
    let status = |sid: &String| rows.iter().find(|row| row.get::<_, &str>(0) == sid).map(|row| row.get(1));
    let answer = |sid: &String| match retried.contains(sid) {
        true => Retried::Yes,
        false => status(sid).map_or(Retried::NotFound, Retried::NotOver),
    };
    Ok(sids.iter().map(answer).collect())
}

/// Tries all failed messages again. Those that wait for a person stay.
pub async fn retry_all_failed(pool: &Pool) -> Result<usize, DatabaseError> {
    let failed = "SELECT message_sid::text FROM whatsapp_inbound_messages \
                  WHERE message_type = 'voice' AND processing_status = 'FAILED'";
    let rows = database::rows(pool, failed, &[]).await?;
    let sids: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    let answers = retry(pool, &sids).await?;
    Ok(answers.iter().filter(|answer| **answer == Retried::Yes).count())
}
