//! Rows as jobs.

use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, DateTime, Document};
use serde_json::json;
use sha2::{Digest, Sha256};
use uuid::Uuid;
use windlass_core::error::Invalid;
use windlass_core::id::{JobId, Kind, WorkerName};
use windlass_core::job::{Job, JobSpec};
use windlass_core::json::{Json, META_BYTES_MAX};
use windlass_core::state::{Lease as JobLease, State};
use windlass_core::time::Time;

use super::Options;
use super::lease::Lease;

/// Which collection a job's id speaks of: the first bytes of a digest of its full name.
pub(crate) fn prefix(namespace: &str) -> [u8; 4] {
    let digest = Sha256::digest(namespace);
    [digest[0], digest[1], digest[2], digest[3]]
}

/// The id of the job that a row is. It holds the row's id, so that a write finds its row without a memory.
pub(crate) fn job_id(prefix: [u8; 4], row: ObjectId) -> JobId {
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&prefix);
    bytes[4..].copy_from_slice(&row.bytes());
    JobId(Uuid::from_bytes(bytes))
}

/// The row of a job; nothing when the job is of another collection.
pub(crate) fn row_of(prefix: [u8; 4], job: JobId) -> Option<ObjectId> {
    let bytes = job.0.as_bytes();
    let mut row = [0; 12];
    row.copy_from_slice(&bytes[4..]);
    (bytes[..4] == prefix).then(|| ObjectId::from_bytes(row))
}

/// A claimed row as a job; one whose data does not pass the gate is refused.
pub(crate) fn job(
    row: &Document,
    lease: &Lease,
    namespace: &str,
    worker: &WorkerName,
    options: &Options,
) -> Result<Job, Invalid> {
    let name = row.get_str("name").map_err(|_| Invalid::new("name", "is no text"))?;
    let mut spec = JobSpec::new(Kind::new(name)?, options.queue.clone(), payload(row.get("data"))?);
    spec.priority = row.get("priority").map_or(0, priority);
    spec.meta = Some(Json::from_value(
        "meta",
        &json!({ "collection": namespace, "id": lease.id.to_hex() }),
        META_BYTES_MAX,
    )?);
    spec.retry = Some(options.retry.clone());
    let at = time(lease.locked_at);
    let held = JobLease {
        worker: worker.clone(),
        fence: lease.fence as u64,
        started_at: time(DateTime::from_millis(lease.fence)),
        lease_ms: options.lock_lifetime_ms,
        expires_at: at.plus_ms(i64::from(options.lock_lifetime_ms)),
        cancel_requested: false,
        // Agenda's own rule says when a lock is over: its rows have no room for a mark.
        marked_at: None,
    };
    Ok(Job {
        id: job_id(prefix(namespace), lease.id),
        seq: 0,
        spec,
        rank: 0,
        created_at: time(DateTime::from_millis(lease.id.timestamp().timestamp_millis())),
        run_at: time(lease.due_at.unwrap_or(lease.locked_at)),
        state: State::Running(held),
        attempt: lease.attempt as u32,
        crashes: lease.crashes as u32,
        fence: lease.fence as u64,
        retries: 0,
        started_at: Some(time(DateTime::from_millis(lease.fence))),
        worker: Some(worker.clone()),
        progress: None,
        steps: lease.steps()?,
        history: Vec::new(),
    })
}

/// What Agenda calls data, as MongoDB's relaxed extended JSON: plain where JSON has a word for it, and
/// `{"$oid": …}`, `{"$date": …}` where it has none. Fields stay in their order.
pub fn payload(data: Option<&Bson>) -> Result<Json, Invalid> {
    let mut text = String::new();
    write_json(data.unwrap_or(&Bson::Null), &mut text);
    Json::payload(text)
}

fn write_json(bson: &Bson, text: &mut String) {
    match bson {
        Bson::Document(document) => {
            text.push('{');
            for (at, (key, value)) in document.iter().enumerate() {
                text.push_str(if at > 0 { "," } else { "" });
                text.push_str(&serde_json::Value::from(key.as_str()).to_string());
                text.push(':');
                write_json(value, text);
            }
            text.push('}');
        }
        Bson::Array(values) => {
            text.push('[');
            for (at, value) in values.iter().enumerate() {
                text.push_str(if at > 0 { "," } else { "" });
                write_json(value, text);
            }
            text.push(']');
        }
        leaf => text.push_str(&leaf.clone().into_relaxed_extjson().to_string()),
    }
}

/// JSON as MongoDB keeps it; what means nothing to it stays text.
pub(crate) fn bson(json: &Json) -> Bson {
    json.read().unwrap_or_else(|_| Bson::String(json.as_str().to_owned()))
}

fn priority(bson: &Bson) -> i16 {
    let number = match bson {
        Bson::Int32(number) => i64::from(*number),
        Bson::Int64(number) => *number,
        Bson::Double(number) => *number as i64,
        _ => 0,
    };
    number.clamp(i64::from(i16::MIN), i64::from(i16::MAX)) as i16
}

pub(crate) fn time(at: DateTime) -> Time {
    Time::from_ms(at.timestamp_millis())
}

#[cfg(test)]
mod tests {
    use mongodb::bson::doc;

    use super::*;

    #[test]
    fn a_job_names_its_row_and_its_collection() {
        let row = ObjectId::parse_str("507f1f77bcf86cd799439011").unwrap();
        let (here, there) = (prefix("a.jobs"), prefix("b.jobs"));
        assert_eq!(row_of(here, job_id(here, row)), Some(row));
        assert_eq!(row_of(there, job_id(here, row)), None);
    }

    #[test]
    fn data_becomes_json_and_json_data() {
        let id = ObjectId::parse_str("507f1f77bcf86cd799439011").unwrap();
        let data = Bson::Document(doc! { "n": 1, "big": 1_i64 << 40, "id": id, "x": [1.5, Bson::Null] });
        let json = payload(Some(&data)).unwrap();
        assert_eq!(
            json.as_str(),
            r#"{"n":1,"big":1099511627776,"id":{"$oid":"507f1f77bcf86cd799439011"},"x":[1.5,null]}"#
        );
        assert_eq!(bson(&json), data);
        assert_eq!(payload(None).unwrap(), Json::null());
    }
}
