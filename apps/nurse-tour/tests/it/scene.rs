//! A database, the providers, and a worker between them.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::oneshot;
use tokio_postgres::{Client, NoTls};
use windlass_engine::Summary;
use windlass_engine::core::time::Clock;
use windlass_engine::world::{RealWorld, World};
use windlass_nurse_tour::mapping::mapping;
use windlass_nurse_tour::schema::{self, Types};
use windlass_nurse_tour::settings::Settings;
use windlass_nurse_tour::worker::{NurseTour, Wiring};
use windlass_postgres::adopted::AdoptedTable;
use windlass_postgres::{Options, pool_of};
use windlass_standins::{OpenAi, Twilio};
use windlass_testkit::eventually::eventually;
use windlass_testkit::postgres::{Database, Server};

pub struct Scene {
    pub database: Database,
    pub client: Client,
    pub twilio: Twilio,
    pub openai: OpenAi,
    pub folder: tempfile::TempDir,
    pub world: Arc<dyn World>,
    /// The clock of the database, when it is not its own.
    pub clock: Option<Arc<dyn Clock>>,
    pub env: HashMap<String, String>,
    /// As whom the worker comes to the database, if not as the owner of the tables.
    pub login: Option<String>,
}

/// A worker that runs until it is told to stop.
pub struct Running {
    stop: oneshot::Sender<()>,
    task: tokio::task::JoinHandle<Summary>,
}

impl Running {
    pub async fn stop(self) -> Summary {
        // One that has ended by itself does not hear it.
        let _ = self.stop.send(());
        self.task.await.expect("the worker ends well")
    }
}

impl Scene {
    /// A migrated database without messages.
    pub async fn new() -> Self {
        let scene = Self::bare().await;
        schema::migrate(&pool_of(&scene.database.url(), &Options::default()).unwrap()).await.unwrap();
        scene
    }

    /// An empty database.
    pub async fn bare() -> Self {
        let database = Server::shared().await.fresh_database().await;
        let (client, connection) = tokio_postgres::connect(&database.url(), NoTls).await.unwrap();
        tokio::spawn(connection);
        let (twilio, openai) = (Twilio::start().await, OpenAi::start().await);
        let folder = tempfile::tempdir().unwrap();
        let origins = format!("{},{}", twilio.cdn.url(), twilio.url());
        let pairs = [
            ("DATABASE_URL", database.url()),
            ("OPENAI_API_KEY", openai.key()),
            ("OPENAI_BASE_URL", openai.url()),
            ("TWILIO_ACCOUNT_SID", twilio.account()),
            ("TWILIO_AUTH_TOKEN", twilio.token()),
            ("TWILIO_BASE_URL", twilio.url()),
            ("WORKER_ALLOW_ORIGINS", origins),
            ("AUDIO_STORE_URL", format!("file://{}", folder.path().join("audio").display())),
            ("WORKER_POLL_INTERVAL_MS", "50".to_owned()),
            // A lock that ran out is taken back in two looks, a third of this apart.
            ("WORKER_LOCK_DURATION_MINUTES", "0.1".to_owned()),
            ("WORKER_ID", "worker_1".to_owned()),
        ];
        let env = pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let world: Arc<dyn World> = Arc::new(RealWorld::new());
        Self { database, client, twilio, openai, folder, world, clock: None, env, login: None }
    }

    pub fn set(&mut self, name: &str, value: &str) {
        self.env.insert(name.to_owned(), value.to_owned());
    }

    pub fn settings(&self) -> Settings {
        Settings::read(&self.env.clone().into_iter().collect()).unwrap()
    }

    pub async fn worker(&self) -> NurseTour {
        let settings = self.settings();
        let mut url = url::Url::parse(&self.database.url()).unwrap();
        if let Some(login) = &self.login {
            url.set_username(login).unwrap();
        }
        let url = url.to_string();
        let options = Options { clock: self.clock.clone(), ..Options::default() };
        let pool = pool_of(&url, &Options::default()).unwrap();
        let types = Types::read(&pool).await.unwrap();
        let source = AdoptedTable::open(&url, options, mapping(&settings.worker, &types)).await.unwrap();
        NurseTour::new(Wiring { source, pool, world: self.world.clone() }, settings).unwrap()
    }

    pub async fn start(&self) -> Running {
        let worker = self.worker().await;
        let (stop, stopped) = oneshot::channel();
        let shutdown = async move { drop(stopped.await) };
        let task = tokio::spawn(async move { worker.run(shutdown).await.unwrap() });
        Running { stop, task }
    }

    /// Works until nothing is READY, RETRY or PROCESSING any more.
    pub async fn drain(&self) -> Summary {
        let running = self.start().await;
        let open = "SELECT count(*) FROM whatsapp_inbound_messages \
                    WHERE processing_status IN ('READY', 'RETRY', 'PROCESSING')";
        eventually("all messages are over", async || (self.count(open).await == 0).then_some(())).await;
        running.stop().await
    }

    /// A READY voice message of an agency, with Twilio's stand-in behind it.
    pub async fn message(&self, sid: &str) {
        let media = self.twilio.media_url(sid, &format!("ME{sid}"));
        self.client
            .execute(
                "INSERT INTO whatsapp_inbound_messages (message_sid, from_number, agency_id, message_type, media_url, \
                 processing_status, current_stage, retry_count, received_at) \
                 VALUES ($1, 'whatsapp:+4915100000001', 'agency-1', 'voice', $2, 'READY', 'RECEIVED', 0, \
                 to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"'))",
                &[&sid, &media],
            )
            .await
            .unwrap();
    }

    pub fn database_name(&self) -> String {
        let url = url::Url::parse(&self.database.url()).unwrap();
        url.path().trim_start_matches('/').to_owned()
    }

    /// A second connection.
    pub async fn admin(&self) -> Client {
        let (client, connection) = tokio_postgres::connect(&self.database.url(), NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }

    /// Another database of the same server.
    pub fn admin_url(&self) -> String {
        let mut url = url::Url::parse(&self.database.url()).unwrap();
        url.set_path("/postgres");
        url.to_string()
    }

    pub async fn sql(&self, sql: &str) {
        self.client.batch_execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    }

    pub async fn count(&self, sql: &str) -> i64 {
        self.client.query_one(sql, &[]).await.unwrap().get(0)
    }

    /// A column of a message, as text.
    pub async fn of(&self, sid: &str, column: &str) -> Option<String> {
        let sql = format!("SELECT {column}::text FROM whatsapp_inbound_messages WHERE message_sid = $1");
        self.client.query_one(&sql, &[&sid]).await.unwrap().get(0)
    }

    pub async fn is(&self, sid: &str, column: &str, expected: &str) {
        assert_eq!(self.of(sid, column).await.as_deref(), Some(expected), "{column} of {sid}");
    }

    pub async fn documents(&self) -> i64 {
        self.count("SELECT count(*) FROM pending_care_documentations").await
    }

    /// How often a path of OpenAI's was asked.
    pub fn asked(&self, path: &str) -> usize {
        self.openai.asked().iter().filter(|ask| ask.path.ends_with(path)).count()
    }
}
