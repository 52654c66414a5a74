//! Polling in place of being told: a small read says whether there is work in the table, and only then those are called who would
//! ask for rows to claim and for locks that ran out. Where new rows are told on a channel it is read seldom, as the net.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio_postgres::types::Type;
use windlass_core::lease::near_end_ms;
use windlass_core::wake::Work;

use super::mapping::Mapping;
use super::statements::Statements;
use crate::error::Fault;
use crate::hosts::{SIGN_OF_LIFE, pause};
use crate::link::{Lines, Link, Param};
use crate::wake::{Callbacks, Hearing};

/// How often it is read where nobody tells: 46 times a minute. An idle process does a few other things in one, and is to stay
/// under 60.
const READ_EVERY: Duration = Duration::from_millis(1_300);
/// How often where somebody does.
const TOLD_EVERY: Duration = Duration::from_secs(15);
/// The shortest pause, when something is about to be due.
const SOON: Duration = Duration::from_millis(100);

/// What is read, and of which table.
pub(super) struct Watch {
    lines: Lines,
    table: String,
    statement: String,
    tries_max: i64,
    near_ms: i64,
    /// Whether new rows are told on a channel that can be listened to.
    told: bool,
    /// This process has given back a row: what is due next may be another.
    given_back: Arc<Notify>,
}

/// What was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Awaits {
    due: bool,
    /// When the next lock comes near its end, and when the next row is due.
    lock_in_ms: Option<i64>,
    due_in_ms: Option<i64>,
}

impl Awaits {
    /// Whether there is something to do.
    fn calls(self) -> bool {
        self.due || self.lock_in_ms.is_some_and(|ms| ms <= 0)
    }

    /// When to read again, at the latest after `every`.
    fn wait(self, every: Duration) -> Duration {
        let next = [self.lock_in_ms, self.due_in_ms].into_iter().flatten().filter(|ms| *ms > 0).min();
        let next = next.map_or(every, |ms| Duration::from_millis(ms.unsigned_abs()));
        next.clamp(SOON, every)
    }
}

impl Watch {
    pub(super) fn new(
        lines: Lines,
        mapping: &Mapping,
        statements: &Statements,
        told: bool,
        given_back: Arc<Notify>,
    ) -> Self {
        let (tries_max, near_ms) = (i64::from(mapping.tries_max), near_end_ms(mapping.lease_ms));
        let (table, statement) = (mapping.table.clone(), statements.awaits.clone());
        Self { lines, table, statement, tries_max, near_ms, told, given_back }
    }

    /// Reads until it is dropped, and calls when there is something to do.
    pub(super) async fn run(self, callbacks: Arc<Callbacks>, hearing: Arc<Hearing>) {
        loop {
            let seldom = self.told && hearing.is();
            let every = if seldom { TOLD_EVERY } else { READ_EVERY };
            let read = match tokio::time::timeout(SIGN_OF_LIFE, self.read(seldom)).await {
                Ok(Ok(read)) => Some(read),
                Ok(Err(_)) | Err(_) => None,
            };
            if read.is_some_and(Awaits::calls) {
                callbacks.call(&Work::Anywhere);
            }
            // Where somebody tells, whoever listens knows whether he is heard.
            if !self.told && hearing.set(read.is_some()) && read.is_none() {
                tracing::warn!(table = self.table, "cannot read whether there is work; it is asked for");
                callbacks.call(&Work::Anywhere);
            }
            tokio::select! {
                () = self.given_back.notified(), if seldom => {}
                () = pause(read.map_or(every, |read| read.wait(every))) => {}
            }
        }
    }

    async fn read(&self, seldom: bool) -> Result<Awaits, Fault> {
        let (link, now) = (Link::of(&self.lines).await?, None::<i64>);
        let params: [Param<'_>; 4] = [
            (&now, Type::INT8),
            (&self.tries_max, Type::INT8),
            (&self.near_ms, Type::INT8),
            (&seldom, Type::BOOL),
        ];
        let row = link.row(&self.statement, &params).await?;
        Ok(Awaits { due: row.try_get(0)?, lock_in_ms: row.try_get(1)?, due_in_ms: row.try_get(2)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_again_when_something_is_due() {
        let wait = |lock_in_ms, due_in_ms, every_ms| {
            let awaits = Awaits { due: false, lock_in_ms, due_in_ms };
            (awaits.calls(), awaits.wait(Duration::from_millis(every_ms)).as_millis())
        };
        assert_eq!(wait(None, None, 15_000), (false, 15_000));
        assert_eq!(wait(Some(20_000), Some(4_000), 15_000), (false, 4_000));
        assert_eq!(wait(Some(700), None, 1_300), (false, 700));
        assert_eq!(wait(Some(1), None, 1_300), (false, 100));
        assert_eq!(wait(Some(-5), Some(9_000), 1_300), (true, 1_300), "a lock that is looked at now");
    }
}
