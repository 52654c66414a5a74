//! `windlass nurse-tour`: the voice-message worker, and what its operator needs.

use std::sync::Arc;

use anyhow::Context;
use clap::{Args, Subcommand, ValueEnum};
use deadpool_postgres::Pool;
use windlass_engine::shutdown_on_signals;
use windlass_engine::world::RealWorld;
use windlass_nurse_tour::log::{self, Form};
use windlass_nurse_tour::resume::resume;
use windlass_nurse_tour::retry::{Retried, retry, retry_all_failed};
use windlass_nurse_tour::schema;
use windlass_nurse_tour::settings::Settings;
use windlass_nurse_tour::status::Status;
use windlass_nurse_tour::webhook::{self, WebhookSettings};
use windlass_nurse_tour::worker::{Names, NurseTour};

use crate::exit::Code;
use crate::output::{print_json, table};
use crate::say;
use crate::wiring::{nurse_tour, nurse_tour_findings, nurse_tour_pool};

const SETTINGS: &str = "\
Settings are environment variables, with their defaults:
  DATABASE_URL, OPENAI_API_KEY, TWILIO_ACCOUNT_SID, TWILIO_AUTH_TOKEN   required; DATABASE_URL is enough for
                                     migrate, check, status, retry and resume; NAME_FILE names a file that holds a secret
  DEFAULT_OBJECT_STORAGE_BUCKET_ID   a bucket of Google Cloud Storage for the audio; without one a local folder
  PRIVATE_OBJECT_DIR .private        the prefix in the bucket, or the folder
  AUDIO_STORE_URL                    instead of both: gs://bucket/prefix or file:///folder
  WORKER_ID                          made up
  WORKER_BATCH_SIZE 5                messages in one claim        WORKER_CONCURRENCY     messages at once: the batch size
  WORKER_LOCK_DURATION_MINUTES 10    renewed while it works       WORKER_POLL_INTERVAL_MS 5000
  WORKER_MAX_RETRIES 5               tries before FAILED          WORKER_RETRY_LADDER 1m,5m,15m,30m,1h
  WORKER_GRACE_SECONDS 20            for stages after SIGTERM     WORKER_REQUEUE_SECONDS 60
  WORKER_COOL_DOWN_MAX_SECONDS 900   how long a provider is left alone at most, whatever its Retry-After says
  WORKER_HTTP_LISTEN                 /health and /metrics; off    WORKER_HTTP_TOKEN      for other machines than this one
  TRANSCRIBE_MODEL whisper-1         TRANSCRIBE_LANGUAGE detected    ANALYSIS_MODEL gpt-4o
  TWILIO_BASE_URL, OPENAI_BASE_URL   the providers' own
  DEBUG                              anything: say more

SIGTERM and SIGINT end the worker: running stages finish within their grace, the rest is requeued, exit code 0.

Examples:
  windlass nurse-tour migrate
  windlass nurse-tour
  windlass nurse-tour --log json
  windlass nurse-tour status
  windlass nurse-tour retry SM0123 SM0456
  windlass nurse-tour resume";

const WEBHOOK_SETTINGS: &str = "\
Settings are environment variables, with their defaults:
  DATABASE_URL, TWILIO_ACCOUNT_SID, TWILIO_AUTH_TOKEN   required
  WEBHOOK_PUBLIC_URL                 required: the URL exactly as it stands in Twilio's console, for it is signed
                                     (what stands behind # is for Twilio alone, and may stay or go)
  WEBHOOK_LISTEN 127.0.0.1:8080      put a proxy with TLS in front of it; /health is for that proxy
  WEBHOOK_SESSION_HOURS 8            how long a care session lasts that a nurse opens with a patient's code";

/// What to do; without a verb, work.
#[derive(Debug, Args)]
#[command(after_help = SETTINGS)]
pub struct NurseTourArgs {
    #[command(subcommand)]
    verb: Option<Verb>,
    /// How log lines look
    #[arg(long, global = true, value_enum, default_value_t = LogForm::Lines)]
    log: LogForm,
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LogForm {
    /// `TIME [LEVEL] message key="value"`
    Lines,
    /// One JSON object a line
    Json,
}

/// What can be done.
#[derive(Debug, Subcommand)]
enum Verb {
    /// Add what the database lacks
    Migrate,
    /// Say what the database lacks, and change nothing
    Check,
    /// Show queue depth, ages, failures and times
    Status,
    /// Try messages again that are over without a document
    Retry(RetryArgs),
    /// Go on claiming at once, where a provider's wish to be left alone or a wrong setting had stopped it
    Resume,
    /// Serve the endpoint that Twilio calls
    #[command(after_help = WEBHOOK_SETTINGS)]
    Webhook,
}

/// Which messages.
#[derive(Debug, Args)]
struct RetryArgs {
    /// Twilio's ids of the messages
    #[arg(value_name = "SID", required_unless_present = "all_failed", conflicts_with = "all_failed")]
    sids: Vec<String>,
    /// All that have failed; those that wait for a person stay
    #[arg(long)]
    all_failed: bool,
}

impl NurseTourArgs {
    /// The worker and the webhook log to stdout, in their own form.
    pub fn logs_to_stdout(&self) -> bool {
        matches!(self.verb, None | Some(Verb::Webhook))
    }

    fn start_logging(&self, worker: Option<(String, Arc<Names>)>) {
        let form = if self.log == LogForm::Json { Form::Json } else { Form::Lines };
        log::start(
            form,
            env("DEBUG").is_some_and(|value| !value.is_empty()),
            Arc::new(RealWorld::new()),
            worker,
        );
    }
}

fn env(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Does what was asked.
pub async fn run(args: NurseTourArgs, json: bool) -> anyhow::Result<Code> {
    match &args.verb {
        None => work(&args).await,
        Some(Verb::Webhook) => serve_webhook(&args).await,
        Some(Verb::Migrate) => migrate(json).await,
        Some(Verb::Check) => check(json).await,
        Some(Verb::Status) => status(json).await,
        Some(Verb::Retry(which)) => retry_messages(which, json).await,
        Some(Verb::Resume) => resume_claiming(json).await,
    }
}

async fn work(args: &NurseTourArgs) -> anyhow::Result<Code> {
    let shutdown = shutdown_on_signals()?;
    let settings = Settings::read(&env)?;
    let pool = nurse_tour_pool(settings.database_url.expose())?;
    is_migrated(&pool).await?;
    let worker = NurseTour::new(nurse_tour(&settings, pool).await?, settings)?;
    args.start_logging(Some((worker.name().to_owned(), worker.names())));
    worker.run(shutdown).await?;
    Ok(Code::Done)
}

/// Refuses a database that lacks something: every message would fail on it.
async fn is_migrated(pool: &Pool) -> anyhow::Result<()> {
    let more = |count: usize| match count - 1 {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    let missing = schema::missing(pool).await?;
    if let Some(first) = missing.first() {
        let more = more(missing.len());
        anyhow::bail!(
            "the database lacks {}{more}; run `windlass nurse-tour migrate`, or look with `check`",
            first.what
        );
    }
    let wrong = schema::wrong(pool).await?;
    if let Some(first) = wrong.first() {
        let more = more(wrong.len());
        anyhow::bail!("the database does not fit: {first}{more}; look with `windlass nurse-tour check`");
    }
    Ok(())
}

async fn serve_webhook(args: &NurseTourArgs) -> anyhow::Result<Code> {
    let shutdown = shutdown_on_signals()?;
    let settings = WebhookSettings::read(&env)?;
    let pool = nurse_tour_pool(settings.database_url.expose())?;
    is_migrated(&pool).await?;
    let listener = tokio::net::TcpListener::bind(settings.listen).await;
    let listener = listener.with_context(|| {
        format!("cannot listen on {}; choose another with WEBHOOK_LISTEN", settings.listen)
    })?;
    args.start_logging(None);
    tracing::info!(target: "windlass_nurse_tour", address = %listener.local_addr()?, "Webhook listening");
    webhook::run(listener, shutdown, settings, pool).await?;
    tracing::info!(target: "windlass_nurse_tour", "Webhook stopped");
    Ok(Code::Done)
}

async fn migrate(json: bool) -> anyhow::Result<Code> {
    let url = Settings::read_database(&env)?;
    let added = schema::migrate(&nurse_tour_pool(url.expose())?).await?;
    if json {
        print_json(&serde_json::json!({ "added": added }))?;
        return Ok(Code::Done);
    }
    for what in &added {
        say!("added: {what}");
    }
    say!("{}", if added.is_empty() { "nothing was missing" } else { "the database is ready" });
    Ok(Code::Done)
}

/// Exit code 1 when something is missing, so that a script can tell.
async fn check(json: bool) -> anyhow::Result<Code> {
    let url = Settings::read_database(&env)?;
    let pool = nurse_tour_pool(url.expose())?;
    let missing = schema::missing(&pool).await?;
    let mut found: Vec<(String, Option<String>)> =
        missing.into_iter().map(|missing| (missing.what, Some(missing.sql))).collect();
    let (word, next) = match found.is_empty() {
        false => ("missing", "`windlass nurse-tour migrate` adds it"),
        true => {
            // Everything is there; is it also what it should be?
            found = nurse_tour_findings(url.expose()).await?;
            let wrong = schema::wrong(&pool).await?.into_iter().chain(schema::refusals(&pool).await?);
            found.extend(wrong.map(|what| (what, None)));
            ("wrong", "only the owner of the table can put this right")
        }
    };
    if json {
        let list = found.iter().map(|(what, sql)| serde_json::json!({ word: what, "sql": sql }));
        print_json(&list.collect::<Vec<_>>())?;
    } else {
        for (what, sql) in &found {
            say!("{word}: {what}{}", sql.as_ref().map(|sql| format!("\n    {sql};")).unwrap_or_default());
        }
        say!("{}", if found.is_empty() { "nothing is missing" } else { next });
    }
    Ok(if found.is_empty() { Code::Done } else { Code::Failed })
}

async fn status(json: bool) -> anyhow::Result<Code> {
    let url = Settings::read_database(&env)?;
    let status = Status::read(&nurse_tour_pool(url.expose())?, true).await?;
    if json {
        print_json(&status)?;
        return Ok(Code::Done);
    }
    let rows = |list: Vec<[String; 3]>| list.into_iter().map(Vec::from).collect::<Vec<_>>();
    let queue = status.queue.iter().map(|one| [one.status.clone(), one.stage.clone(), one.count.to_string()]);
    say!("{}\n", table(&["status", "stage", "messages"], &rows(queue.collect())));
    let oldest = status.oldest_waiting_s.map_or("nothing is due".to_owned(), |s| format!("{s:.0} s"));
    say!("oldest waiting: {oldest}\nin flight: {}\nexpired locks: {}", status.in_flight, status.expired);
    for one in &status.cooling {
        say!(
            "claiming stopped for all workers: {} wants to be left alone for {:.0} s more ({}); `resume` lifts it",
            one.provider,
            one.for_s,
            crate::output::plain(&one.why)
        );
    }
    for one in &status.stopped {
        say!(
            "claiming stopped for {}: {}; it tries again in {:.0} s, or at once after `resume`",
            crate::output::plain(&one.worker),
            crate::output::plain(&one.why),
            one.again_s
        );
    }
    if !status.failed.is_empty() {
        let failed = status.failed.iter().map(|one| {
            let example = crate::output::plain(&one.example);
            vec![one.status.clone(), one.reason.clone(), one.count.to_string(), example]
        });
        let failed: Vec<Vec<String>> = failed.collect();
        say!("\n{}", table(&["over as", "reason", "messages", "one of them"], &failed));
    }
    if !status.stages.is_empty() {
        let ms = |ms: f64| format!("{ms:.0} ms");
        let stage = |one: &windlass_nurse_tour::status::Latency| {
            vec![
                one.stage.clone(),
                one.count.to_string(),
                ms(one.p50_ms),
                ms(one.p95_ms),
                ms(one.max_ms as f64),
            ]
        };
        let stages: Vec<Vec<String>> = status.stages.iter().map(stage).collect();
        say!("\n{}", table(&["stage (24 h)", "count", "p50", "p95", "max"], &stages));
    }
    Ok(Code::Done)
}

async fn resume_claiming(json: bool) -> anyhow::Result<Code> {
    let url = Settings::read_database(&env)?;
    let lifted = resume(&nurse_tour_pool(url.expose())?).await?;
    if json {
        print_json(&serde_json::json!({ "lifted": lifted }))?;
        return Ok(Code::Done);
    }
    for what in &lifted {
        say!("lifted: {}", crate::output::plain(what));
    }
    say!("{}", if lifted.is_empty() { "nothing had stopped" } else { "workers try again at once" });
    Ok(Code::Done)
}

async fn retry_messages(args: &RetryArgs, json: bool) -> anyhow::Result<Code> {
    let url = Settings::read_database(&env)?;
    let pool = nurse_tour_pool(url.expose())?;
    if args.all_failed {
        let count = retry_all_failed(&pool).await?;
        if json {
            print_json(&serde_json::json!({ "retried": count }))?;
        } else {
            say!("{count} message{} tried again", if count == 1 { " is" } else { "s are" });
        }
        return Ok(Code::Done);
    }
    let mut code = Code::Done;
    for (sid, answer) in args.sids.iter().zip(retry(&pool, &args.sids).await?) {
        let (word, text, worse) = match &answer {
            Retried::Yes => ("retried", "is tried again".to_owned(), Code::Done),
            Retried::NotOver(status) => {
                ("not_over", format!("is {status}; nothing was changed"), Code::Refused)
            }
            Retried::NotFound => ("not_found", "is not there".to_owned(), Code::NotFound),
        };
        let sid = crate::output::plain(sid);
        if json {
            print_json(&serde_json::json!({ "message_sid": sid, "answer": word }))?;
        } else {
            say!("{sid} {text}");
        }
        code = code.worst(worse);
    }
    Ok(code)
}
