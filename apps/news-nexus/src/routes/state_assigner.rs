//! `/state-assigner/`

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::routing::post;
use bytes::Bytes;
use serde_json::{Value, json};

use super::Api;
use super::start_job::{accept, object, unknown_fields};
use crate::answer::{Answered, invalid};
use crate::jobs::state_assigner::JOB;

const DAYS: &str = "targetArticleThresholdDaysOld";
const COUNT: &str = "targetArticleStateReviewCount";
/// A hundred years.
const DAYS_MAX: u64 = 36_500;
const COUNT_MAX: u64 = 1_000_000;

pub(super) fn routes() -> Router<Arc<Api>> {
    Router::new().route(JOB.endpoint, post(start_job))
}

async fn start_job(State(api): State<Arc<Api>>, body: Bytes) -> Answered {
    let fields = object(&body)?;
    let mut wrong = unknown_fields(&fields, &[DAYS, COUNT]);
    for (name, max) in [(DAYS, DAYS_MAX), (COUNT, COUNT_MAX)] {
        let fits = fields.get(name).and_then(whole).is_some_and(|number| (1..=max).contains(&number));
        if !fits {
            wrong.push((name.to_owned(), format!("must be a whole number from 1 to {max}")));
        }
    }
    if !wrong.is_empty() {
        return Err(invalid(&wrong));
    }
    let number = |name: &str| fields.get(name).and_then(whole);
    accept(&api, &JOB, json!({ DAYS: number(DAYS), COUNT: number(COUNT) })).await
}

/// A JSON number that is whole: 3 and 3.0, but not "3".
fn whole(value: &Value) -> Option<u64> {
    let float = || value.as_f64().filter(|number| number.fract() == 0.0 && *number >= 0.0);
    value.as_u64().or_else(|| float().map(|number| number as u64))
}
