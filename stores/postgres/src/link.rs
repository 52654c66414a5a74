//! One connection for the length of one call.
//!
//! A connection goes back to its pool only when nothing is under way on it. A
//! call that was given up half-way (timed out, dropped) takes its connection
//! with it, so that the next caller never waits behind it or finds itself in
//! somebody else's transaction.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use deadpool_postgres::{Object, Pool};
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use crate::error::Fault;

/// A parameter with its type.
pub(crate) type Param<'a> = (&'a (dyn ToSql + Sync), Type);

/// Connections to one server.
#[derive(Clone)]
pub(crate) struct Lines {
    pub(crate) pool: Pool,
    /// Not with a transaction pooler in between, where each statement may meet another session.
    pub(crate) named: bool,
}

pub(crate) struct Link {
    object: Option<Object>,
    /// Whether statements have names, so that the server reads each of them once.
    named: bool,
    under_way: AtomicU32,
    in_transaction: AtomicBool,
}

impl Link {
    pub(crate) async fn of(Lines { pool, named }: &Lines) -> Result<Self, Fault> {
        let object = Some(pool.get().await?);
        Ok(Self {
            object,
            named: *named,
            under_way: AtomicU32::new(0),
            in_transaction: AtomicBool::new(false),
        })
    }

    /// Makes a statement known, so that the next use of it is sent at once.
    pub(crate) async fn prepare(&self, sql: &str, types: &[Type]) -> Result<(), Fault> {
        let Some(object) = &self.object else { return Err(gone()) };
        if self.named {
            self.begun();
            let answer = object.prepare_typed_cached(sql, types).await;
            self.ended();
            answer?;
        }
        Ok(())
    }

    /// One statement, one round trip; two when the connection meets it for the first time. Statements that
    /// are known are sent in the order in which they are first looked at, so several can be under way.
    pub(crate) async fn rows(&self, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>, Fault> {
        let Some(object) = &self.object else { return Err(gone()) };
        self.begun();
        let answer =
            if self.named { named(object, sql, params).await } else { object.query_typed(sql, params).await };
        self.ended();
        Ok(answer?)
    }

    /// One statement that answers with one row.
    pub(crate) async fn row(&self, sql: &str, params: &[Param<'_>]) -> Result<Row, Fault> {
        let rows = self.rows(sql, params).await?;
        rows.into_iter().next().ok_or_else(|| Fault::unreadable("an answer", "it has no row"))
    }

    pub(crate) async fn begin(&self) -> Result<(), Fault> {
        self.in_transaction.store(true, Ordering::Relaxed);
        self.simple("BEGIN ISOLATION LEVEL READ COMMITTED").await
    }

    pub(crate) async fn commit(&self) -> Result<(), Fault> {
        self.simple("COMMIT").await?;
        self.in_transaction.store(false, Ordering::Relaxed);
        Ok(())
    }

    pub(crate) async fn rollback(&self) -> Result<(), Fault> {
        self.simple("ROLLBACK").await?;
        self.in_transaction.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// Whether a transaction has begun and not ended.
    pub(crate) fn is_in_transaction(&self) -> bool {
        self.in_transaction.load(Ordering::Relaxed)
    }

    pub(crate) async fn simple(&self, sql: &str) -> Result<(), Fault> {
        let Some(object) = &self.object else { return Err(gone()) };
        self.begun();
        let answer = object.batch_execute(sql).await;
        self.ended();
        Ok(answer?)
    }

    fn begun(&self) {
        self.under_way.fetch_add(1, Ordering::Relaxed);
    }

    fn ended(&self) {
        self.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

async fn named(object: &Object, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>, tokio_postgres::Error> {
    let types: Vec<Type> = params.iter().map(|(_, kind)| kind.clone()).collect();
    let values: Vec<&(dyn ToSql + Sync)> = params.iter().map(|(value, _)| *value).collect();
    let statement = object.prepare_typed_cached(sql, &types).await?;
    object.query(&statement, &values).await
}

impl Drop for Link {
    fn drop(&mut self) {
        if (*self.under_way.get_mut() > 0 || *self.in_transaction.get_mut())
            && let Some(object) = self.object.take()
        {
            drop(Object::take(object));
        }
    }
}

fn gone() -> Fault {
    Fault::unreadable("a connection", "it was given back")
}
