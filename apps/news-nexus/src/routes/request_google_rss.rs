//! `/request-google-rss/`

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::routing::post;
use bytes::Bytes;
use serde_json::{Value, json};

use super::Api;
use super::start_job::{accept, object, require_file, unknown_fields};
use crate::answer::{Answered, invalid};
use crate::jobs::request_google_rss::JOB;

const HOURS: &str = "doNotRepeatRequestsWithinHours";
const AFTER: &str = "startAfterRowId";
/// Ten years.
const HOURS_MAX: u64 = 87_600;

pub(super) fn routes() -> Router<Arc<Api>> {
    Router::new().route(JOB.endpoint, post(start_job))
}

async fn start_job(State(api): State<Arc<Api>>, body: Bytes) -> Answered {
    let fields = object(&body)?;
    let mut wrong = unknown_fields(&fields, &[HOURS, AFTER]);
    let hours = number(fields.get(HOURS), HOURS_MAX);
    let after = number(fields.get(AFTER), i64::MAX as u64);
    for (name, read) in [(HOURS, &hours), (AFTER, &after)] {
        wrong.extend(read.as_ref().err().map(|why| (name.to_owned(), why.clone())));
    }
    let (Ok(hours), Ok(after), true) = (hours, after, wrong.is_empty()) else {
        return Err(invalid(&wrong));
    };
    let setting = "PATH_AND_FILENAME_FOR_QUERY_SPREADSHEET_AUTOMATED";
    require_file(&api.settings.spreadsheet, "Query spreadsheet", setting)?;
    let mut parameters = json!({ HOURS: hours.unwrap_or(0) });
    if let Some(after) = after {
        parameters[AFTER] = json!(after);
    }
    accept(&api, &JOB, parameters).await
}

/// A whole number from 0 on, as a number or as text; null and empty text are nothing.
fn number(value: Option<&Value>, max: u64) -> Result<Option<u64>, String> {
    let number = match value {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(text)) if text.trim().is_empty() => return Ok(None),
        Some(Value::String(text)) => text.trim().parse().ok(),
        Some(Value::Number(number)) => number.as_u64(),
        Some(_) => None,
    };
    match number {
        Some(number) if number <= max => Ok(Some(number)),
        _ => Err(format!("must be a whole number from 0 to {max}")),
    }
}
