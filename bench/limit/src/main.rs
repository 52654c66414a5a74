//! The limit: the same work in hand-written SQL with nothing else around it.
//! One table, one partial index, insert, claim with SKIP LOCKED, settle. No
//! lease, no fence, no retry, no limit, no event: the line that nobody can pass.

mod postgres;
mod sqlite;

use peer::{Ask, Fault, Peer, Work};

enum Limit {
    Postgres(postgres::Limit),
    Sqlite(sqlite::Limit),
}

impl Peer for Limit {
    async fn connect(ask: &Ask) -> Result<Self, Fault> {
        Ok(match ask.url.strip_prefix("sqlite:") {
            Some(path) => Self::Sqlite(sqlite::Limit::open(path, ask)?),
            None => Self::Postgres(postgres::Limit::connect(ask).await?),
        })
    }

    async fn enqueue(&self, work: Work) -> Result<(), Fault> {
        match self {
            Self::Postgres(limit) => limit.insert_one(work).await,
            Self::Sqlite(limit) => limit.insert(vec![work]).await,
        }
    }

    async fn enqueue_many(&self, work: Vec<Work>) -> Result<(), Fault> {
        match self {
            Self::Postgres(limit) => limit.insert_many(work).await,
            Self::Sqlite(limit) => limit.insert(work).await,
        }
    }

    async fn work(&self) -> Result<(), Fault> {
        match self {
            Self::Postgres(limit) => limit.work().await,
            Self::Sqlite(limit) => limit.work(),
        }
    }
}

fn main() {
    peer::contest::<Limit>();
}
