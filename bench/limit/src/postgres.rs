//! Postgres. `--insert copy` takes COPY for batches instead of unnest;
//! `--lanes N` drains over so many connections at once; `--claim N` is how many
//! jobs one claim takes.

use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use futures::SinkExt;
use peer::{Ask, Fault, Work};
use tokio_postgres::{Client, NoTls, Statement};

const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS jobs (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        state smallint NOT NULL DEFAULT 0,
        payload text NOT NULL
    ) WITH (fillfactor = 80);
    CREATE INDEX IF NOT EXISTS jobs_ready ON jobs (id) WHERE state = 0;";
const INSERT_ONE: &str = "INSERT INTO jobs (payload) VALUES ($1)";
const INSERT_MANY: &str = "INSERT INTO jobs (payload) SELECT unnest($1::text[])";
const COPY: &str = "COPY jobs (payload) FROM STDIN";
const CLAIM: &str = "
    UPDATE jobs SET state = 1
     WHERE id = ANY (ARRAY(SELECT id FROM jobs WHERE state = 0 ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED))
    RETURNING id, payload";
const SETTLE: &str = "UPDATE jobs SET state = 2 WHERE id = ANY ($1)";
/// One connection for each of the 16 producers.
const CONNECTIONS: usize = 16;

pub struct Limit {
    url: String,
    connections: Vec<(Client, Statement)>,
    next: AtomicUsize,
    many: Statement,
    copy: bool,
    lanes: u64,
    claim: i64,
}

impl Limit {
    pub async fn connect(ask: &Ask) -> Result<Self, Fault> {
        let first = connect(&ask.url).await?;
        first.batch_execute(SCHEMA).await?;
        let many = first.prepare(INSERT_MANY).await?;
        let mut connections = vec![(first.prepare(INSERT_ONE).await?, first)];
        while connections.len() < CONNECTIONS {
            let client = connect(&ask.url).await?;
            connections.push((client.prepare(INSERT_ONE).await?, client));
        }
        Ok(Self {
            url: ask.url.clone(),
            connections: connections.into_iter().map(|(statement, client)| (client, statement)).collect(),
            next: AtomicUsize::new(0),
            many,
            copy: ask.text("insert") == Some("copy"),
            lanes: ask.number("lanes", 2),
            claim: ask.number("claim", 1_000) as i64,
        })
    }

    pub async fn insert_one(&self, work: Work) -> Result<(), Fault> {
        let (client, statement) = &self.connections[self.next.fetch_add(1, Ordering::Relaxed) % CONNECTIONS];
        client.execute(statement, &[&serde_json::to_string(&work)?]).await?;
        Ok(())
    }

    pub async fn insert_many(&self, work: Vec<Work>) -> Result<(), Fault> {
        let rows: Result<Vec<String>, _> = work.iter().map(serde_json::to_string).collect();
        let (client, _) = &self.connections[0];
        if self.copy {
            let mut sink = Box::pin(client.copy_in::<_, Bytes>(COPY).await?);
            // The payload has no backslash, tab or newline.
            sink.send(Bytes::from(rows?.join("\n") + "\n")).await?;
            sink.close().await?;
        } else {
            client.execute(&self.many, &[&rows?]).await?;
        }
        Ok(())
    }

    pub async fn work(&self) -> Result<(), Fault> {
        for _ in 0..self.lanes {
            let (client, claim) = (connect(&self.url).await?, self.claim);
            tokio::spawn(async move {
                if let Err(fault) = drain(client, claim).await {
                    eprintln!("the limit failed: {fault}");
                    std::process::exit(1);
                }
            });
        }
        Ok(())
    }
}

async fn connect(url: &str) -> Result<Client, Fault> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

async fn drain(client: Client, limit: i64) -> Result<(), Fault> {
    let claim = client.prepare(CLAIM).await?;
    let settle = client.prepare(SETTLE).await?;
    loop {
        let rows = client.query(&claim, &[&limit]).await?;
        if rows.is_empty() {
            return Ok(());
        }
        for row in &rows {
            peer::ran(&serde_json::from_str(row.get(1))?);
        }
        let ids: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
        client.execute(&settle, &[&ids]).await?;
    }
}
