//! Tasks: handed out, brought back, asked for, looked at.

use std::time::Duration;

use axum::extract::{Path, State};
use bytes::Bytes;
use http::{StatusCode, Uri};
use serde::Deserialize;
use serde_json::{Value, json as value};
use uuid::Uuid;
use windlass_app::door::{Answered, Refusal, json};
use windlass_engine::core::id::WorkerName;
use windlass_engine::core::query::{Cursor, JobFilter, PAGE_MAX};
use windlass_engine::core::store::{LeaseRef, RetryAnswer};
use windlass_engine::{JobId, Key, Kind, StateName};

use super::{Params, Rooms, invalid, read, shelf};
use crate::desk::{Fail, FailClass, Served, WAIT_MS_MAX};
use crate::shop::ShopId;
use crate::status::TaskView;
use crate::task::{self, TaskKind};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wish {
    worker_id: String,
    #[serde(default)]
    wait_ms: u64,
    /// Asked again with the same id, the same task is handed out: for whoever did not hear the answer.
    #[serde(default)]
    request_id: Option<Uuid>,
    /// For workers that say what they can; every worker can do everything.
    #[serde(default, rename = "capabilities")]
    _capabilities: Option<Value>,
}

/// `POST /get-task`
pub(super) async fn next(State(rooms): State<Rooms>, body: Bytes) -> Answered {
    let Wish { worker_id, wait_ms, request_id, _capabilities: _ } = read(&body)?;
    if wait_ms > WAIT_MS_MAX {
        return Err(invalid(format!("wait_ms must be at most {WAIT_MS_MAX}")));
    }
    let worker = WorkerName::new(worker_id).map_err(|wrong| invalid(format!("worker_id: {wrong}")))?;
    match rooms.desk.next(worker, request_id, wait_ms).await.map_err(shelf)? {
        Served::Task(handed) => Ok(json(StatusCode::OK, &handed)),
        Served::Nothing(ms) => {
            let mut response = axum::response::Response::new(axum::body::Body::empty());
            *response.status_mut() = StatusCode::NO_CONTENT;
            response.headers_mut().insert(http::header::RETRY_AFTER, ms.div_ceil(1000).into());
            Ok(response)
        }
    }
}

#[derive(Deserialize)]
pub(super) struct Word {
    fence: u64,
    #[serde(default)]
    progress: Option<Value>,
    #[serde(default, alias = "kind")]
    class: Option<FailClass>,
    #[serde(default)]
    error: Option<String>,
    #[serde(default)]
    retry_after_ms: Option<u64>,
    #[serde(flatten)]
    rest: serde_json::Map<String, Value>,
}

fn lease(id: &str, fence: u64) -> Result<LeaseRef, Refusal> {
    Ok(LeaseRef::new(task_id(id)?, fence))
}

fn task_id(id: &str) -> Result<JobId, Refusal> {
    id.parse().map_err(|_| Refusal::not_found("There is no such task: its id is not one of ours"))
}

/// 409 for a worker that has lost its task.
fn held(is_held: bool) -> Result<(), Refusal> {
    if is_held {
        return Ok(());
    }
    let message =
        "The fence is stale: the task belongs to somebody else by now, or is over. Stop working on it";
    Err(Refusal::new(StatusCode::CONFLICT, "lease_lost", message))
}

/// `POST /tasks/{id}/renew`
pub(super) async fn renew(State(rooms): State<Rooms>, Path(id): Path<String>, body: Bytes) -> Answered {
    let word: Word = read(&body)?;
    let renewed = rooms.desk.renew(lease(&id, word.fence)?).await?;
    held(renewed.is_some())?;
    let lease_ms = u64::try_from(rooms.desk.tasks().lease().as_millis()).unwrap_or(u64::MAX);
    Ok(json(
        StatusCode::OK,
        &value!({"renewed": true, "cancel_requested": renewed == Some(true), "lease_ms": lease_ms}),
    ))
}

/// `POST /tasks/{id}/progress`
pub(super) async fn progress(State(rooms): State<Rooms>, Path(id): Path<String>, body: Bytes) -> Answered {
    let word: Word = read(&body)?;
    let lease = lease(&id, word.fence)?;
    let progress = word.progress.unwrap_or(Value::Object(word.rest));
    held(rooms.desk.progress(lease, &progress).await?)?;
    Ok(json(StatusCode::OK, &value!({"noted": true})))
}

/// `POST /tasks/{id}/complete`
pub(super) async fn complete(State(rooms): State<Rooms>, Path(id): Path<String>, body: Bytes) -> Answered {
    let word: Word = read(&body)?;
    held(rooms.desk.complete(lease(&id, word.fence)?).await.map_err(shelf)?)?;
    Ok(json(StatusCode::OK, &value!({"completed": true})))
}

/// `POST /tasks/{id}/fail`
pub(super) async fn fail(State(rooms): State<Rooms>, Path(id): Path<String>, body: Bytes) -> Answered {
    let word: Word = read(&body)?;
    let lease = lease(&id, word.fence)?;
    let fail = Fail {
        class: word.class.unwrap_or(FailClass::Retry),
        error: word.error.unwrap_or_else(|| "the worker did not say why".to_owned()),
        retry_after: word.retry_after_ms.map(Duration::from_millis),
    };
    held(rooms.desk.fail(lease, &fail).await.map_err(shelf)?)?;
    let job = rooms.office.client.get(lease.job_id).await?;
    Ok(json(StatusCode::OK, &value!({"task": job.as_ref().map(TaskView::of)})))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewTask {
    #[serde(rename = "type")]
    kind: TaskKind,
    shop_id: ShopId,
}

/// `POST /tasks`
pub(super) async fn create(State(rooms): State<Rooms>, body: Bytes) -> Answered {
    let NewTask { kind, shop_id } = read(&body)?;
    if rooms.office.shelves.shops.get(shop_id).await.map_err(shelf)?.is_none() {
        return Err(Refusal::not_found(format!("Shop {shop_id} is not known; add it with POST /shops")));
    }
    let asked = rooms.desk.tasks().ask(kind, shop_id).await?;
    let job = rooms.office.client.get(asked.id).await?;
    let status = if asked.was_there { StatusCode::OK } else { StatusCode::CREATED };
    let task = match &job {
        Some(job) => value!(TaskView::of(job)),
        // It was so fast that it is over.
        None => value!({"id": asked.id, "type": kind, "shop_id": shop_id, "state": "completed"}),
    };
    Ok(json(status, &value!({ "task": task })))
}

/// `GET /tasks`
pub(super) async fn list(State(rooms): State<Rooms>, uri: Uri) -> Answered {
    let params = Params::of(&uri);
    let kind = params.parsed::<TaskKind>("type")?.map(|kind| Kind::new(kind.as_str())).transpose();
    let shop = params.parsed::<ShopId>("shop_id")?.or(params.parsed("shop")?);
    let key = shop.map(|shop| Key::new(task::key(shop))).transpose();
    let filter = JobFilter {
        states: params.parsed::<StateName>("state")?.into_iter().collect(),
        kind: kind.map_err(|wrong| invalid(wrong.to_string()))?,
        key: key.map_err(|wrong| invalid(wrong.to_string()))?,
        ..JobFilter::default()
    };
    let is_theirs =
        |view: &TaskView| params.text("worker").is_none_or(|worker| view.worker.as_deref() == Some(worker));
    let (mut tasks, mut cursor) = (Vec::new(), params.parsed("cursor")?.map(Cursor));
    // The store does not look for workers: their tasks are looked for page by page, until there are enough for one.
    loop {
        let page = rooms.desk.tasks().page(filter.clone(), cursor).await?;
        tasks.extend(page.jobs.iter().map(TaskView::of).filter(is_theirs));
        cursor = page.next;
        if cursor.is_none() || tasks.len() >= PAGE_MAX as usize {
            break;
        }
    }
    Ok(json(StatusCode::OK, &value!({"tasks": tasks, "next_cursor": cursor})))
}

/// `GET /tasks/{id}`
pub(super) async fn get(State(rooms): State<Rooms>, Path(id): Path<String>) -> Answered {
    let job = rooms.office.client.get(task_id(&id)?).await?;
    let job = job.ok_or_else(|| Refusal::not_found("There is no such task; one that is done is deleted"))?;
    Ok(json(StatusCode::OK, &value!({"task": TaskView::of(&job)})))
}

/// `POST /tasks/{id}/retry`: a task that failed begins anew.
pub(super) async fn retry(State(rooms): State<Rooms>, Path(id): Path<String>) -> Answered {
    let conflict = |message: &str| Refusal::new(StatusCode::CONFLICT, "not_final", message);
    match rooms.office.client.retry(task_id(&id)?).await? {
        RetryAnswer::Retried => Ok(json(StatusCode::ACCEPTED, &value!({"retried": true}))),
        RetryAnswer::NotFinal => Err(conflict("The task is not over; nothing was changed")),
        RetryAnswer::Taken(_) => {
            Err(conflict("Another task of its kind is queued already; nothing was changed"))
        }
        RetryAnswer::NotFound => Err(Refusal::not_found("There is no such task")),
    }
}
