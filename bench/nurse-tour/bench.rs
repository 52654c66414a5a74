//! Measures the Nurse Tour worker: messages a second, the time of a claim
//! beside a million finished messages, and memory with large notes in flight.
//!
//! The worker is the real program, in a process of its own; Postgres and the
//! stand-ins (which answer at once) share the machine with it.

use std::collections::HashMap;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use anyhow::{Context, bail};
use tokio_postgres::{Client, NoTls};
use uuid::Uuid;
use windlass::core::id::{QueueName, WorkerName};
use windlass::core::store::{ClaimRequest, Leased, Settlement, Source};
use windlass::core::transition::Outcome;
use windlass::world::{RealWorld, World, monotonic_ns};
use windlass_nurse_tour::mapping::{QUEUE, mapping};
use windlass_nurse_tour::schema::{Types, migrate};
use windlass_nurse_tour::settings;
use windlass_postgres::adopted::AdoptedTable;
use windlass_postgres::{Options, pool_of};
use windlass_standins::{OpenAi, Twilio};
use windlass_testkit::postgres::{Database, Server};

const MB: usize = 1024 * 1024;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: i64| args.get(at).and_then(|text| text.parse().ok()).unwrap_or(default);
    match args.first().map(String::as_str) {
        Some("throughput") => throughput(number(1, 10_000), number(2, 64)).await,
        Some("memory") => memory(number(1, 64)).await,
        Some("claims") => claims(number(1, 1_000_000), number(2, 2_000)).await,
        _ => bail!(
            "usage: nurse_tour_bench throughput [messages] [concurrency] | memory [messages] | claims [finished] [claims]"
        ),
    }
}

struct Place {
    database: Database,
    client: Client,
    twilio: Twilio,
    openai: OpenAi,
    folder: tempfile::TempDir,
}

impl Place {
    async fn new() -> anyhow::Result<Self> {
        let database = Server::shared().await.fresh_database().await;
        let (client, connection) = tokio_postgres::connect(&database.url(), NoTls).await?;
        tokio::spawn(connection);
        migrate(&pool_of(&database.url(), &Options::default())?).await?;
        let (twilio, openai) = (Twilio::start().await, OpenAi::start().await);
        Ok(Self { database, client, twilio, openai, folder: tempfile::tempdir()? })
    }

    async fn messages(&self, count: i64) -> anyhow::Result<()> {
        let media = self.twilio.media_url("SID", "MESID");
        let sql = "INSERT INTO whatsapp_inbound_messages (message_sid, from_number, agency_id, message_type, media_url, \
                   processing_status, received_at) SELECT 'SM' || n, '+49151', 'agency-1', 'voice', replace($1, 'SID', 'SM' || n), \
                   'READY', to_char(now() AT TIME ZONE 'UTC' + n * interval '1 ms', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"') \
                   FROM generate_series(1, $2::bigint) n";
        self.client.execute(sql, &[&media, &count]).await?;
        self.client.batch_execute("VACUUM ANALYZE whatsapp_inbound_messages").await?;
        Ok(())
    }

    fn worker(&self, concurrency: i64) -> anyhow::Result<Child> {
        let example = std::env::current_exe()?;
        let program = example
            .parent()
            .and_then(|folder| folder.parent())
            .context("examples lie in PROFILE/examples")?;
        let slots = concurrency.to_string();
        let env: HashMap<&str, String> = HashMap::from([
            ("DATABASE_URL", self.database.url()),
            ("OPENAI_API_KEY", self.openai.key()),
            ("OPENAI_BASE_URL", self.openai.url()),
            ("TWILIO_ACCOUNT_SID", self.twilio.account()),
            ("TWILIO_AUTH_TOKEN", self.twilio.token()),
            ("TWILIO_BASE_URL", self.twilio.url()),
            ("WORKER_ALLOW_ORIGINS", self.twilio.cdn.url()),
            ("AUDIO_STORE_URL", format!("file://{}", self.folder.path().display())),
            ("WORKER_CONCURRENCY", slots.clone()),
            ("WORKER_BATCH_SIZE", slots),
        ]);
        let mut command = Command::new(program.join("windlass"));
        command.arg("nurse-tour").env_clear().envs(env).stdin(Stdio::null()).stdout(Stdio::null());
        command.spawn().context("cannot start target/release/windlass; build it first")
    }

    /// Waits until so many messages are done. Answers the seconds between the
    /// first and the last commit of a stage, by the database's clock.
    async fn done(&self, count: i64) -> anyhow::Result<f64> {
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

/// The most memory that a process ever had, in MiB.
fn peak_mib(child: &Child) -> anyhow::Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id()))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM")?;
    Ok(line.trim().trim_end_matches(" kB").trim().parse::<f64>()? / 1024.0)
}

async fn throughput(messages: i64, concurrency: i64) -> anyhow::Result<()> {
    let place = Place::new().await?;
    place.messages(messages).await?;
    let mut worker = place.worker(concurrency)?;
    let seconds = place.done(messages).await?;
    let peak = peak_mib(&worker)?;
    worker.kill()?;
    let stages = "SELECT string_agg(concat(to_stage, ' ', avg, ' ms'), ', ') FROM (SELECT to_stage, round(avg(duration_ms), 1) AS avg \
                  FROM nurse_tour_audit WHERE outcome = 'stage' GROUP BY 1 ORDER BY min(seq)) s";
    let stages: String = place.client.query_one(stages, &[]).await?.get(0);
    println!("on average: {stages}");
    println!(
        "{messages} messages in {seconds:.1} s: {:.0} messages/s, concurrency {concurrency}, peak {peak:.0} MiB",
        messages as f64 / seconds
    );
    Ok(())
}

async fn memory(messages: i64) -> anyhow::Result<()> {
    let place = Place::new().await?;
    // A little less than the limit: with its frame a note must fit, too.
    let note = [b"OggS".as_slice(), &vec![7; 16 * MB - 1024]].concat();
    let note = bytes::Bytes::from(note);
    for n in 1..=messages {
        place.twilio.put(&format!("MESM{n}"), "audio/ogg; codecs=opus", note.clone());
    }
    place.messages(messages).await?;
    let mut worker = place.worker(messages)?;
    let seconds = place.done(messages).await?;
    let peak = peak_mib(&worker)?;
    worker.kill()?;
    println!("{messages} notes of 16 MB at once in {seconds:.1} s: peak {peak:.0} MiB");
    Ok(())
}

async fn claims(finished: i64, count: i64) -> anyhow::Result<()> {
    let place = Place::new().await?;
    let sql = "INSERT INTO whatsapp_inbound_messages (message_sid, agency_id, message_type, processing_status, current_stage, received_at) \
               SELECT 'OLD' || n, 'agency-1', 'voice', 'DONE', 'COMPLETED', \
               to_char(now() AT TIME ZONE 'UTC' - n * interval '1 s', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"') FROM generate_series(1, $1::bigint) n";
    place.client.execute(sql, &[&finished]).await?;
    place.messages(count * 5).await?;
    let pool = pool_of(&place.database.url(), &Options::default())?;
    let mapping = mapping(&settings::Worker::default(), &Types::read(&pool).await?);
    let table: Arc<dyn Source> =
        AdoptedTable::open(&place.database.url(), Options::default(), mapping).await?;
    let mut times = Vec::new();
    for n in 0..count {
        let request = ClaimRequest {
            request_id: Uuid::from_u128(n as u128 + 1),
            worker: WorkerName::new("bench")?,
            queues: vec![QueueName::new(QUEUE)?],
            kinds: None,
            limit: 5,
            lease_ms: None,
        };
        let began = monotonic_ns();
        let leases = table.claim(request).await?.leases;
        times.push((monotonic_ns() - began) as f64 / 1e6);
        if leases.len() != 5 {
            bail!("a claim gave {} messages", leases.len());
        }
        // Not measured: what a worker holds at once is never more than its slots.
        let end = |leased: &Leased| Settlement { lease: leased.lease_ref(), outcome: Outcome::DONE };
        table.settle(leases.iter().map(end).collect()).await?;
    }
    times.sort_by(f64::total_cmp);
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    println!(
        "{count} claims of 5 beside {finished} finished: p50 {:.2} ms, p99 {:.2} ms, max {:.2} ms",
        at(0.5),
        at(0.99),
        at(1.0)
    );
    Ok(())
}
