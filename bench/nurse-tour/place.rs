//! A database, the providers' stand-ins, and the program beside them.

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, bail};
use nurse_tour::schema::migrate;
use tokio_postgres::{Client, NoTls};
use windlass_engine::world::{RealWorld, World};
use windlass_postgres::{Options, pool_of};
use windlass_standins::{OpenAi, Twilio};
use windlass_testkit::postgres::{Database, Server};

pub struct Place {
    pub database: Database,
    pub client: Client,
    pub twilio: Twilio,
    openai: OpenAi,
    folder: tempfile::TempDir,
}

impl Place {
    /// A place whose archive is in memory, where there is such a folder: it answers at once, as the stand-ins do, and
    /// what was deleted on the disk a minute ago does not count. `NURSE_TOUR_BENCH_ARCHIVE` names another.
    pub async fn new() -> anyhow::Result<Self> {
        let memory = PathBuf::from("/dev/shm");
        let named = std::env::var_os("NURSE_TOUR_BENCH_ARCHIVE").map(PathBuf::from);
        Self::with_archive(named.or(memory.is_dir().then_some(memory)).unwrap_or_else(std::env::temp_dir))
            .await
    }

    pub async fn with_archive(folder: PathBuf) -> anyhow::Result<Self> {
        let database = Server::shared().await.fresh_database().await;
        let (client, connection) = tokio_postgres::connect(&database.url(), NoTls).await?;
        tokio::spawn(connection);
        migrate(&pool_of(&database.url(), &Options::default())?).await?;
        let (twilio, openai) = (Twilio::start().await, OpenAi::start().await);
        Ok(Self { database, client, twilio, openai, folder: tempfile::tempdir_in(folder)? })
    }

    pub async fn messages(&self, count: i64) -> anyhow::Result<()> {
        let media = self.twilio.media_url("SID", "MESID");
        let sql = "INSERT INTO whatsapp_inbound_messages (message_sid, from_number, agency_id, message_type, media_url, \
                   processing_status, received_at) SELECT 'SM' || n, '+49151', 'agency-1', 'voice', replace($1, 'SID', 'SM' || n), \
                   'READY', to_char(now() AT TIME ZONE 'UTC' + n * interval '1 ms', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"') \
                   FROM generate_series(1, $2::bigint) n";
        self.client.execute(sql, &[&media, &count]).await?;
        self.client.batch_execute("VACUUM ANALYZE whatsapp_inbound_messages").await?;
        Ok(())
    }

    /// Starts the program, with these settings beside those of the place.
    pub fn program(&self, args: &[&str], settings: &[(&str, String)]) -> anyhow::Result<Child> {
        let example = std::env::current_exe()?;
        let program = example
            .parent()
            .and_then(|folder| folder.parent())
            .context("examples lie in PROFILE/examples")?;
        let env: HashMap<&str, String> = HashMap::from([
            ("DATABASE_URL", self.database.url()),
            ("OPENAI_API_KEY", self.openai.key()),
            ("OPENAI_BASE_URL", self.openai.url()),
            ("TWILIO_ACCOUNT_SID", self.twilio.account()),
            ("TWILIO_AUTH_TOKEN", self.twilio.token()),
            ("TWILIO_BASE_URL", self.twilio.url()),
            ("WORKER_ALLOW_ORIGINS", self.twilio.cdn.url()),
            ("AUDIO_STORE_URL", format!("file://{}", self.folder.path().display())),
        ]);
        let mut command = Command::new(program.join("windlass"));
        command.arg("nurse-tour").args(args).env_clear().envs(env).envs(settings.iter().cloned());
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.spawn().context("cannot start target/release/windlass; build it first")
    }

    pub fn worker(&self, concurrency: i64) -> anyhow::Result<Child> {
        let slots = concurrency.to_string();
        self.program(&[], &[("WORKER_CONCURRENCY", slots.clone()), ("WORKER_BATCH_SIZE", slots)])
    }

    /// Waits until so many messages are done. Answers the seconds between the
    /// first and the last commit of a stage, by the database's clock.
    pub async fn done(&self, count: i64) -> anyhow::Result<f64> {
        let (world, sql) = (
            RealWorld::new(),
            "SELECT count(*) FROM whatsapp_inbound_messages WHERE processing_status = 'DONE'",
        );
        loop {
            let open = "SELECT count(*) FROM whatsapp_inbound_messages WHERE processing_status IN ('READY', 'RETRY', 'PROCESSING')";
            if self.client.query_one(open, &[]).await?.get::<_, i64>(0) == 0 {
                break;
            }
            world.sleep_ms(200).await;
        }
        let done: i64 = self.client.query_one(sql, &[]).await?.get(0);
        if done != count {
            bail!("{done} of {count} messages are done; the others failed");
        }
        let span = "SELECT extract(epoch FROM max(at) - min(at) + min(duration_ms) * interval '1 ms')::float8 FROM nurse_tour_audit";
        Ok(self.client.query_one(span, &[]).await?.get(0))
    }
}
