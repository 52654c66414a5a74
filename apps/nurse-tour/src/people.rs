//! Whom a message is about: from what was true when it arrived, not from what
//! is true when it is worked.

use deadpool_postgres::Pool;
use serde::{Deserialize, Serialize};
use tokio::sync::OnceCell;
use tokio_postgres::types::Type;

use crate::database::{self, DatabaseError, Param};
use crate::message;
use crate::schema::DOCUMENTS;
use crate::types::Types;

/// To whom a message is bound.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Bound {
    /// The agency.
    #[serde(deserialize_with = "message::id")]
    pub(crate) agency: Option<String>,
    /// The patient, by a care session or by an id in the message.
    #[serde(deserialize_with = "message::id")]
    pub(crate) patient: Option<String>,
    /// The patient's name, by the same.
    pub(crate) patient_name: Option<String>,
    /// The care session in which the message was spoken.
    #[serde(deserialize_with = "message::id")]
    pub(crate) session: Option<String>,
}

/// What is known of the people of a message when its document is written.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    /// To whom it is bound, with the patient's own name where that is known.
    pub(crate) bound: Bound,
    /// The id of its document: of the one that it has, whoever made it, or of the one that it will have.
    pub(crate) document: String,
    /// Whether the patient is only whom the model heard.
    pub(crate) only_heard: bool,
    /// The name under which the message was bound, where the patient has one of their own: a session or a text may
    /// name another than the id beside it means.
    pub(crate) bound_as: Option<String>,
}

/// The tables of patients, sessions and documents.
pub(crate) struct People {
    pool: Pool,
    /// The statement that [`People::believe`] asks, for these tables.
    believe: OnceCell<String>,
}

impl People {
    pub(crate) fn new(pool: Pool) -> Self {
        Self { pool, believe: OnceCell::new() }
    }

    /// Binds a message: its own agency and patient, else the sender's care session
    /// at its arrival, else the id in its text.
    pub(crate) async fn bind(&self, sid: &str) -> Result<Bound, DatabaseError> {
        let bind = "SELECT * FROM nurse_tour_bind($1)";
        let rows = database::rows(&self.pool, bind, &[(&sid, Type::TEXT)]).await?;
        let Some(row) = rows.first() else { return Ok(Bound::default()) };
        Ok(Bound {
            agency: row.try_get(0)?,
            patient: row.try_get(1)?,
            patient_name: row.try_get(2)?,
            session: row.try_get(3)?,
        })
    }

    /// Adds what the model heard, where nothing certain is known and the patient exists; the own name of the patient;
    /// and the id of the document.
    pub(crate) async fn believe(
        &self,
        sid: &str,
        bound: Bound,
        heard: Option<&str>,
    ) -> Result<Known, DatabaseError> {
        let sql = self.believe.get_or_try_init(|| self.statement()).await?;
        let heard = heard.filter(|_| bound.patient.is_none());
        let about = bound.patient.as_deref().or(heard);
        let params: [Param<'_>; 4] =
            [(&sid, Type::TEXT), (&heard, Type::TEXT), (&bound.agency, Type::TEXT), (&about, Type::TEXT)];
        let row = database::row(&self.pool, sql, &params).await?;
        let (document, agency): (String, Option<String>) = (row.try_get(0)?, row.try_get(1)?);
        let (own, of_session): (Option<String>, Option<String>) = (row.try_get(2)?, row.try_get(3)?);
        let only_heard = agency.is_some();
        let mut bound = match agency {
            None => bound,
            agency => Bound { patient: heard.map(str::to_owned), agency, ..bound },
        };
        let mut bound_as = None;
        if bound.patient.is_some() {
            match own {
                Some(own) => bound_as = bound.patient_name.replace(own),
                None => bound.patient_name = bound.patient_name.take().or(of_session),
            }
        }
        Ok(Known { bound, document, only_heard, bound_as })
    }

    async fn statement(&self) -> Result<String, DatabaseError> {
        let types = Types::read(&self.pool).await?;
        Ok(include_str!("../sql/believe.sql")
            .replace("{new_id}", &types.new_id(DOCUMENTS, "pd_", "$1"))
            .replace("{own_name}", &types.name_of_patient()))
    }
}
