//! How a store is opened.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::error::{Invalid, StoreError};
use windlass_core::time::Clock;

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
    /// How long connecting may take.
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

/// What a URL says, with our own parameters taken out of it.
pub(crate) struct Target {
    pub(crate) config: tokio_postgres::Config,
    /// A transaction pooler stands in between: no LISTEN, no session settings.
    pub(crate) pooled: bool,
}

impl Target {
    pub(crate) fn parse(url: &str, options: &Options) -> Result<Self, StoreError> {
        let (url, pooled) = take_pooler(url)?;
        // The text of the parser's error can hold the password.
        let mut config: tokio_postgres::Config = url.parse().map_err(|_| {
            Invalid::new("url", "is not a Postgres URL such as postgres://user@host:5432/database")
        })?;
        config
            .application_name("windlass")
            .connect_timeout(Duration::from_millis(options.connect_ms))
            .keepalives(true)
            .keepalives_idle(Duration::from_secs(15))
            .keepalives_interval(Duration::from_secs(5))
            .keepalives_retries(3)
            .tcp_user_timeout(Duration::from_millis(options.call_ms));
        if !pooled {
            config.options(session_settings(config.get_options(), options.call_ms));
        }
        Ok(Self { config, pooled })
    }
}

/// A statement ends before its caller stops waiting, so that "timed out" is
/// said by the server whenever it can be.
fn session_settings(given: Option<&str>, call_ms: u64) -> String {
    let statement_ms = call_ms - call_ms / 10;
    format!(
        "{} -c statement_timeout={statement_ms} -c lock_timeout={} -c idle_in_transaction_session_timeout={call_ms} \
         -c default_transaction_isolation=read\\ committed -c synchronous_commit=on",
        given.unwrap_or(""),
        statement_ms / 2,
    )
}

fn take_pooler(url: &str) -> Result<(String, bool), Invalid> {
    let Some((base, query)) = url.split_once('?') else { return Ok((url.to_owned(), false)) };
    let mut pooled = false;
    let mut kept = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("pooler", "transaction")) => pooled = true,
            Some(("pooler", "none" | "session")) => pooled = false,
            Some(("pooler", other)) => {
                let why = format!("has pooler={other}; it is one of transaction, session, none");
                return Err(Invalid::new("url", why));
            }
            _ => kept.push(pair),
        }
    }
    let url = if kept.is_empty() { base.to_owned() } else { format!("{base}?{}", kept.join("&")) };
    Ok((url, pooled))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pooler_is_taken_out_of_the_url() {
        for (url, expected) in [
            ("postgres://a@h/d", Ok(("postgres://a@h/d", false))),
            ("postgres://a@h/d?pooler=transaction", Ok(("postgres://a@h/d", true))),
            ("postgres://a@h/d?x=1&pooler=transaction&y=2", Ok(("postgres://a@h/d?x=1&y=2", true))),
            ("postgres://a@h/d?pooler=session", Ok(("postgres://a@h/d", false))),
            ("postgres://a@h/d?pooler=often", Err(())),
        ] {
            let found = take_pooler(url);
            let found = found.as_ref().map(|(url, pooled)| (url.as_str(), *pooled)).map_err(|_| ());
            assert_eq!(found, expected, "{url}");
        }
    }

    /// A password never shows up in the refusal of a URL.
    #[test]
    fn a_refused_url_does_not_tell_its_password() {
        let url = "postgres://user:hunter2@host:notaport/db";
        let refused = Target::parse(url, &Options::default()).err().map(|error| error.to_string());
        assert!(refused.is_some_and(|text| !text.contains("hunter2")));
    }
}
