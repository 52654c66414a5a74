//! Pages of jobs, newest first.

use schemars::JsonSchema;
use serde::Serialize;
use windlass_engine::core::job::Job;
use windlass_engine::core::query::{Cursor, JobFilter, ListRequest, PAGE_MAX, Page};

use super::Api;
use crate::access::Caller;
use crate::answer::{Answered, Refusal, ok};
use crate::ask::Ask;
use crate::view::{Detail, JobView};

/// How many jobs a page has when nothing is said.
const PAGE_DEFAULT: u32 = 50;
/// What a list can be asked for.
pub(crate) const PARAMETERS: [&str; 9] =
    ["state", "queue", "kind", "key", "since", "until", "text", "limit", "cursor"];

/// A page of jobs.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "JobPage")]
pub(crate) struct PageView {
    jobs: Vec<JobView>,
    /// Ask with this for what follows; null when there is no more. A page can
    /// be short, even empty, and still have one.
    next_cursor: Option<String>,
}

/// `GET /v1/jobs`
pub(crate) async fn list(ask: Ask) -> Answered {
    let request = request_of(&ask.query(&PARAMETERS, &["state"])?)?;
    let text = request.filter.text.clone();
    let Page { jobs, next } = ask.api.store.list(request).await?;
    let shown = jobs.into_iter().filter(|job| may_match(&ask.api, &ask.caller, job, text.as_deref()));
    let view = |job: Job| {
        let hidden = ask.api.settings.is_sensitive(&job.spec.kind);
        JobView::new(job, Detail::Listed, hidden)
    };
    ok(&PageView { jobs: shown.map(view).collect(), next_cursor: next.map(|Cursor(at)| at.to_string()) })
}

/// A search must not tell what is in a payload that the caller may not see.
pub(crate) fn may_match(api: &Api, caller: &Caller, job: &Job, text: Option<&str>) -> bool {
    let Some(text) = text.filter(|_| api.hides(&job.spec.kind, caller)) else { return true };
    let text = text.to_ascii_lowercase();
    let key = job.spec.key.as_ref().map_or("", |key| key.as_str());
    [job.id.to_string().as_str(), job.spec.kind.as_str(), key]
        .iter()
        .any(|field| field.to_ascii_lowercase().contains(&text))
}

pub(crate) fn request_of(parameters: &[(String, String)]) -> Result<ListRequest, Refusal> {
    let mut request = ListRequest { filter: JobFilter::default(), limit: PAGE_DEFAULT, after: None };
    for (name, value) in parameters {
        read(&mut request, name, value).map_err(|refusal| named(refusal, name))?;
    }
    request.filter = request.filter.checked()?;
    Ok(request)
}

fn read(request: &mut ListRequest, name: &str, value: &str) -> Result<(), Refusal> {
    let filter = &mut request.filter;
    match name {
        "state" => {
            for state in value.split(',') {
                filter.states.push(state.parse()?);
            }
        }
        "queue" => filter.queue = Some(value.parse()?),
        "kind" => filter.kind = Some(value.parse()?),
        "key" => filter.key = Some(value.parse()?),
        "since" => filter.since = Some(value.parse()?),
        "until" => filter.until = Some(value.parse()?),
        "text" => filter.text = Some(value.to_owned()),
        "limit" => request.limit = page_limit(value)?,
        _ => {
            request.after =
                Some(Cursor(number(value).ok_or_else(|| Refusal::field("cursor", "is not one of ours"))?))
        }
    }
    Ok(())
}

fn page_limit(value: &str) -> Result<u32, Refusal> {
    let limit = number(value).filter(|limit| (1..=u64::from(PAGE_MAX)).contains(limit));
    let limit =
        limit.ok_or_else(|| Refusal::field("limit", format!("must be a number from 1 to {PAGE_MAX}")))?;
    Ok(u32::try_from(limit).unwrap_or(PAGE_MAX))
}

/// Digits only: a sign or a space is not a number here. Stores keep 63 bits.
fn number(value: &str) -> Option<u64> {
    let digits = value.bytes().all(|byte| byte.is_ascii_digit());
    value.parse::<i64>().ok().filter(|_| digits).and_then(|number| u64::try_from(number).ok())
}

/// Names the parameter as the caller wrote it, where core names its sort.
fn named(mut refusal: Refusal, name: &str) -> Refusal {
    if let Some(field) = refusal.details.as_mut().and_then(|details| details.get_mut("field"))
        && field != name
    {
        *field = name.into();
        refusal.message = format!("{name}: {}", refusal.message);
    }
    refusal
}
