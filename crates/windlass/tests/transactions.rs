//! Enqueues inside a transaction of the caller's own: they live and die with it, in Postgres and in SQLite.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use windlass::core::query::{JobFilter, ListRequest};
use windlass::postgres::tokio_postgres;
use windlass::prelude::*;
use windlass::sqlite::rusqlite::{Connection, Transaction, TransactionBehavior};
use windlass::sqlite::{SqliteStore, enqueue_in as enqueue_in_file, enqueue_many_in as enqueue_many_in_file};
use windlass::{JobId, StateName, StoreError, postgres};
use windlass_testkit::postgres::{Database, Server};

#[derive(Debug, Serialize, Deserialize, PartialEq)]
struct Welcome {
    user: String,
}

impl Job for Welcome {
    const KIND: &'static str = "welcome";
    type Output = usize;
    fn key(&self) -> Option<String> {
        Some(self.user.clone())
    }
}

fn welcome(user: &str) -> Welcome {
    Welcome { user: user.to_owned() }
}

async fn letters(job: Welcome, _: Context) -> Result<usize, Failure> {
    Ok(job.user.len())
}

/// Earlier than a worker that is told of work asks by itself: a quarter of a minute.
const EARLIER: Duration = Duration::from_secs(10);

/// An id that is there with another content is what a store refuses.
fn taken(id: JobId) -> JobRequest<usize> {
    JobRequest::from(welcome("somebody else")).id(id)
}

async fn is_there(store: &Arc<dyn Store>, id: JobId) -> bool {
    store.get(id).await.unwrap().is_some()
}

/// A worker that hardly ever asks by itself, and what it has run.
struct Listening {
    ran: mpsc::UnboundedReceiver<String>,
    stop: oneshot::Sender<()>,
    working: tokio::task::JoinHandle<()>,
}

impl Listening {
    fn on(store: Arc<dyn Store>, poll: Duration) -> Self {
        let (say, ran) = mpsc::unbounded_channel();
        let (stop, stopped) = oneshot::channel::<()>();
        let worker = Worker::new(store).poll(poll).state(say).handle(
            async |job: Welcome, ctx: Context<mpsc::UnboundedSender<String>>| -> Result<usize, Failure> {
                ctx.state().send(job.user)?;
                Ok(0)
            },
        );
        let working = tokio::spawn(async move {
            let stopped = async { _ = stopped.await };
            worker.run_until(stopped).await.expect("a worker");
        });
        Self { ran, stop, working }
    }

    async fn end(self) {
        self.stop.send(()).expect("a worker to stop");
        self.working.await.expect("its end");
    }
}

async fn database() -> (Database, Arc<dyn Store>, tokio_postgres::Client) {
    let database = Server::shared().await.fresh_database().await;
    let url = database.url();
    let store = windlass::open(&url).await.unwrap();
    let (sql, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    sql.batch_execute("CREATE TABLE users (name text)").await.unwrap();
    (database, store, sql)
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_commits_and_rolls_back() {
    let (_database, store, mut sql) = database().await;
    let client = Client::new(store.clone());
    let mut ids = Vec::new();
    for (user, commits) in [("Ada", true), ("nobody", false)] {
        let transaction = sql.transaction().await.unwrap();
        transaction.execute("INSERT INTO users VALUES ($1)", &[&user]).await.unwrap();
        let one = postgres::enqueue_in(&transaction, welcome(user)).await.unwrap().id;
        let later = JobRequest::from(welcome(user)).key("another").priority(-1);
        let many = postgres::enqueue_many_in(&transaction, [later]).await.unwrap();
        assert!(!is_there(&store, one).await, "not before the commit");
        match commits {
            true => transaction.commit().await.unwrap(),
            false => transaction.rollback().await.unwrap(),
        }
        ids.push((one, many[0].id, commits));
    }
    for (one, other, commits) in ids {
        assert_eq!((is_there(&store, one).await, is_there(&store, other).await), (commits, commits));
        if commits {
            let job = client.get(one).await.unwrap().unwrap();
            assert_eq!(job.spec.key.unwrap().as_str(), "Ada", "as its type says");
            // Nobody tells it that there is nothing left, and yet it sees so soon.
            let worked = Worker::new(store.clone()).handle(letters).run_until_idle();
            tokio::time::timeout(EARLIER, worked).await.expect("it ends").unwrap();
            assert_eq!(client.result::<Welcome>(one).await.unwrap(), Some(3));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_refuses_all_of_a_batch() {
    let (_database, store, mut sql) = database().await;
    let there = Client::new(store.clone()).enqueue(welcome("Ada")).await.unwrap().id();
    let new = "00000000-0000-7000-8000-000000000007".parse::<JobId>().unwrap();

    // What is wrong with a job itself is said before the database is asked: the transaction goes on.
    let transaction = sql.transaction().await.unwrap();
    let batch = [JobRequest::from(welcome("Bob")).id(new), JobRequest::from(welcome("Bob")).key("")];
    let refused = postgres::enqueue_many_in(&transaction, batch).await;
    assert!(matches!(&refused, Err(StoreError::Invalid(_))), "{refused:?}");
    transaction.execute("INSERT INTO users VALUES ('Bob')", &[]).await.unwrap();
    transaction.commit().await.unwrap();
    assert!(!is_there(&store, new).await);
    assert_eq!(sql.query("SELECT FROM users", &[]).await.unwrap().len(), 1);

    // What the store refuses fails the transaction, as any error of Postgres.
    let transaction = sql.transaction().await.unwrap();
    let batch = [JobRequest::from(welcome("Bob")).id(new), taken(there)];
    postgres::enqueue_many_in(&transaction, batch).await.unwrap_err();
    transaction.execute("INSERT INTO users VALUES ('Bob')", &[]).await.unwrap_err();
    transaction.rollback().await.unwrap();
    assert!(!is_there(&store, new).await);
}

/// What a line of Graphile Worker becomes, as the guide says it.
#[tokio::test(flavor = "multi_thread")]
async fn postgres_takes_the_line_of_the_guide() {
    let page = include_str!("../../../docs/guide/migrating.md");
    let mark = format!("<!-- run: {} -->\n```sql\n", "after graphile-worker, in SQL");
    let (_, line) = page.split_once(&mark).expect("its mark");
    let (_database, store, mut sql) = database().await;
    let transaction = sql.transaction().await.unwrap();
    transaction.batch_execute(line.split("```").next().unwrap()).await.unwrap();
    transaction.commit().await.unwrap();
    let page =
        store.list(ListRequest { filter: JobFilter::default(), limit: 10, after: None }).await.unwrap();
    let [job] = &page.jobs[..] else { panic!("one job: {page:?}") };
    let spec = &job.spec;
    assert_eq!((spec.kind.as_str(), spec.payload.as_str()), ("welcome", r#"{"user":7}"#));
    assert_eq!(spec.key.as_ref().map(|key| key.as_str()), Some("user-7"));
}

/// Called when the transaction commits: by itself the worker would ask again after a quarter of a minute at the earliest.
#[tokio::test(flavor = "multi_thread")]
async fn postgres_wakes_a_worker() {
    let (database, store, mut sql) = database().await;
    let mut listening = Listening::on(store.clone(), Duration::from_secs(3_600));
    // By another store, until it has once been heard: from then on the worker waits.
    let other = windlass::open(&database.url()).await.unwrap();
    Client::new(other.clone()).enqueue(welcome("first")).await.unwrap();
    assert_eq!(listening.ran.recv().await.unwrap(), "first");
    let transaction = sql.transaction().await.unwrap();
    postgres::enqueue_in(&transaction, welcome("Ada")).await.unwrap();
    transaction.commit().await.unwrap();
    let heard = tokio::time::timeout(EARLIER, listening.ran.recv()).await;
    assert_eq!(heard.expect("it is called").unwrap(), "Ada");
    listening.end().await;
}

async fn file(folder: &Path) -> (Arc<dyn Store>, Connection) {
    let path = folder.join("shop.db");
    let store: Arc<dyn Store> = SqliteStore::open(&path).await.unwrap();
    let sql = Connection::open(&path).unwrap();
    sql.busy_timeout(Duration::from_secs(10)).unwrap();
    sql.execute_batch("CREATE TABLE users (name TEXT) STRICT").unwrap();
    (store, sql)
}

fn begin(sql: &mut Connection) -> Transaction<'_> {
    sql.transaction_with_behavior(TransactionBehavior::Immediate).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_commits_and_rolls_back() {
    let folder = tempfile::tempdir().unwrap();
    let (store, mut sql) = file(folder.path()).await;
    let mut ids = Vec::new();
    for (user, commits) in [("Ada", true), ("nobody", false)] {
        let transaction = begin(&mut sql);
        transaction.execute("INSERT INTO users VALUES (?1)", [user]).unwrap();
        let one = enqueue_in_file(&transaction, welcome(user)).unwrap().id;
        let later = JobRequest::from(welcome(user)).key("another").priority(-1);
        let many = enqueue_many_in_file(&transaction, [later]).unwrap();
        match commits {
            true => transaction.commit().unwrap(),
            false => transaction.rollback().unwrap(),
        }
        ids.push((one, many[0].id, commits));
    }
    for (one, other, commits) in &ids {
        assert_eq!((is_there(&store, *one).await, is_there(&store, *other).await), (*commits, *commits));
    }
    // A commit of somebody else's is no cut: the file is the one that it was.
    drop((store, sql));
    let store: Arc<dyn Store> = SqliteStore::open(folder.path().join("shop.db")).await.unwrap();
    Worker::new(store.clone()).handle(letters).run_until_idle().await.unwrap();
    assert_eq!(Client::new(store).result::<Welcome>(ids[0].0).await.unwrap(), Some(3));
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_refuses_all_of_a_batch() {
    let folder = tempfile::tempdir().unwrap();
    let (store, mut sql) = file(folder.path()).await;
    let there = Client::new(store.clone()).enqueue(welcome("Ada")).await.unwrap().id();
    let new = "00000000-0000-7000-8000-000000000007".parse::<JobId>().unwrap();
    let transaction = begin(&mut sql);
    for wrong in [JobRequest::from(welcome("Bob")).key(""), taken(there)] {
        let batch = [JobRequest::from(welcome("Bob")).id(new), wrong];
        enqueue_many_in_file(&transaction, batch).unwrap_err();
    }
    // Nothing of either is left behind, and the transaction goes on.
    transaction.execute("INSERT INTO users VALUES ('Bob')", []).unwrap();
    transaction.commit().unwrap();
    assert!(!is_there(&store, new).await);
    assert_eq!(sql.query_row("SELECT count(*) FROM users", [], |row| row.get::<_, i64>(0)).unwrap(), 1);
    let kept = store.get(there).await.unwrap().unwrap();
    assert_eq!(kept.state.name(), StateName::Queued);
}

/// Nobody calls a worker across the file; it asks again within a second.
#[tokio::test(flavor = "multi_thread")]
async fn sqlite_is_asked_again_within_a_second() {
    let folder = tempfile::tempdir().unwrap();
    let (store, mut sql) = file(folder.path()).await;
    let mut listening = Listening::on(store.clone(), windlass::POLL_DEFAULT);
    Client::new(store.clone()).enqueue(welcome("first")).await.unwrap();
    assert_eq!(listening.ran.recv().await.unwrap(), "first");
    let transaction = begin(&mut sql);
    enqueue_in_file(&transaction, welcome("Ada")).unwrap();
    transaction.commit().unwrap();
    assert_eq!(listening.ran.recv().await.unwrap(), "Ada");
    listening.end().await;
}
