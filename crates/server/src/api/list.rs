//! Pages of jobs, newest first.

use schemars::JsonSchema;
use serde::Serialize;
use windlass_engine::core::job::Job;
use windlass_engine::core::query::{Cursor, PAGE_MAX, Page};
use windlass_engine::core::time::{Span, Time};
use windlass_report::search::{self, Wanted};
use windlass_report::view::{Detail, JobView};

use super::Api;
use crate::access::Caller;
use crate::answer::{Answered, Refusal, ok};
use crate::ask::Ask;

/// How many jobs a page has when nothing is said.
const PAGE_DEFAULT: u32 = 50;
/// What a list can be asked for.
pub(crate) const PARAMETERS: [&str; 10] =
    ["state", "queue", "kind", "key", "since", "until", "text", "error", "limit", "cursor"];
/// The longest text that an error can be searched for: that of a group of failures.
const ERROR_CHARS_MAX: usize = 200;

/// A page of jobs.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "JobPage")]
pub(crate) struct PageView {
    jobs: Vec<JobView>,
    /// Ask with this for what follows; null when there is no more. A page can
    /// be short, even empty, and still have one.
    next_cursor: Option<String>,
}

/// What a list is asked for.
pub(crate) struct Asked {
    pub wanted: Wanted,
    pub limit: u32,
    pub after: Option<Cursor>,
}

impl Asked {
    /// The page, without what the caller may not see into.
    pub(crate) async fn page(&self, ask: &Ask) -> Result<Page, Refusal> {
        let Self { wanted, limit, after } = self;
        let mut page = search::page(&*ask.api.store, wanted, *limit, *after).await?;
        page.jobs.retain(|job| may_match(&ask.api, &ask.caller, job, wanted));
        Ok(page)
    }
}

/// `GET /v1/jobs`
pub(crate) async fn list(ask: Ask) -> Answered {
    let asked = asked_of(&ask.api, &ask.query(&PARAMETERS, &["state"])?).await?;
    let Page { jobs, next } = asked.page(&ask).await?;
    let view = |job: Job| {
        let hidden = ask.api.settings.is_sensitive(&job.spec.kind);
        JobView::new(job, Detail::Listed, hidden)
    };
    let jobs = jobs.into_iter().map(view).collect();
    ok(&PageView { jobs, next_cursor: next.map(|Cursor(at)| at.to_string()) })
}

/// A search must not tell what is in a payload or an error that the caller may not see.
pub(crate) fn may_match(api: &Api, caller: &Caller, job: &Job, wanted: &Wanted) -> bool {
    if !api.hides(&job.spec.kind, caller) {
        return true;
    }
    if wanted.error.is_some() {
        return false;
    }
    let Some(text) = &wanted.filter.text else { return true };
    let text = text.to_ascii_lowercase();
    let key = job.spec.key.as_ref().map_or("", |key| key.as_str());
    [job.id.to_string().as_str(), job.spec.kind.as_str(), key]
        .iter()
        .any(|field| field.to_ascii_lowercase().contains(&text))
}

/// Reads what a list is asked for. A length of time is counted back from now, by the store's clock.
pub(crate) async fn asked_of(api: &Api, parameters: &[(String, String)]) -> Result<Asked, Refusal> {
    let mut asked = Asked { wanted: Wanted::default(), limit: PAGE_DEFAULT, after: None };
    let spans = parameters.iter().any(|(name, value)| is_moment(name) && value.parse::<Span>().is_ok());
    let now = if spans { api.now().await? } else { Time::MIN };
    for (name, value) in parameters {
        read(&mut asked, name, value, now).map_err(|refusal| named(refusal, name))?;
    }
    asked.wanted.filter = asked.wanted.filter.checked()?;
    Ok(asked)
}

fn is_moment(name: &str) -> bool {
    matches!(name, "since" | "until")
}

fn read(asked: &mut Asked, name: &str, value: &str, now: Time) -> Result<(), Refusal> {
    let filter = &mut asked.wanted.filter;
    match name {
        "state" => {
            for state in value.split(',') {
                filter.states.push(state.parse()?);
            }
        }
        "queue" => filter.queue = Some(value.parse()?),
        "kind" => filter.kind = Some(value.parse()?),
        "key" => filter.key = Some(value.parse()?),
        "since" => filter.since = Some(moment(value, now)?),
        "until" => filter.until = Some(moment(value, now)?),
        "text" => filter.text = Some(value.to_owned()),
        "error" => asked.wanted.error = Some(error_text(value)?),
        "limit" => asked.limit = page_limit(value)?,
        _ => {
            asked.after =
                Some(Cursor(number(value).ok_or_else(|| Refusal::field("cursor", "is not one of ours"))?))
        }
    }
    Ok(())
}

fn moment(value: &str, now: Time) -> Result<Time, Refusal> {
    match value.parse::<Span>() {
        Ok(span) => Ok(now.plus_ms(-i64::try_from(span.ms()).unwrap_or(i64::MAX))),
        Err(_) => Ok(value.parse()?),
    }
}

/// What an error is to say.
pub(crate) fn error_text(value: &str) -> Result<String, Refusal> {
    if value.is_empty() || value.chars().count() > ERROR_CHARS_MAX {
        return Err(Refusal::field("error", format!("must have 1 to {ERROR_CHARS_MAX} letters")));
    }
    Ok(value.to_owned())
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
