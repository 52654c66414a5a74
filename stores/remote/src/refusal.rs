//! What a server's refusal means for the caller of a store.

use http::StatusCode;
use serde::Deserialize;
use windlass_core::error::{Invalid, StoreError};
use windlass_core::id::JobId;

/// `{"error":{"code","message","details?"}}`
#[derive(Deserialize)]
struct Body {
    error: Refused,
}

/// Why a call was refused.
#[derive(Debug, Deserialize)]
pub(crate) struct Refused {
    #[serde(skip)]
    status: u16,
    code: String,
    message: String,
    #[serde(default)]
    details: Details,
}

#[derive(Debug, Default, Deserialize)]
struct Details {
    id: Option<JobId>,
    job_id: Option<JobId>,
    #[serde(default)]
    queued: u64,
    #[serde(default)]
    running: u64,
    begin: Option<String>,
}

impl Refused {
    pub(crate) fn read(status: StatusCode, body: &[u8]) -> Self {
        let read = serde_json::from_slice::<Body>(body).map(|body| body.error);
        let mut refused = read.unwrap_or_else(|_| Self {
            status: 0,
            code: "unknown".to_owned(),
            message: format!("it answered {status}, and not as a Windlass server does"),
            details: Details::default(),
        });
        refused.status = status.as_u16();
        refused
    }

    pub(crate) fn code(&self) -> &str {
        &self.code
    }

    /// The other job that a refusal speaks of.
    pub(crate) fn other(&self) -> Option<JobId> {
        self.details.job_id
    }

    /// How many jobs a refusal speaks of: queued, and running.
    pub(crate) fn held(&self) -> (u64, u64) {
        (self.details.queued, self.details.running)
    }

    pub(crate) fn is_invalid(&self) -> bool {
        self.status == 400 && self.code == "invalid"
    }

    /// Whether the server does not know the call itself.
    pub(crate) fn is_unknown_call(&self) -> bool {
        self.status == 404 || self.status == 405
    }

    pub(crate) fn is_not_found(&self) -> bool {
        self.status == 404 && self.code == "not_found"
    }
}

impl From<Refused> for StoreError {
    fn from(refused: Refused) -> Self {
        let Refused { status, code, message, details } = refused;
        match (status, code.as_str()) {
            (401, _) => {
                Invalid::new("token", "is missing or wrong; set WINDLASS_TOKEN to the server's").into()
            }
            (403, _) => Invalid::new("token", format!("may not do this: {message}")).into(),
            (409, "id_conflict") => match details.id {
                Some(id) => Self::Conflict(id),
                None => Invalid::new("id", message).into(),
            },
            (409, "request_conflict") => match details.id {
                Some(id) => Self::RequestTaken(id.0),
                None => Invalid::new("request_id", message).into(),
            },
            (410, "position_of_another_epoch") => match details.begin.and_then(|begin| begin.parse().ok()) {
                Some(begin) => Self::AnotherEpoch(begin),
                None => Invalid::new("position", message).into(),
            },
            (422, "value_unfit") => Self::Unfit(message),
            (_, "store_busy") => Self::Busy(message),
            (422, "unsupported") => Self::Unsupported("do that; its own store cannot"),
            (400..=428, _) => Invalid::new("request", format!("was refused: {message}")).into(),
            (_, "store_full") => Self::Full(message),
            (_, "store_cannot_write") => Self::CannotWrite(message),
            _ => Self::Unavailable(format!("the server says: {message}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_keeps_its_meaning() {
        let id = "0198c0de-0000-7000-8000-000000000001";
        for (status, body, code) in [
            (401, r#"{"error":{"code":"unauthorized","message":"m"}}"#.to_owned(), "invalid"),
            (
                400,
                r#"{"error":{"code":"invalid","message":"m","details":{"field":"kind"}}}"#.to_owned(),
                "invalid",
            ),
            (
                409,
                format!(r#"{{"error":{{"code":"id_conflict","message":"m","details":{{"id":"{id}"}}}}}}"#),
                "id_conflict",
            ),
            (503, r#"{"error":{"code":"store_full","message":"m"}}"#.to_owned(), "store_full"),
            (503, r#"{"error":{"code":"busy","message":"m"}}"#.to_owned(), "store_unavailable"),
            (502, "<html>Bad gateway</html>".to_owned(), "store_unavailable"),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            let error = StoreError::from(Refused::read(status, body.as_bytes()));
            assert_eq!(error.code(), code, "{status} {body}");
        }
    }
}
