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

/// Adds what the model heard, where nothing certain is known and the patient exists.
pub(crate) async fn believe(pool: &Pool, bound: Bound, heard: Option<&str>) -> Result<Bound, DatabaseError> {
    let Some(heard) = heard.filter(|_| bound.patient.is_none()) else { return Ok(bound) };
    let params: [Param<'_>; 2] = [(&heard, Type::TEXT), (&bound.agency, Type::TEXT)];
    let rows = database::rows(pool, include_str!("../sql/believe.sql"), &params).await?;
    match rows.first() {
        None => Ok(bound),
        Some(row) => Ok(Bound { patient: Some(heard.to_owned()), agency: row.try_get(0)?, ..bound }),
    }
}
