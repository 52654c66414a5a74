//! Records of the queue file as others may have written them: what is odd about
//! one is repaired, so that it costs nobody the rest of the file.

use std::collections::HashSet;

use serde_json::{Map, Value};
use windlass_engine::core::id::{JobId, Kind};
use windlass_engine::core::json::META_BYTES_MAX;
use windlass_engine::core::state::StateName;
use windlass_engine::core::time::Time;

use crate::record::{Record, id_of};

/// What is kept of fields that are not ours; the id has its place beside them.
const MORE_BYTES_MAX: usize = META_BYTES_MAX - 1_024;
const ID_CHARS_MAX: usize = 200;
/// How much of a word that means nothing to us is shown.
const WORD_CHARS_MAX: usize = 50;
/// The endpoint of a job that does not name one.
const UNKNOWN: &str = "unknown";

/// All records in their order, and how many of them had to be repaired.
pub(crate) fn records(values: Vec<Value>, now: Time) -> (Vec<Record>, usize) {
    let first = values.iter().find_map(|value| time(value.get("createdAt")?));
    let mut repair = Repair { taken: HashSet::new(), last: first.unwrap_or(now), repaired: 0 };
    let records = values.into_iter().zip(1..).map(|(value, number)| repair.record(value, number)).collect();
    (records, repair.repaired)
}

/// What is known of the records before.
struct Repair {
    taken: HashSet<JobId>,
    /// When the last one was made: records are in the order of creation.
    last: Time,
    repaired: usize,
}

impl Repair {
    fn record(&mut self, value: Value, number: usize) -> Record {
        let mut fields = Fields { given: Map::new(), odd: false };
        match value {
            Value::Object(given) => fields.given = given,
            // Not a record at all; it is kept within one.
            other => drop(fields.given.insert("record".to_owned(), other)),
        }
        let job_id = self.id(&mut fields, number);
        let endpoint_name = fields.endpoint();
        let (started_at, ended_at) = (fields.time("startedAt"), fields.time("endedAt"));
        let created_at = fields.time("createdAt").or(started_at).or(ended_at);
        let created_at = created_at.unwrap_or_else(|| fields.odd(self.last));
        self.last = created_at;
        let failure_reason = fields.text("failureReason");
        let (status, word) = fields.status();
        let ended = !matches!(status, StateName::Queued | StateName::Running);
        let ended_at = ended_at.or_else(|| ended.then(|| fields.odd(started_at.unwrap_or(created_at))));
        let more = fields.rest();
        self.repaired += usize::from(fields.odd);
        let failure_reason = failure_reason.or(word);
        Record { job_id, endpoint_name, status, created_at, started_at, ended_at, failure_reason, more }
    }

    /// An id that no record before has.
    fn id(&mut self, fields: &mut Fields, number: usize) -> String {
        let given = fields.id();
        let base = given.unwrap_or_else(|| fields.odd(format!("unnamed-{number}")));
        let mut id = base.clone();
        let mut count = 1;
        while !self.taken.insert(id_of(&id)) {
            count += 1;
            id = fields.odd(format!("{base}-{count}"));
        }
        id
    }
}

/// The fields of one record, each taken once.
struct Fields {
    given: Map<String, Value>,
    odd: bool,
}

impl Fields {
    /// A value that stands in for what was not as it should be.
    fn odd<T>(&mut self, instead: T) -> T {
        self.odd = true;
        instead
    }

    fn id(&mut self) -> Option<String> {
        match self.given.remove("jobId")? {
            Value::String(text) if !text.trim().is_empty() && text.chars().count() <= ID_CHARS_MAX => {
                Some(text)
            }
            Value::Number(number) => Some(self.odd(number.to_string())),
            _ => None,
        }
    }

    fn endpoint(&mut self) -> String {
        let given = self.text("endpointName").filter(|name| Kind::new(name).is_ok());
        given.unwrap_or_else(|| self.odd(UNKNOWN.to_owned()))
    }

    /// A time; one that was made of another field is odd, and so is one that cannot be read.
    fn time(&mut self, name: &str) -> Option<Time> {
        let given = self.given.remove(name).filter(|value| !value.is_null());
        let found = given.as_ref().and_then(time);
        let must_be_there = name == "createdAt";
        self.odd |= found.is_none() && (given.is_some() || must_be_there);
        found
    }

    fn text(&mut self, name: &str) -> Option<String> {
        match self.given.remove(name) {
            Some(Value::String(text)) if !text.is_empty() => Some(text),
            None | Some(Value::Null) => None,
            Some(_) => self.odd(None),
        }
    }

    /// The state, and a reason when the word for it is none: nobody knows what became of such a job.
    fn status(&mut self) -> (StateName, Option<String>) {
        let word = self.text("status").unwrap_or_default();
        if let Some(state) = StateName::ALL.into_iter().find(|state| state.as_str() == word) {
            return (state, None);
        }
        let plain = word.trim().to_lowercase().replace("cancelled", StateName::Canceled.as_str());
        if let Some(state) = StateName::ALL.into_iter().find(|state| state.as_str() == plain) {
            return self.odd((state, None));
        }
        let shown: String = word.chars().filter(|c| !c.is_control()).take(WORD_CHARS_MAX).collect();
        self.odd((StateName::Failed, Some(format!("unknown_status: {shown}"))))
    }

    /// What is left belongs to somebody else; more than there is room for goes.
    fn rest(&mut self) -> Map<String, Value> {
        let rest = std::mem::take(&mut self.given);
        let bytes = serde_json::to_vec(&rest).map_or(usize::MAX, |bytes| bytes.len());
        if bytes > MORE_BYTES_MAX { self.odd(Map::new()) } else { rest }
    }
}

/// A moment as ISO text or as milliseconds since 1970.
fn time(value: &Value) -> Option<Time> {
    match value {
        Value::String(text) => text.trim().parse().ok(),
        Value::Number(number) => {
            let at = Time::from_ms(number.as_i64()?);
            (Time::MIN..=Time::MAX).contains(&at).then_some(at)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn at(text: &str) -> Time {
        text.parse().unwrap()
    }

    #[test]
    fn times_come_from_the_record_then_from_its_neighbours_then_from_the_clock() {
        let now = at("2026-03-01T00:00:00Z");
        let made = |values: Vec<Value>| -> Vec<Time> {
            records(values, now).0.iter().map(|record| record.created_at).collect()
        };
        let (first, second) = ("2026-02-01T00:00:00.000Z", "2026-02-02T00:00:00.000Z");
        let odd = json!({"jobId": "x", "endpointName": "/a", "status": "queued"});
        let of =
            |time: &str| json!({"jobId": time, "endpointName": "/a", "status": "queued", "createdAt": time});
        assert_eq!(made(vec![odd.clone()]), [now]);
        assert_eq!(made(vec![odd.clone(), of(first)]), [at(first), at(first)]);
        assert_eq!(made(vec![of(first), of(second), odd.clone()]), [at(first), at(second), at(second)]);
        let mut begun = odd;
        begun["startedAt"] = json!(second);
        assert_eq!(made(vec![of(first), begun]), [at(first), at(second)]);
        assert_eq!(made(vec![json!({"jobId": "x", "createdAt": 1_769_904_000_000_i64})]), [at(first)]);
    }

    #[test]
    fn what_is_right_is_not_repaired() {
        let now = at("2026-03-01T00:00:00Z");
        let right = json!({"jobId": "0001", "endpointName": "/a", "status": "completed", "endedAt": now,
            "createdAt": now, "startedAt": null, "failureReason": null, "result": {"n": 1}});
        let (found, repaired) = records(vec![right], now);
        assert_eq!((repaired, &found[0].more["result"]), (0, &json!({"n": 1})), "other fields are not odd");
        let british = json!({"jobId": "2", "endpointName": "/a", "status": "Cancelled", "createdAt": now, "endedAt": now});
        let (found, repaired) = records(vec![british], now);
        assert_eq!((repaired, found[0].status), (1, StateName::Canceled));
        let large = json!({"jobId": "3", "endpointName": "/a", "status": "queued", "createdAt": now, "logs": "x".repeat(20_000)});
        let (found, repaired) = records(vec![large], now);
        assert!(repaired == 1 && found[0].more.is_empty());
    }
}
