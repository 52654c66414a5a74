//! Views of the list of jobs that somebody has saved, for everybody: records beside the jobs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_engine::core::id::{RecordKey, ShelfName};
use windlass_engine::core::json::Json;
use windlass_engine::core::record::{
    IfRev, Keep, Put, RECORD_BYTES_MAX, RecordBatch, RecordWrite, Records, Scan,
};
use windlass_engine::world::new_id;

use super::Api;
use super::list::{PARAMETERS, asked_of};
use crate::answer::{Answered, Refusal, nothing, ok};
use crate::ask::{Ask, decoded};

/// The shelf.
const SHELF: &str = "windlass.views";
/// How many there may be.
const VIEWS_MAX: u32 = 100;
/// The longest name.
const NAME_CHARS_MAX: usize = 60;
/// The longest query.
const QUERY_CHARS_MAX: usize = 1_000;

/// A view that was saved.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "View")]
pub(crate) struct View {
    pub name: String,
    /// What the list of jobs is asked with, such as `state=failed&since=1h`.
    pub query: String,
}

/// The views that were saved.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Views")]
pub(crate) struct ViewsView {
    views: Vec<View>,
}

/// What a view is to show.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NewView")]
pub(crate) struct ViewBody {
    /// What the list of jobs is asked with, such as `state=failed&since=1h`.
    #[schemars(length(max = 1_000))]
    query: String,
}

/// The views, by name; none where the store keeps no records.
pub(crate) async fn all(api: &Api) -> Result<Vec<View>, Refusal> {
    let Ok(records) = api.store.records() else { return Ok(Vec::new()) };
    let found = records.scan(Scan { limit: VIEWS_MAX, ..Scan::of(ShelfName::new(SHELF)?) }).await?.records;
    let view = |record: windlass_engine::core::record::Record| {
        let ViewBody { query } = record.value.read().ok()?;
        Some(View { name: record.key.to_string(), query })
    };
    Ok(found.into_iter().filter_map(view).collect())
}

/// `GET /v1/views`
pub(crate) async fn list(ask: Ask) -> Answered {
    ok(&ViewsView { views: all(&ask.api).await? })
}

/// `PUT /v1/views/{name}`
pub(crate) async fn put(ask: Ask) -> Answered {
    let body: ViewBody = ask.body()?;
    if body.query.chars().count() > QUERY_CHARS_MAX {
        return Err(Refusal::field("query", format!("has more than {QUERY_CHARS_MAX} letters")));
    }
    let pairs = body.query.split('&').filter(|pair| !pair.is_empty());
    let mut said = Vec::new();
    for pair in pairs {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (name, value) = (decoded(name)?, decoded(value)?);
        if !PARAMETERS.contains(&name.as_str()) {
            return Err(Refusal::field("query", format!("names {name}, which no list of jobs knows")));
        }
        said.push((name, value));
    }
    asked_of(&ask.api, &said).await?;
    let there = all(&ask.api).await?;
    let name = key(&ask)?;
    if there.len() >= VIEWS_MAX as usize && there.iter().all(|view| view.name != name.as_str()) {
        return Err(Refusal::conflict(
            "full",
            format!("there are {VIEWS_MAX} views already; delete one first"),
        ));
    }
    let value = Json::from_value("a view", &body, RECORD_BYTES_MAX)?;
    let put = Put { value, sort: 0, label: None, keep: Keep::Forever };
    write(&ask, name, Some(put)).await?;
    nothing()
}

/// `DELETE /v1/views/{name}`
pub(crate) async fn delete(ask: Ask) -> Answered {
    let name = key(&ask)?;
    if all(&ask.api).await?.iter().all(|view| view.name != name.as_str()) {
        return Err(Refusal::not_found("view"));
    }
    write(&ask, name, None).await?;
    nothing()
}

fn key(ask: &Ask) -> Result<RecordKey, Refusal> {
    let name = ask.segment("name").trim();
    if name.chars().count() > NAME_CHARS_MAX {
        return Err(Refusal::field("name", format!("has more than {NAME_CHARS_MAX} letters")));
    }
    Ok(RecordKey::new(name)?)
}

async fn write(ask: &Ask, key: RecordKey, put: Option<Put>) -> Result<(), Refusal> {
    let records: &dyn Records = ask.api.store.records()?;
    let write = RecordWrite { shelf: ShelfName::new(SHELF)?, key, if_rev: IfRev::Any, put };
    let id = new_id(&*ask.api.world).0;
    records.write(RecordBatch { writes: vec![write], ..RecordBatch::new(id) }).await?;
    Ok(())
}
