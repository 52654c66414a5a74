//! What the database says, as the errors of a store.
//!
//! Only the server's message is passed on, never its detail: the detail of a
//! refused row holds the row, and with it a payload.

use tokio_postgres::error::{DbError, SqlState};
use windlass_core::error::StoreError;
use windlass_core::id::JobId;

/// Why a call did not succeed.
#[derive(Debug)]
pub(crate) enum Fault {
    /// It collided with another and changed nothing; the same call may simply be made again.
    Collided(String),
    /// A claim would give more bytes than one may, and changed nothing: so many jobs fit.
    TooMuch(u32),
    /// It failed.
    Failed(StoreError),
}

impl Fault {
    /// What is in the store cannot be read.
    pub(crate) fn unreadable(what: &str, why: impl std::fmt::Display) -> Self {
        Self::Failed(StoreError::Broken(format!("{what} in the database cannot be read: {why}")))
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Self::Failed(error)
    }
}

impl From<windlass_core::error::Invalid> for Fault {
    fn from(error: windlass_core::error::Invalid) -> Self {
        Self::Failed(error.into())
    }
}

impl From<tokio_postgres::Error> for Fault {
    fn from(error: tokio_postgres::Error) -> Self {
        match error.as_db_error() {
            Some(error) => from_server(error),
            None if error.is_closed() => {
                Self::Failed(StoreError::Unavailable("the connection to Postgres was lost".to_owned()))
            }
            None => match refused_certificate(&error).or_else(|| unencrypted(&error)) {
                Some(why) => Self::Failed(StoreError::Unavailable(why)),
                None => Self::Failed(StoreError::Unavailable(format!("Postgres: {error}"))),
            },
        }
    }
}

/// What is wrong with the server's certificate, when that is why there is no connection.
fn refused_certificate(error: &(dyn std::error::Error + 'static)) -> Option<String> {
    use tokio_rustls::rustls::{CertificateError, Error};
    let mut next = Some(error);
    while let Some(error) = next {
        let inside = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        let found = inside.and_then(|inner| inner.downcast_ref::<Error>()).or_else(|| error.downcast_ref());
        if let Some(Error::InvalidCertificate(why)) = found {
            let why = match why {
                CertificateError::UnknownIssuer => {
                    "no root that is known has signed it; name the right one with sslrootcert"
                }
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                    "it was made for another host; check the host of the URL"
                }
                CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                    "it has expired; have it renewed"
                }
                _ => "it is not valid; have the server's owner look at it",
            };
            return Some(format!("the certificate of Postgres is refused: {why}"));
        }
        next = error.source();
    }
    None
}

/// What to do about a server that offers no encryption where the URL wants it. The driver has no other sign of it than
/// its words.
fn unencrypted(error: &(dyn std::error::Error + 'static)) -> Option<String> {
    const SAID: &str = "server does not support TLS";
    let mut chain = std::iter::successors(Some(error), |error| error.source());
    let said = chain.any(|error| error.to_string().ends_with(SAID));
    said.then(|| {
        "Postgres offers no encryption, and the URL wants it (sslmode); switch `ssl` on at the server, or leave out sslmode \
         where the way to it is safe"
            .to_owned()
    })
}

impl From<deadpool_postgres::PoolError> for Fault {
    fn from(error: deadpool_postgres::PoolError) -> Self {
        use deadpool_postgres::PoolError;
        match error {
            PoolError::Timeout(deadpool_postgres::TimeoutType::Wait) => Self::Failed(StoreError::Busy(
                "all connections to Postgres are busy. Nothing was changed; ask again later, or raise \
                 connections_max"
                    .to_owned(),
            )),
            PoolError::Timeout(_) => Self::Failed(StoreError::Unavailable(
                "Postgres did not accept a connection in time".to_owned(),
            )),
            PoolError::Backend(error) => error.into(),
            other => Self::Failed(StoreError::Unavailable(format!("connections to Postgres: {other}"))),
        }
    }
}

/// A call has taken all the time that it may.
pub(crate) fn late() -> StoreError {
    StoreError::Unavailable("Postgres did not answer in time".to_owned())
}

fn from_server(error: &DbError) -> Fault {
    let code = error.code();
    let said = || format!("Postgres says {} ({})", error.message(), code.code());
    if [SqlState::T_R_DEADLOCK_DETECTED, SqlState::T_R_SERIALIZATION_FAILURE, SqlState::UNIQUE_VIOLATION]
        .contains(code)
    {
        // Two calls reached for the same unique key; the next look sees the winner.
        return Fault::Collided(said());
    }
    // The lease of a batch was lost half-way; asked again, that is what is answered.
    if code.code() == "WL005" {
        return Fault::Collided(said());
    }
    if code.code() == "WL004"
        && let Some(fit) = error.detail().and_then(|fit| fit.parse().ok())
    {
        return Fault::TooMuch(fit);
    }
    let error = match code.code() {
        "WL001" => match error.detail().and_then(|id| id.parse::<JobId>().ok()) {
            Some(id) => StoreError::Conflict(id),
            None => StoreError::Broken(said()),
        },
        "53100" | "25006" => StoreError::CannotWrite(said()),
        // Nobody but the owner of the tables can help.
        "42501" => StoreError::Schema(format!("{}. Give this role the right, or use another role", said())),
        "WL003" => match error.detail().and_then(|id| id.parse().ok()) {
            Some(id) => StoreError::RequestTaken(id),
            None => StoreError::Broken(said()),
        },
        "53300" => StoreError::Busy(said()),
        "42P01" | "42883" | "3F000" | "42703" => StoreError::Schema(format!(
            "{}. Open the store again, so that its schema is brought up to date",
            said()
        )),
        // A statement that does not fit the tables, or a column that it should fill and does not know: the
        // same statement will never succeed.
        "23502" => StoreError::Schema(said()),
        other if other.starts_with("42") => StoreError::Schema(said()),
        "57014" => StoreError::Unavailable("Postgres took too long and the call was ended".to_owned()),
        "28000" | "28P01" | "3D000" => StoreError::Unavailable(format!("{}. Check the URL", said())),
        // What the server says of a value quotes the value.
        other if other.starts_with("22") => {
            StoreError::Unfit(format!("Postgres refuses it, and would again ({other})"))
        }
        // What a trigger of somebody else's says may quote the row.
        other if other.starts_with("P0") => {
            StoreError::Broken(format!("a function of the database refuses this, and would again ({other})"))
        }
        // So are rows that a rule refuses, or that are too large.
        "55000" => StoreError::Broken(said()),
        other if ["0A", "21", "23", "27", "44", "54", "XX"].contains(&&other[..2]) => {
            StoreError::Broken(said())
        }
        _ => StoreError::Unavailable(said()),
    };
    Fault::Failed(error)
}
