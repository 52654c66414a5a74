//! Whom a message is about: from what was true when it arrived, not from what
//! is true when it is worked.

use deadpool_postgres::Pool;
use serde::{Deserialize, Serialize};
use tokio_postgres::types::Type;

use crate::database::{self, DatabaseError, Param};

/// To whom a message is bound.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Bound {
    /// The agency.
    pub(crate) agency: Option<String>,
    /// The patient, by a care session or by an id in the message.
    pub(crate) patient: Option<String>,
    /// The patient's name, by the same.
    pub(crate) patient_name: Option<String>,
    /// The care session in which the message was spoken.
    pub(crate) session: Option<String>,
}

/// Binds a message: its own agency and patient, else the sender's care session
/// at its arrival, else the id in its text.
pub(crate) async fn bind(pool: &Pool, sid: &str) -> Result<Bound, DatabaseError> {
    let rows = database::rows(pool, "SELECT * FROM nurse_tour_bind($1)", &[(&sid, Type::TEXT)]).await?;
    let Some(row) = rows.first() else { return Ok(Bound::default()) };
    Ok(Bound {
        agency: row.try_get(0)?,
        patient: row.try_get(1)?,
        patient_name: row.try_get(2)?,
        session: row.try_get(3)?,
    })
}

/// Adds what the model heard, where nothing certain is known and the patient exists; and says which document the
/// message has already, whoever made it.
pub(crate) async fn believe(
    pool: &Pool,
    sid: &str,
    bound: Bound,
    heard: Option<&str>,
) -> Result<(Bound, Option<String>), DatabaseError> {
    let heard = heard.filter(|_| bound.patient.is_none());
    let params: [Param<'_>; 3] = [(&sid, Type::TEXT), (&heard, Type::TEXT), (&bound.agency, Type::TEXT)];
    let row = database::row(pool, include_str!("../sql/believe.sql"), &params).await?;
    let (document, agency): (Option<String>, Option<String>) = (row.try_get(0)?, row.try_get(1)?);
    let bound = match agency {
        None => bound,
        agency => Bound { patient: heard.map(str::to_owned), agency, ..bound },
    };
    Ok((bound, document))
}
