//! The endpoint that Twilio calls: a signed message becomes a READY row, once,
//! bound to the patient at whose side the nurse was when it arrived.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use bytes::Bytes;
use deadpool_postgres::Pool;
use http::{HeaderMap, Method, StatusCode, Uri};
use tokio::net::TcpListener;
use tokio::sync::OnceCell;
use tokio_postgres::types::Type;
use url::Url;
use windlass_app::door::{Answered, Door, Refusal, text};
use windlass_app::{AppError, Environment, Reading, SettingsError};
use windlass_engine::world::World;
use windlass_outside::secret::Secret;
use windlass_outside::twilio::is_signed_form;

use crate::answer::{Plain, plain, refusal};
use crate::database::{DatabaseError, Param};
use crate::mapping::MESSAGES;
use crate::message::is_plain;
use crate::schema::{SESSIONS, Types};
use crate::settings::{TABLE, Twilio, twilio};
use crate::steps::audio::KINDS;

/// How long a call waits for the database; Twilio waits for 15 seconds, unless it is told otherwise.
const STORE_WAIT_MS: u64 = 10_000;
const TWIML: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?><Response></Response>";

/// What the webhook must know.
#[derive(Debug, Clone)]
pub struct WebhookSettings {
    /// Where the messages go.
    pub database_url: Secret<String>,
    /// Whose signature is believed.
    pub twilio: Twilio,
    /// Where to listen.
    pub listen: SocketAddr,
    /// The URL that Twilio calls, as it is written in Twilio's console: it is what is signed.
    pub public_url: Url,
    /// How long a care session lasts that a nurse opens with a patient's code.
    pub session_hours: i64,
}

impl WebhookSettings {
    /// Reads them.
    pub fn read(environment: &Environment) -> Result<Self, SettingsError> {
        let mut reading = Reading::new(environment, TABLE);
        // With its query, which is signed too.
        let public_url: Option<Url> =
            reading.parsed("WEBHOOK_PUBLIC_URL", "a URL such as https://example.com/twilio");
        let public_url = public_url.filter(|url| matches!(url.scheme(), "http" | "https"));
        if public_url.is_none() && reading.is_given("WEBHOOK_PUBLIC_URL") {
            reading.refuse("WEBHOOK_PUBLIC_URL", "WEBHOOK_PUBLIC_URL must be an http or https address");
        }
        let settings = Self {
            database_url: reading.secret("DATABASE_URL"),
            twilio: twilio(&mut reading),
            listen: reading.address("WEBHOOK_LISTEN"),
            public_url: public_url
                .unwrap_or_else(|| Url::parse("https://invalid.invalid").expect("it is a URL")),
            session_hours: reading.number("WEBHOOK_SESSION_HOURS", 1..=168),
        };
        reading.finish(settings)
    }
}

/// Serves until `shutdown` is done.
pub async fn run(
    listener: TcpListener,
    shutdown: impl Future<Output = ()> + Send,
    settings: WebhookSettings,
    pool: Pool,
    world: Arc<dyn World>,
) -> Result<(), AppError> {
    let webhook = Arc::new(Webhook { settings, pool, world: world.clone(), statements: OnceCell::new() });
    let router = Router::new().fallback(answer).with_state(webhook);
    // Every call is signed, and comes by the name that Twilio knows.
    let door = Plain::door(Door::new(router, world)).proves_itself();
    Ok(door.serve(listener, shutdown).await?)
}

struct Webhook {
    settings: WebhookSettings,
    pool: Pool,
    world: Arc<dyn World>,
    /// Made with the first call that finds the database there.
    statements: OnceCell<Statements>,
}

/// What is asked of the tables, as they are.
struct Statements {
    insert: String,
    bind: String,
    session: String,
}

impl Statements {
    async fn of(pool: &Pool) -> Result<Self, DatabaseError> {
        let types = Types::read(pool).await?;
        let or_default = |column: &str, value: &str| types.or_default(MESSAGES, column, value);
        let insert = include_str!("../sql/webhook_insert.sql")
            .replace("{media_url}", &or_default("media_url", "$4"))
            .replace("{profile_name}", &or_default("profile_name", "$6"))
            .replace(
                "{processing_status}",
                &or_default("processing_status", "CASE WHEN $3 = 'voice' THEN 'READY' END"),
            )
            .replace("{received_at}", &types.moment(MESSAGES, "received_at", "clock_timestamp()"));
        let bind = ["agency_id", "patient_id", "care_session_id", "patient_name"]
            .into_iter()
            .zip(["agency", "patient", "session", "patient_name"])
            .fold(include_str!("../sql/webhook_bind.sql").to_owned(), |sql, (column, bound)| {
                let value = types.word(MESSAGES, column, &format!("b.{bound}"));
                sql.replace(&format!("{{{column}}}"), &or_default(column, &value))
            });
        let new_id = types.new_id(SESSIONS, "cs_", "$1");
        let expires_at = "clock_timestamp() + $4::bigint * interval '1 hour'";
        let session = include_str!("../sql/webhook_session.sql")
            .replace("{id}", &types.word(SESSIONS, "id", &new_id))
            .replace("{patient_id}", &types.word(SESSIONS, "patient_id", "said.patient"))
            .replace("{patient_name}", &types.or_default(SESSIONS, "patient_name", "said.name"))
            .replace("{created_at}", &types.moment(SESSIONS, "created_at", "clock_timestamp()"))
            .replace("{expires_at}", &types.moment(SESSIONS, "expires_at", expires_at));
        Ok(Self { insert, bind, session })
    }
}

/// What a call says, of what is of use here.
struct Call {
    sid: String,
    from: String,
    body: String,
    profile: Option<String>,
    media_url: Option<String>,
    kind: &'static str,
}

/// A request, read whole.
struct Asked {
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
}

async fn answer(
    State(webhook): State<Arc<Webhook>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Answered {
    webhook.answer(Asked { method, uri, headers, body }).await
}

impl Webhook {
    async fn answer(&self, asked: Asked) -> Answered {
        if asked.method == Method::GET && asked.uri.path() == "/health" {
            return Ok(plain(StatusCode::OK, "ok"));
        }
        if asked.method != Method::POST {
            return Err(refusal(StatusCode::METHOD_NOT_ALLOWED, "only POST"));
        }
        let form: Vec<(String, String)> = url::form_urlencoded::parse(&asked.body).into_owned().collect();
        if !self.is_signed(&asked, &form) {
            tracing::warn!("Webhook refused: the signature is not Twilio's");
            let why = "the signature is wrong; check WEBHOOK_PUBLIC_URL and the token";
            return Err(refusal(StatusCode::FORBIDDEN, why));
        }
        let Some(call) = self.read(&form) else {
            return Err(refusal(StatusCode::BAD_REQUEST, "this is not a message of this account"));
        };
        match self.store(&call).await {
            Ok(new) => {
                tracing::info!(messageSid = call.sid, kind = call.kind, new, "Webhook accepted");
                Ok(text(StatusCode::OK, "text/xml", TWIML))
            }
            Err(error) => Err(not_stored(&call, &error)),
        }
    }

    fn is_signed(&self, asked: &Asked, form: &[(String, String)]) -> bool {
        let mut url = self.settings.public_url.clone();
        // What stands behind # tells Twilio how often to call (connection overrides); it is neither sent nor signed.
        url.set_fragment(None);
        if url.query().is_none() {
            url.set_query(asked.uri.query());
        }
        let signature = asked.headers.get("x-twilio-signature").and_then(|value| value.to_str().ok());
        let Some(signature) = signature else { return false };
        let url = url.as_str();
        // A URL without a path is called with one, and signed as it was written.
        let bare = url.strip_suffix('/').unwrap_or(url);
        let token = &self.settings.twilio.token;
        is_signed_form(token, url, form, signature) | is_signed_form(token, bare, form, signature)
    }

    fn read(&self, form: &[(String, String)]) -> Option<Call> {
        let field = |name: &str| form.iter().find(|(found, _)| found == name).map(|(_, value)| value.clone());
        let sid = field("MessageSid").or_else(|| field("SmsMessageSid")).filter(|sid| is_plain(sid))?;
        field("AccountSid").filter(|account| *account == self.settings.twilio.account)?;
        let media_url = field("MediaUrl0").filter(|url| !url.is_empty());
        let media_type = field("MediaContentType0").unwrap_or_default().to_ascii_lowercase();
        let kind = match media_url {
            // Whatever the worker would look at: what says nothing may be a note as well.
            Some(_) if media_type.is_empty() || KINDS.iter().any(|kind| media_type.starts_with(kind)) => {
                "voice"
            }
            Some(_) => "media",
            None => "text",
        };
        let clean = |text: String| text.replace('\0', "");
        Some(Call {
            sid,
            from: field("From").map(clean).unwrap_or_default(),
            body: field("Body").map(clean).unwrap_or_default(),
            profile: field("ProfileName").map(clean),
            media_url,
            kind,
        })
    }

    /// Stores a call, once, while Twilio still listens. Answers whether it was new.
    async fn store(&self, call: &Call) -> Result<bool, DatabaseError> {
        tokio::select! {
            stored = self.store_now(call) => stored,
            () = self.world.sleep_ms(STORE_WAIT_MS) => Err(DatabaseError::busy("the database did not answer in time")),
        }
    }

    async fn store_now(&self, call: &Call) -> Result<bool, DatabaseError> {
        let Statements { insert, bind, session } =
            self.statements.get_or_try_init(|| Statements::of(&self.pool)).await?;
        let mut client = self.pool.get().await?;
        let transaction = client.transaction().await?;
        let params: [Param<'_>; 6] = [
            (&call.sid, Type::TEXT),
            (&call.from, Type::TEXT),
            (&call.kind, Type::TEXT),
            (&call.media_url, Type::TEXT),
            (&call.body, Type::TEXT),
            (&call.profile, Type::TEXT),
        ];
        let new = !transaction.query_typed(insert, &params).await?.is_empty();
        if new && call.kind == "voice" {
            transaction.query_typed(bind, &[(&call.sid, Type::TEXT)]).await?;
        }
        if new && call.kind == "text" {
            let params: [Param<'_>; 4] = [
                (&call.sid, Type::TEXT),
                (&call.from, Type::TEXT),
                (&call.body, Type::TEXT),
                (&self.settings.session_hours, Type::INT8),
            ];
            transaction.query_typed(session, &params).await?;
        }
        transaction.commit().await?;
        Ok(new)
    }
}

fn not_stored(call: &Call, error: &DatabaseError) -> Refusal {
    let (sid, code) = (&call.sid, error.code());
    // The database is away: it is of use to call again.
    if error.is_transient() {
        tracing::error!(messageSid = sid, code, "Webhook not stored: the database did not answer");
        return refusal(StatusCode::SERVICE_UNAVAILABLE, "the message was not stored; send it again");
    }
    tracing::error!(
        messageSid = sid,
        code,
        "Webhook not stored: the database refused it; look with `windlass nurse-tour check`"
    );
    refusal(StatusCode::INTERNAL_SERVER_ERROR, "the message was not stored: the tables do not take it")
}
