//! How a store is opened.

use std::sync::Arc;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use tokio_postgres::config::TargetSessionAttrs;
use tokio_postgres_rustls::MakeRustlsConnect;
use windlass_core::error::{Invalid, StoreError};
use windlass_core::time::{Clock, Span};

use crate::epoch::EpochSettings;
use crate::hosts::Hosts;
use crate::pooler::{SESSION, is_pooled};
use crate::tls::Encryption;

/// How a store is opened. The default is right for production.
#[derive(Clone)]
pub struct Options {
    /// The clock; nothing means the database's own. Only a test sets it.
    pub clock: Option<Arc<dyn Clock>>,
    /// Connections for enqueues, claims and questions.
    pub connections_max: usize,
    /// Connections kept apart for renewals, steps and settlements, so that a
    /// flood of other calls cannot make a worker lose its leases.
    pub reserved_max: usize,
    /// How long a call waits for a free connection before it is refused.
    pub wait_ms: u64,
    /// How long a call may take in all.
    pub call_ms: u64,
    /// How long connecting may take, with several hosts for all of them together.
    pub connect_ms: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            clock: None,
            connections_max: 16,
            reserved_max: 4,
            wait_ms: 5_000,
            call_ms: 30_000,
            connect_ms: 5_000,
        }
    }
}

/// What was sent and not even received after so long ends a connection.
const USER_TIMEOUT: Duration = Duration::from_secs(5);

/// What a URL says, with our own parameters taken out of it.
pub(crate) struct Target {
    pub(crate) config: tokio_postgres::Config,
    /// A transaction pooler stands in between: no LISTEN, no session settings.
    pub(crate) pooled: bool,
    pub(crate) tls: MakeRustlsConnect,
    pub(crate) epochs: EpochSettings,
}

impl Target {
    /// Where it is.
    pub(crate) fn hosts(&self, options: &Options) -> Arc<Hosts> {
        // It ends before the pool stops waiting, so that what is wrong is said.
        let in_all = Duration::from_millis(options.connect_ms - options.connect_ms / 10);
        Arc::new(Hosts::new(self.config.clone(), self.tls.clone(), in_all))
    }
}

impl Target {
    /// What a URL says.
    pub(crate) fn parse(url: &str, options: &Options) -> Result<Self, StoreError> {
        let ours = Ours::take(url)?;
        let pooled = ours.pooled.unwrap_or(false);
        Self::of(ours, pooled, options)
    }

    /// What a URL says; where it does not say whether a transaction pooler stands in between, that is found out.
    pub(crate) async fn find(url: &str, options: &Options) -> Result<Self, StoreError> {
        let target = Self::parse(url, options)?;
        let ours = Ours::take(url)?;
        if ours.pooled.is_some() || !is_pooled(&target.hosts(options)).await {
            return Ok(target);
        }
        tracing::info!(
            "a transaction pooler stands between this program and Postgres; whether there is work on other machines is read"
        );
        Self::of(ours, true, options)
    }

    fn of(ours: Ours, pooled: bool, options: &Options) -> Result<Self, StoreError> {
        let Ours { url, pooled: _, writable, schema, encryption, epochs } = ours;
        // The text of the parser's error can hold the password.
        let mut config: tokio_postgres::Config = url.parse().map_err(|_| {
            Invalid::new("url", "is not a Postgres URL such as postgres://user@host:5432/database")
        })?;
        config
            .application_name("windlass")
            .ssl_mode(encryption.asked())
            .keepalives(true)
            .keepalives_idle(Duration::from_secs(15))
            .keepalives_interval(Duration::from_secs(5))
            .keepalives_retries(3)
            .tcp_user_timeout(USER_TIMEOUT);
        if writable {
            config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        if !pooled {
            let mut settings = session_settings(config.get_options(), options.call_ms);
            if let Some(schema) = schema {
                settings.push_str(&format!(" -c search_path=\"{schema}\""));
            }
            config.options(settings);
        } else if schema.is_some() {
            let why = "has schema= beside a transaction pooler, which gives no session to set it in; take it out, and \
                       say it once in the database: ALTER ROLE … SET search_path = …";
            return Err(Invalid::new("url", why).into());
        }
        Ok(Self { config, pooled, tls: encryption.connector()?, epochs })
    }
}

/// A statement ends before its caller stops waiting, so that "timed out" is
/// said by the server whenever it can be.
fn session_settings(given: Option<&str>, call_ms: u64) -> String {
    let statement_ms = call_ms - call_ms / 10;
    format!(
        "{} -c statement_timeout={statement_ms} -c lock_timeout={} -c idle_in_transaction_session_timeout={call_ms} \
         -c default_transaction_isolation=read\\ committed -c synchronous_commit=on -c {SESSION}=1",
        given.unwrap_or(""),
        statement_ms / 2,
    )
}

/// The parameters that the driver does not know, and the URL without them.
#[derive(Debug, Default, PartialEq, Eq)]
struct Ours {
    url: String,
    pooled: Option<bool>,
    /// Only a server that takes writes will do.
    writable: bool,
    schema: Option<String>,
    encryption: Encryption,
    epochs: EpochSettings,
}

/// What the driver understands by itself.
const DRIVERS: [&str; 17] = [
    "user",
    "password",
    "dbname",
    "options",
    "application_name",
    "host",
    "hostaddr",
    "port",
    "connect_timeout",
    "tcp_user_timeout",
    "keepalives",
    "keepalives_idle",
    "keepalives_interval",
    "keepalives_retries",
    "channel_binding",
    "load_balance_hosts",
    "sslnegotiation",
];
/// What other programs read from the same URL, about pools of their own; it means nothing here.
const OTHERS: [&str; 5] =
    ["connection_limit", "pool_timeout", "socket_timeout", "statement_cache_size", "uselibpqcompat"];

impl Ours {
    fn take(url: &str) -> Result<Self, Invalid> {
        let Some((base, query)) = url.split_once('?') else {
            return Ok(Self { url: url.to_owned(), ..Self::default() });
        };
        let mut ours = Self::default();
        let mut kept = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            if !ours.takes(pair)? {
                kept.push(pair);
            }
        }
        ours.url = if kept.is_empty() { base.to_owned() } else { format!("{base}?{}", kept.join("&")) };
        Ok(ours)
    }

    fn takes(&mut self, pair: &str) -> Result<bool, Invalid> {
        let Some((name, value)) = pair.split_once('=') else { return Ok(false) };
        let value = percent_decode_str(value).decode_utf8_lossy();
        match (name, value.as_ref()) {
            ("pooler", "transaction") => self.pooled = Some(true),
            ("pooler", "none" | "session") => self.pooled = Some(false),
            ("pooler", other) => {
                let why = format!("has pooler={other}; it is one of transaction, session, none");
                return Err(Invalid::new("url", why));
            }
            // As Prisma says it.
            ("pgbouncer", "true") => self.pooled = Some(true),
            ("pgbouncer", "false") => {}
            ("pgbouncer", _) => {
                return Err(Invalid::new("url", "has a pgbouncer= that is neither true nor false"));
            }
            ("target_session_attrs", "any" | "read-write" | "primary") => self.writable = value != "any",
            ("target_session_attrs", _) => {
                let why = "has a target_session_attrs that is none of any, read-write, primary: a store has to write";
                return Err(Invalid::new("url", why));
            }
            ("replication", "synchronous") => self.epochs.synchronous = Some(true),
            ("replication", "asynchronous") => self.epochs.synchronous = Some(false),
            ("replication", _) => {
                return Err(Invalid::new(
                    "url",
                    "has a replication= that is neither synchronous nor asynchronous",
                ));
            }
            ("pause_max", span) => {
                let span: Span = span
                    .parse()
                    .map_err(|why| Invalid::new("url", format!("has a pause_max= that {why}")))?;
                let ms = u32::try_from(span.ms())
                    .map_err(|_| Invalid::new("url", "has a pause_max= of many days"))?;
                self.epochs.pause_ms_max = Some(ms);
            }
            ("schema", name) => self.schema = Some(plain_schema(name)?),
            (name, _) if OTHERS.contains(&name) => {}
            (name, value) => {
                let taken = self.encryption.take(name, value)?;
                if !taken && !DRIVERS.contains(&name) {
                    let why = format!("has the parameter {name:?}, which is not known here; take it out");
                    return Err(Invalid::new("url", why));
                }
                return Ok(taken);
            }
        }
        Ok(true)
    }
}

/// A schema whose name needs no care in a setting.
fn plain_schema(name: &str) -> Result<String, Invalid> {
    let fits = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '-' | '$');
    match !name.is_empty() && name.chars().all(fits) {
        true => Ok(name.to_owned()),
        false => {
            let why = "has a schema= that is no plain name; it is one schema, of letters, digits, _ and -";
            Err(Invalid::new("url", why))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_ours_is_taken_out_of_the_url() {
        for (url, expected) in [
            ("postgres://a@h/d", Ok(("postgres://a@h/d", false))),
            ("postgres://a@h/d?pooler=transaction", Ok(("postgres://a@h/d", true))),
            (
                "postgres://a@h/d?port=1&pooler=transaction&connect_timeout=2",
                Ok(("postgres://a@h/d?port=1&connect_timeout=2", true)),
            ),
            ("postgres://a@h/d?pgbouncer=true&connection_limit=1", Ok(("postgres://a@h/d", true))),
            ("postgres://a@h/d?pgbouncer=maybe", Err(())),
            ("postgres://a@h/d?schema=care&ssl=true", Ok(("postgres://a@h/d", false))),
            ("postgres://a@h/d?schema=care,public", Err(())),
            ("postgres://a@h/d?ssl=perhaps", Err(())),
            ("postgres://a@h/d?sslmode=no-verify", Ok(("postgres://a@h/d", false))),
            ("postgres://a@h/d?pooler=session", Ok(("postgres://a@h/d", false))),
            ("postgres://a@h/d?pooler=often", Err(())),
            ("postgres://a@h/d?sslmode=verify-full&sslrootcert=a%20b.pem", Ok(("postgres://a@h/d", false))),
            ("postgres://a@h/d?sslmode=perhaps", Err(())),
            ("postgres://a@h/d?replication=synchronous&pause_max=5m", Ok(("postgres://a@h/d", false))),
            ("postgres://a@h/d?replication=perhaps", Err(())),
            ("postgres://a@h/d?pause_max=long", Err(())),
        ] {
            let found = Ours::take(url);
            let found =
                found.as_ref().map(|ours| (ours.url.as_str(), ours.pooled == Some(true))).map_err(|_| ());
            assert_eq!(found, expected, "{url}");
        }
    }

    /// What nobody understands is refused by its name, and its value is not repeated.
    #[test]
    fn an_unknown_parameter_is_named() {
        for (url, named) in [
            ("postgres://a@h/d?colour=hunter2", "\"colour\""),
            ("postgres://a@h/d?schema=care&pgbouncer=true", "schema="),
            ("postgres://a@h/d?ssl=hunter2", "ssl"),
        ] {
            let refused = Target::parse(url, &Options::default()).err().map(|error| error.to_string());
            let refused = refused.unwrap_or_default();
            assert!(refused.contains(named) && !refused.contains("hunter2"), "{url}: {refused}");
        }
    }

    #[test]
    fn a_schema_is_the_search_path() {
        let target = Target::parse("postgres://a@h/d?schema=care", &Options::default()).ok();
        let options = target.and_then(|target| target.config.get_options().map(str::to_owned));
        assert!(options.is_some_and(|options| options.contains("-c search_path=\"care\"")));
    }

    /// A password never shows up in the refusal of a URL.
    #[test]
    fn a_refused_url_does_not_tell_its_password() {
        let url = "postgres://user:hunter2@host:notaport/db";
        let refused = Target::parse(url, &Options::default()).err().map(|error| error.to_string());
        assert!(refused.is_some_and(|text| !text.contains("hunter2")));
    }
}
