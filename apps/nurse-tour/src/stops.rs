//! Why nothing is claimed, where everybody can see it: rows that `status` shows and `resume` takes away.
//!
//! A provider that wants to be left alone is left alone by the whole fleet (`nurse_tour_cool_downs`). A worker whose
//! own settings are wrong stops by itself (`nurse_tour_stops`), for others may have the right ones.

use deadpool_postgres::Pool;
use tokio_postgres::types::Type;

use crate::database::{self, DatabaseError, Param};

/// How long the one message has that tries whether a cool-down is over, before another may.
const TRIAL_MS: i64 = 30_000;

/// The rows of one worker.
pub(crate) struct Stops {
    pool: Pool,
    worker: String,
}

/// What holds back this worker.
#[derive(Debug, Clone, Default)]
pub(crate) struct Held {
    /// The providers on account of which it has stopped. One that it knows of and that is not here was lifted.
    pub(crate) stops: Vec<String>,
    /// The cool-downs.
    pub(crate) cooling: Vec<Cooling>,
}

/// A provider that wants to be left alone, or whose wish for that is over and has to be tried.
#[derive(Debug, Clone)]
pub(crate) struct Cooling {
    pub(crate) provider: String,
    /// How long still; nothing or less when one message may try.
    pub(crate) for_ms: i64,
    pub(crate) why: Option<String>,
}

impl Stops {
    pub(crate) fn new(pool: Pool, worker: String) -> Self {
        Self { pool, worker }
    }

    /// Says that this worker has stopped.
    pub(crate) async fn put(&self, provider: &str, why: &str, for_ms: u64) -> Result<(), DatabaseError> {
        let for_ms = i64::try_from(for_ms).unwrap_or(i64::MAX);
        let params: [Param<'_>; 4] =
            [(&self.worker, Type::TEXT), (&provider, Type::TEXT), (&why, Type::TEXT), (&for_ms, Type::INT8)];
        database::rows(&self.pool, include_str!("../sql/stop.sql"), &params).await.map(drop)
    }

    /// Says that it goes on, as far as this provider is concerned; all of them when none is named.
    pub(crate) async fn lift(&self, provider: Option<&str>) -> Result<(), DatabaseError> {
        let sql = "DELETE FROM nurse_tour_stops WHERE worker = $1 AND ($2::text IS NULL OR provider = $2)";
        let params: [Param<'_>; 2] = [(&self.worker, Type::TEXT), (&provider, Type::TEXT)];
        database::rows(&self.pool, sql, &params).await.map(drop)
    }

    /// Looks what holds back this worker.
    pub(crate) async fn look(&self) -> Result<Held, DatabaseError> {
        let sql = include_str!("../sql/stops_look.sql");
        let rows = database::rows(&self.pool, sql, &[(&self.worker, Type::TEXT)]).await?;
        let mut held = Held::default();
        for row in rows {
            match row.get::<_, &str>(0) {
                "stop" => held.stops.push(row.get(1)),
                _ => held.cooling.push(Cooling { provider: row.get(1), for_ms: row.get(2), why: row.get(3) }),
            }
        }
        Ok(held)
    }

    /// Says why a provider cools down.
    pub(crate) async fn explain(&self, provider: &str, why: &str) -> Result<(), DatabaseError> {
        // A trial that was made is over: the next is due when the provider wants no more to be left alone.
        let sql = "UPDATE nurse_tour_cool_downs SET why = $2, trial_until = NULL WHERE name = $1";
        database::rows(&self.pool, sql, &[(&provider, Type::TEXT), (&why, Type::TEXT)]).await.map(drop)
    }

    /// Asks for the one trial of the fleet after a cool-down.
    pub(crate) async fn may_try(&self) -> Result<bool, DatabaseError> {
        let sql = include_str!("../sql/cool_trial.sql");
        Ok(!database::rows(&self.pool, sql, &[(&TRIAL_MS, Type::INT8)]).await?.is_empty())
    }

    /// Nobody was there to make the trial: the next may.
    pub(crate) async fn untried(&self) -> Result<(), DatabaseError> {
        let sql = "UPDATE nurse_tour_cool_downs SET trial_until = NULL WHERE until <= now()";
        database::rows(&self.pool, sql, &[]).await.map(drop)
    }

    /// A provider works again: its cool-down is over for all.
    pub(crate) async fn warm(&self, provider: &str) -> Result<(), DatabaseError> {
        let sql = "DELETE FROM nurse_tour_cool_downs WHERE name = $1 AND until <= now()";
        database::rows(&self.pool, sql, &[(&provider, Type::TEXT)]).await.map(drop)
    }
}
