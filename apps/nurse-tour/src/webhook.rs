//! The endpoint that Twilio calls: a signed message becomes a READY row, once,
//! bound to the patient at whose side the nurse was when it arrived.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use deadpool_postgres::Pool;
use http::{Method, StatusCode};
use tokio::net::TcpListener;
use tokio_postgres::types::Type;
use url::Url;
use windlass_outside::secret::Secret;
use windlass_outside::twilio::is_signed_form;

use crate::database::{DatabaseError, Param};
use crate::http::{Answer, Asked, Service, serve};
use crate::mapping::MESSAGES;
use crate::message::is_plain;
use crate::schema::{SESSIONS, Types};
use crate::settings::{Env, Reader, SettingsError, Twilio};

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
    pub fn read(env: Env<'_>) -> Result<Self, SettingsError> {
        let mut reader = Reader::new(env);
        let hours = reader.text("WEBHOOK_SESSION_HOURS", "8");
        let session_hours = hours.parse().ok().filter(|hours| (1..=168).contains(hours));
        if session_hours.is_none() {
            reader.wrong("WEBHOOK_SESSION_HOURS is not a number from 1 to 168".into());
        }
        let public = reader.required("WEBHOOK_PUBLIC_URL");
        let public_url = match public.is_empty() {
            true => reader.url("WEBHOOK_PUBLIC_URL", "https://example.com/twilio"),
            false => reader.url("WEBHOOK_PUBLIC_URL", &public),
        };
        let settings = Self {
            database_url: reader.secret("DATABASE_URL"),
            twilio: reader.twilio(),
            listen: reader.address("WEBHOOK_LISTEN").unwrap_or(SocketAddr::from(([127, 0, 0, 1], 8080))),
            public_url,
            session_hours: session_hours.unwrap_or(8),
        };
        reader.done(settings)
    }
}

/// Serves until `shutdown` is done.
pub async fn run(
    listener: TcpListener,
    shutdown: impl Future<Output = ()>,
    settings: WebhookSettings,
    pool: Pool,
) -> Result<(), DatabaseError> {
    let types = Types::read(&pool).await?;
    let insert = include_str!("../sql/webhook_insert.sql")
        .replace("{received_at}", &types.moment(MESSAGES, "received_at", "clock_timestamp()"));
    let bind = ["agency_id", "patient_id", "care_session_id"]
        .into_iter()
        .zip(["agency", "patient", "session"])
        .fold(include_str!("../sql/webhook_bind.sql").to_owned(), |sql, (column, bound)| {
            sql.replace(&format!("{{{column}}}"), &types.word(MESSAGES, column, &format!("b.{bound}")))
        });
    let new_id = types.new_id(SESSIONS, "cs_", "$1");
    let session = include_str!("../sql/webhook_session.sql")
        .replace("{id}", &types.word(SESSIONS, "id", &new_id))
        .replace("{patient_id}", &types.word(SESSIONS, "patient_id", "said.patient"))
        .replace("{created_at}", &types.moment(SESSIONS, "created_at", "clock_timestamp()"))
        .replace(
            "{expires_at}",
            &types.moment(SESSIONS, "expires_at", "clock_timestamp() + $4::bigint * interval '1 hour'"),
        );
    serve(listener, shutdown, Arc::new(Webhook { settings, pool, insert, bind, session })).await;
    Ok(())
}

struct Webhook {
    settings: WebhookSettings,
    pool: Pool,
    insert: String,
    bind: String,
    session: String,
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

#[async_trait]
impl Service for Webhook {
    async fn answer(&self, asked: Asked) -> Answer {
        if asked.method == Method::GET && asked.uri.path() == "/health" {
            return Answer::text(StatusCode::OK, "ok");
        }
        if asked.method != Method::POST {
            return Answer::text(StatusCode::METHOD_NOT_ALLOWED, "only POST");
        }
        let form: Vec<(String, String)> = url::form_urlencoded::parse(&asked.body).into_owned().collect();
        if !self.is_signed(&asked, &form) {
            tracing::warn!("Webhook refused: the signature is not Twilio's");
            return Answer::text(
                StatusCode::FORBIDDEN,
                "the signature is wrong; check WEBHOOK_PUBLIC_URL and the token",
            );
        }
        let Some(call) = self.read(&form) else {
            return Answer::text(StatusCode::BAD_REQUEST, "this is not a message of this account");
        };
        match self.store(&call).await {
            Ok(new) => {
                tracing::info!(messageSid = call.sid, kind = call.kind, new, "Webhook accepted");
                Answer::new(StatusCode::OK, "text/xml", TWIML)
            }
            // The database is away: it is of use to call again.
            Err(error) if error.is_transient() => {
                tracing::error!(
                    messageSid = call.sid,
                    code = error.code(),
                    "Webhook not stored: the database did not answer"
                );
                Answer::text(StatusCode::SERVICE_UNAVAILABLE, "the message was not stored; send it again")
            }
            Err(error) => {
                tracing::error!(
                    messageSid = call.sid,
                    code = error.code(),
                    "Webhook not stored: the database refused it; look with `windlass nurse-tour check`"
                );
                Answer::text(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "the message was not stored: the tables do not take it",
                )
            }
        }
    }
}

impl Webhook {
    fn is_signed(&self, asked: &Asked, form: &[(String, String)]) -> bool {
        let mut url = self.settings.public_url.clone();
        // What stands behind # tells Twilio how often to call (connection overrides); it is neither sent nor signed.
        url.set_fragment(None);
        if url.query().is_none() {
            url.set_query(asked.uri.query());
        }
        let Some(signature) = asked.header("x-twilio-signature") else { return false };
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
            Some(_) if media_type.starts_with("audio/") || media_type.starts_with("application/ogg") => {
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

    /// Stores a call, once. Answers whether it was new.
    async fn store(&self, call: &Call) -> Result<bool, DatabaseError> {
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
        let new = !transaction.query_typed(&self.insert, &params).await?.is_empty();
        if new && call.kind == "voice" {
            transaction.query_typed(&self.bind, &[(&call.sid, Type::TEXT)]).await?;
        }
        if new && call.kind == "text" {
            let params: [Param<'_>; 4] = [
                (&call.sid, Type::TEXT),
                (&call.from, Type::TEXT),
                (&call.body, Type::TEXT),
                (&self.settings.session_hours, Type::INT8),
            ];
            transaction.query_typed(&self.session, &params).await?;
        }
        transaction.commit().await?;
        Ok(new)
    }
}
