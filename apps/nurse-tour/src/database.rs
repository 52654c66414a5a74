//! The app's own questions to the database, beside the source.
//!
//! Statements are sent unnamed with their types, so that a transaction pooler
//! may stand in between. An error is an error: never "nothing there".

use deadpool_postgres::{Pool, PoolError};
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

/// Why the database did not do what it was asked to. The text holds what the
/// server says of the statement, never the row: that would be a patient's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the database failed: {what}{}", self.next_step())]
pub struct DatabaseError {
    what: String,
    /// The server's five-letter code, when it said something.
    code: Option<String>,
    transient: bool,
}

impl DatabaseError {
    /// The server's code, or `connection`.
    pub fn code(&self) -> &str {
        self.code.as_deref().unwrap_or("connection")
    }

    /// Whether the same question may be answered later.
    pub fn is_transient(&self) -> bool {
        self.transient
    }

    /// What a person can do about it.
    fn next_step(&self) -> &'static str {
        match self.code() {
            "connection" => "; see whether the server is up and DATABASE_URL is right",
            // It is said with the reason.
            "certificate" => "",
            "encryption" => {
                "; switch `ssl` on at the server, or leave sslmode out of DATABASE_URL where the way to it is safe"
            }
            // A table, a column or a function that is not there.
            "42P01" | "42703" | "42883" => "; run `windlass nurse-tour migrate`, or look with `check`",
            "08P01" if self.what.contains("unsupported startup parameter") => {
                "; a pooler stands before the server: add pgbouncer=true to DATABASE_URL"
            }
            _ if self.transient => "; ask again later",
            _ => "",
        }
    }

    pub(crate) fn migrating(what: &str, error: &tokio_postgres::Error) -> Self {
        let inner = Self::from_driver(error);
        let hint = match inner.code() {
            "23505" => format!(" ({TWICE})"),
            "42501" => " (this role may not: run it as the owner of the tables)".to_owned(),
            _ => String::new(),
        };
        Self { what: format!("{what} is missing, and could not be added: {}{hint}", inner.what), ..inner }
    }

    /// Rows share a value that must be unique.
    pub(crate) fn duplicates(what: &str) -> Self {
        let what = format!("{what} is missing, and could not be added: {TWICE}");
        Self { what, code: Some("23505".into()), transient: false }
    }

    /// Somebody else has not finished.
    pub(crate) fn busy(what: &str) -> Self {
        Self { what: what.to_owned(), code: Some("55P03".into()), transient: true }
    }

    fn from_driver(error: &tokio_postgres::Error) -> Self {
        match error.as_db_error() {
            Some(said) => {
                let code = said.code().code();
                // What the server says of a value would show the value.
                let what = match code.starts_with("22") {
                    true => format!("a value does not fit ({code})"),
                    false => format!("{} ({code})", said.message()),
                };
                let transient =
                    ["08", "40", "53", "55", "57", "58"].iter().any(|class| code.starts_with(class));
                Self { what, code: Some(code.to_owned()), transient }
            }
            None => {
                let (what, code) = match refused_handshake(error) {
                    Some((why, code)) => (why, Some(code.to_owned())),
                    None => ("the connection was lost, or never came about".to_owned(), None),
                };
                Self { what, code, transient: true }
            }
        }
    }
}

/// What a person has to decide about rows that share what must be unique.
const TWICE: &str = "two rows share a value that must be unique: decide which one to keep, then run it again";

/// Why there is no encrypted connection, and a code for it, when that is why there is none. The words about a
/// certificate are ours.
fn refused_handshake(error: &tokio_postgres::Error) -> Option<(String, &'static str)> {
    const REFUSED: &str = "invalid peer certificate: ";
    const NONE: &str = "server does not support TLS";
    let first: &(dyn std::error::Error + 'static) = error;
    std::iter::successors(Some(first), |error| error.source()).find_map(|error| {
        let text = error.to_string();
        if text.ends_with(NONE) {
            let what = "the server offers no encryption, and DATABASE_URL wants it";
            return Some((what.to_owned(), "encryption"));
        }
        let (_, why) = text.split_once(REFUSED)?;
        Some((
            format!("the certificate of the server is refused: {}", refused_certificate(why)),
            "certificate",
        ))
    })
}

/// Why a certificate is refused, and what to do, from what the TLS library says; whose words are for programmers.
fn refused_certificate(why: &str) -> &'static str {
    let says = |words: &[&str]| words.iter().any(|word| why.contains(word));
    if says(&["UnknownIssuer"]) {
        "no root that is known has signed it; name the right one with sslrootcert"
    } else if says(&["NotValidForName", "not valid for name"]) {
        "it was made for another host; check the host in DATABASE_URL"
    } else if says(&["Expired", "expired"]) {
        "it has expired; have it renewed"
    } else if says(&["CaUsedAsEndEntity"]) {
        "it is that of an authority, and signed by itself; have one made for the host, and name its root with sslrootcert"
    } else {
        "it is not valid; have the server's owner look at it"
    }
}

impl From<tokio_postgres::Error> for DatabaseError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::from_driver(&error)
    }
}

impl From<PoolError> for DatabaseError {
    fn from(error: PoolError) -> Self {
        match error {
            PoolError::Backend(error) => Self::from_driver(&error),
            _ => Self { what: "no connection was free in time".into(), code: None, transient: true },
        }
    }
}

/// A parameter with its type.
pub(crate) type Param<'a> = (&'a (dyn ToSql + Sync), Type);

/// A question that is answered with rows.
pub(crate) async fn rows(pool: &Pool, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>, DatabaseError> {
    Ok(pool.get().await?.query_typed(sql, params).await?)
}

/// A question that is answered with one row.
pub(crate) async fn row(pool: &Pool, sql: &str, params: &[Param<'_>]) -> Result<Row, DatabaseError> {
    let rows = rows(pool, sql, params).await?;
    let none = DatabaseError { what: "an answer has no row".into(), code: None, transient: false };
    rows.into_iter().next().ok_or(none)
}
