//! What an operator says when whatever stopped the claiming has been put right.

use deadpool_postgres::Pool;

use crate::database::{self, DatabaseError};
use crate::mapping::CHANNEL;

/// Lifts all cool-downs, and lets workers that stopped try at once. Answers what was lifted: `openai`, or
/// `openai of worker_1`.
pub async fn resume(pool: &Pool) -> Result<Vec<String>, DatabaseError> {
    let lift = "WITH c AS (DELETE FROM nurse_tour_cool_downs RETURNING name, until), \
                s AS (DELETE FROM nurse_tour_stops RETURNING worker, provider) \
                SELECT name FROM c WHERE until > now() UNION ALL SELECT provider || ' of ' || worker FROM s ORDER BY 1";
    let rows = database::rows(pool, lift, &[]).await?;
    database::rows(pool, &format!("SELECT pg_notify('{CHANNEL}', '')"), &[]).await?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}
