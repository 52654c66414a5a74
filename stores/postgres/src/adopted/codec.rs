//! Rows of a table as jobs.

use tokio_postgres::Row;
use uuid::Uuid;
use windlass_core::error::Invalid;
use windlass_core::id::{JobId, WorkerName};
use windlass_core::job::{Job, JobSpec};
use windlass_core::json::{Json, META_BYTES_MAX, STEP_BYTES_MAX};
use windlass_core::state::{Lease, State};
use windlass_core::step::Step;
use windlass_core::time::Time;

use crate::error::Fault;

use super::mapping::{Mapping, Output, StepColumn};

/// The namespace of the ids of adopted rows.
const NAMESPACE: Uuid = Uuid::from_u128(0x7769_6e64_6c61_5373_9c68_6164_6f70_7401);

/// The id of the job that a row is: always the same for the same row.
pub(crate) fn job_id(table: &str, row_id: &str) -> JobId {
    JobId(Uuid::new_v5(&NAMESPACE, format!("{table}\0{row_id}").as_bytes()))
}

/// A claimed row.
pub(crate) struct Claimed {
    pub(crate) row_id: String,
    payload: String,
    tries: u32,
    pub(crate) fence: u64,
    crashes: u32,
    stage: Option<String>,
    outputs: Vec<Option<String>>,
    now: Time,
    order: Order,
}

/// Where a row stands among those of its claim: by its column as a number when
/// that is one, else as text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Order(Option<i64>, String);

impl Order {
    fn of(text: Option<String>) -> Self {
        let text = text.unwrap_or_default();
        Self(text.parse().ok(), text)
    }
}

impl Claimed {
    pub(crate) fn read(row: &Row) -> Result<Self, Fault> {
        Ok(Self {
            row_id: row.try_get(0)?,
            payload: row.try_get(1)?,
            tries: row.try_get::<_, i64>(2)? as u32,
            fence: row.try_get::<_, i64>(3)? as u64,
            crashes: row.try_get::<_, i64>(4)? as u32,
            stage: row.try_get(5)?,
            outputs: row.try_get(6)?,
            now: Time::from_ms(row.try_get(7)?),
            order: Order::of(row.try_get(8)?),
        })
    }

    /// Rows of one claim in the order in which they should start.
    pub(crate) fn order(&self) -> impl Ord + '_ {
        (&self.order, &self.row_id)
    }

    /// The id of the job that it is.
    pub(crate) fn job_id(&self, mapping: &Mapping) -> JobId {
        job_id(&mapping.table, &self.row_id)
    }

    /// The job; a row whose payload does not pass the gate is refused.
    pub(crate) fn job(&self, mapping: &Mapping, worker: &WorkerName, lease_ms: u32) -> Result<Job, Invalid> {
        let meta = serde_json::json!({ "table": mapping.table, "id": self.row_id });
        let mut spec =
            JobSpec::new(mapping.kind.clone(), mapping.queue.clone(), Json::payload(&self.payload)?);
        spec.meta = Some(Json::from_value("meta", &meta, META_BYTES_MAX)?);
        spec.retry = Some(mapping.retry_rule());
        let lease = Lease {
            worker: worker.clone(),
            fence: self.fence,
            started_at: self.now,
            lease_ms,
            expires_at: self.now.plus_ms(i64::from(lease_ms)),
            cancel_requested: false,
            marked_at: None,
        };
        Ok(Job {
            id: self.job_id(mapping),
            seq: 0,
            spec,
            rank: 0,
            created_at: self.now,
            run_at: self.now,
            state: State::Running(lease),
            attempt: self.tries,
            crashes: self.crashes,
            fence: self.fence,
            retries: 0,
            started_at: Some(self.now),
            worker: Some(worker.clone()),
            progress: None,
            steps: self.steps(mapping)?,
            history: Vec::new(),
        })
    }

    /// The steps up to the stage that the row has reached.
    fn steps(&self, mapping: &Mapping) -> Result<Vec<Step>, Invalid> {
        let Some(stage) = &mapping.stage else { return Ok(Vec::new()) };
        let reached = stage.steps.iter().position(|step| Some(&step.word) == self.stage.as_ref());
        let Some(reached) = reached else { return Ok(Vec::new()) };
        let done = stage.steps[..=reached].iter().zip(&self.outputs);
        // A step that is spread over columns is proved by them, not by the stage alone.
        let done =
            done.filter(|(step, output)| output.is_some() || !matches!(step.output, Output::Fields(_)));
        let step = |(column, output): (&StepColumn, &Option<String>)| {
            Ok(Step {
                name: column.name.clone(),
                output: output_json(output.as_deref())?,
                attempt: 0,
                stored_at: self.now,
            })
        };
        done.map(step).collect()
    }
}

/// What a column keeps, as JSON: what is JSON already stays, other text becomes a string.
fn output_json(text: Option<&str>) -> Result<Json, Invalid> {
    match text {
        None => Ok(Json::null()),
        Some(text) => Json::new("output", text.as_bytes(), STEP_BYTES_MAX)
            .or_else(|_| Json::from_value("output", text, STEP_BYTES_MAX)),
    }
}

/// What is put into a column of text: a string as it is, anything else as JSON.
pub(crate) fn output_text(output: &Json) -> String {
    output.read::<String>().unwrap_or_else(|_| output.as_str().to_owned())
}
