//! The job that a change makes: a row of Agenda's, with an id that is computed.

use std::sync::Arc;

use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, DateTime, Document, RawDocumentBuf, doc};
use uuid::Uuid;
use windlass_engine::core::id::Key;
use windlass_engine::core::job::{JobSpec, NewJob as StoreJob, Start};
use windlass_engine::{BudgetName, Invalid, JobId, Kind, QueueName};
use windlass_mongo::agenda::{NewRow, payload, row_id};

use crate::event::{Event, Operation, id_text};
use crate::lane::Handle;
use crate::listener::{Listener, Once, Payload, changed_names};
use crate::settings::JobsTarget;
use crate::status_field::StatusField;
use crate::token::Token;

/// The beginning of a tenant's database, behind which is its id.
const TENANT: &str = "workspace_";

/// What made a job; it is part of the row's id, so that one cause makes one row.
#[derive(Debug, Clone)]
pub(crate) enum Cause<'a> {
    /// A change.
    Event(&'a Token),
    /// Somebody has asked for the document again, for the nth time.
    Again(u64),
    /// It was there when the listener was made.
    Backfill,
    /// It was found after a gap.
    Gap(&'a str),
}

/// A job that is to be written, and where it came from.
#[derive(Debug, Clone)]
pub(crate) struct NewJob {
    /// The lane that it belongs to.
    pub(crate) handle: Arc<Handle>,
    pub(crate) id: ObjectId,
    /// Its id as whoever runs it knows it.
    pub(crate) name: String,
    form: Form,
    pub(crate) bytes: usize,
    /// The position of its event; nothing where it was found.
    pub(crate) token: Option<Token>,
    pub(crate) origin: Origin,
    /// That it can never be written, once that is known.
    pub(crate) dead: Option<Dead>,
}

/// Why a job can never be written, and since when that is known. The document and its entry are told the same.
#[derive(Debug, Clone)]
pub(crate) struct Dead {
    pub(crate) why: String,
    pub(crate) at: DateTime,
}

/// What is written.
#[derive(Debug, Clone)]
enum Form {
    /// As it goes over the wire: it is measured, and may be sent more than once.
    Row(RawDocumentBuf),
    Job(Box<StoreJob>),
    /// Nothing can be, and why.
    Unfit(String),
    /// It was.
    Written,
}

/// Where a job came from: for the status, the history, and a dead letter.
#[derive(Debug, Clone)]
pub(crate) struct Origin {
    pub(crate) listener: String,
    pub(crate) database: String,
    pub(crate) collection: String,
    pub(crate) document: Bson,
    pub(crate) operation: &'static str,
    pub(crate) status_field: Option<StatusField>,
    /// The event brought a null of its own, so that a null is no wish.
    pub(crate) null_is_no_wish: bool,
    pub(crate) wall_ms: Option<i64>,
}

/// What is needed beside the listener and the event.
pub(crate) struct Making<'a> {
    pub(crate) handle: &'a Arc<Handle>,
    pub(crate) instance: &'a str,
    pub(crate) due: DateTime,
    pub(crate) payload_bytes_max: usize,
    pub(crate) target: JobsTarget,
}

/// The row's id.
pub(crate) fn id_of(listener: &Listener, event: &Event, cause: &Cause<'_>) -> ObjectId {
    let (listener_id, target) = (listener.id(), listener.job_name.as_bytes());
    let id =
        |kind: &str, what: &str| row_id(&[listener_id.as_bytes(), kind.as_bytes(), what.as_bytes(), target]);
    let place = || format!("{}.{}/{}", event.database, event.collection, id_text(event.id()));
    match cause {
        Cause::Event(_) if listener.once == Once::Document => id("once", &place()),
        Cause::Event(token) => id("event", token.text()),
        Cause::Again(time) => id("again", &format!("{}#{time}", place())),
        // What was there, and is heard of afterwards, is one document of a listener that takes each once.
        Cause::Backfill | Cause::Gap(_) if listener.once == Once::Document => id("once", &place()),
        Cause::Backfill => id("backfill", &place()),
        Cause::Gap(gap) => id("gap", &format!("{}#{gap}", place())),
    }
}

impl NewJob {
    pub(crate) fn of(listener: &Listener, event: &Event, cause: &Cause<'_>, making: &Making<'_>) -> Self {
        let id = id_of(listener, event, cause);
        let data = data(listener, event, cause, making);
        let (name, form, bytes) = match making.target {
            JobsTarget::Agenda => row(listener, id, data, making),
            JobsTarget::Windlass => store_job(listener, event, id, data),
        };
        let null =
            |field: &StatusField| event.document.as_ref().is_some_and(|document| field.asks_again(document));
        let whole = matches!(event.operation, Operation::Insert | Operation::Replace);
        let origin = Origin {
            listener: listener.id(),
            database: event.database.clone(),
            collection: event.collection.clone(),
            document: event.id().clone(),
            operation: event.operation.word(),
            null_is_no_wish: whole && listener.status_field.as_ref().is_some_and(null),
            // What is gone has no field to write to.
            status_field: listener.status_field.clone().filter(|_| event.operation != Operation::Delete),
            wall_ms: event.wall_time.map(DateTime::timestamp_millis),
        };
        let token = matches!(cause, Cause::Event(_)).then(|| event.token.clone());
        Self { handle: making.handle.clone(), id, name, form, bytes, token, origin, dead: None }
    }

    /// As a row of Agenda's; or why it cannot be one.
    pub(crate) fn row(&self) -> Result<&RawDocumentBuf, &str> {
        match &self.form {
            Form::Row(row) => Ok(row),
            Form::Unfit(why) => Err(why),
            Form::Job(_) => Err("it is a job of the store"),
            Form::Written => Err("it is written already"),
        }
    }

    /// It can never be written: what is left is what is told of that.
    pub(crate) fn given_up(self, dead: Dead) -> Self {
        Self { form: Form::Written, dead: Some(dead), ..self }
    }

    /// It is durable: what is left is what is told of it.
    pub(crate) fn forget_form(&mut self) {
        self.form = Form::Written;
    }

    /// As a job of the store; or why it cannot be one.
    pub(crate) fn store_job(&self) -> Result<StoreJob, &str> {
        match &self.form {
            Form::Job(job) => Ok(StoreJob::clone(job)),
            Form::Unfit(why) => Err(why),
            Form::Row(_) => Err("it is a row of Agenda's"),
            Form::Written => Err("it is written already"),
        }
    }
}

fn row(listener: &Listener, id: ObjectId, data: Document, making: &Making<'_>) -> (String, Form, usize) {
    let row = NewRow {
        id,
        name: listener.job_name.clone(),
        data: Bson::Document(data),
        priority: i32::from(listener.priority),
        next_run_at: making.due,
        last_modified_by: making.instance.to_owned(),
    };
    let (form, bytes) = match RawDocumentBuf::try_from(&row.into_document()) {
        Ok(row) => {
            let bytes = row.as_bytes().len();
            (Form::Row(row), bytes)
        }
        Err(why) => (Form::Unfit(why.to_string()), 0),
    };
    (id.to_hex(), form, bytes)
}

fn store_job(listener: &Listener, event: &Event, id: ObjectId, data: Document) -> (String, Form, usize) {
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(b"list");
    bytes[4..].copy_from_slice(&id.bytes());
    let id = JobId(Uuid::from_bytes(bytes));
    let form = match spec(listener, event, data) {
        Ok(spec) => Form::Job(Box::new(StoreJob { id, spec, start: Start::Now })),
        Err(why) => Form::Unfit(why.to_string()),
    };
    let bytes = match &form {
        Form::Job(job) => job.spec.payload.as_str().len() + 200,
        Form::Row(_) | Form::Unfit(_) | Form::Written => 200,
    };
    (id.to_string(), form, bytes)
}

/// Jobs of one document have one key, so that they run in order and never two of them at once.
fn spec(listener: &Listener, event: &Event, data: Document) -> Result<JobSpec, Invalid> {
    let data = payload(Some(&Bson::Document(data)))?;
    let mut spec = JobSpec::new(Kind::new(&listener.job_name)?, QueueName::new(&listener.queue)?, data);
    spec.key = Some(key_of(event)?);
    spec.priority = listener.priority;
    let own = listener.own_budget().map(|(name, _)| name);
    let mut budgets: Vec<&String> = listener.budgets.iter().chain(&own).collect();
    budgets.sort();
    spec.budgets = budgets.into_iter().map(BudgetName::new).collect::<Result<_, _>>()?;
    Ok(spec)
}

/// The key of a document's jobs.
pub(crate) fn key_of(event: &Event) -> Result<Key, Invalid> {
    let place = format!("{}.{}/{}", event.database, event.collection, id_text(event.id()));
    Key::new(&place).or_else(|_| Key::new(row_id(&[b"key", place.as_bytes()]).to_hex()))
}

/// Small by default: keys and names, so that a job reads the document as it is when it runs.
fn data(listener: &Listener, event: &Event, cause: &Cause<'_>, making: &Making<'_>) -> Document {
    let mut data = doc! {
        "listenerId": listener.id(),
        "database": &event.database,
        "collection": &event.collection,
        "documentId": id_text(event.id()),
        "documentKey": event.key.clone(),
        "operationType": event.operation.word(),
        "metadata": listener.metadata.clone(),
    };
    let workspace = listener.metadata.get("workspaceId").map(id_text);
    let workspace = workspace.or_else(|| event.database.strip_prefix(TENANT).map(str::to_owned));
    if let Some(workspace) = workspace {
        data.insert("workspaceId", workspace);
    }
    match cause {
        Cause::Event(token) => {
            data.insert("token", token.text());
            data.insert("clusterTime", event.cluster_time);
        }
        Cause::Again(_) => _ = data.insert("cause", "again"),
        Cause::Backfill => _ = data.insert("cause", "backfill"),
        Cause::Gap(gap) => {
            data.insert("cause", "gap");
            data.insert("gap", *gap);
        }
    }
    if event.operation == Operation::Update {
        data.insert("changedFields", changed_names(event));
    }
    if listener.payload == Payload::Full {
        // Measured with the document that was looked up, which the event on the wire did not have.
        let change = event.as_document();
        let bytes = change.to_vec().map_or(usize::MAX, |bytes| bytes.len());
        if bytes <= making.payload_bytes_max {
            data.insert("change", change);
        } else {
            data.insert("changeTooLarge", i64::try_from(bytes).unwrap_or(i64::MAX));
        }
    }
    data
}
