//! Jobs that are to be enqueued, as they are written down: one that differs from the one before it in nothing but its id and its
//! payload is those two, `[id, payload]`. Jobs of a batch mostly are alike, and what is not written need not be sent,
//! kept twice (by the collection and by the oplog) and read by everybody. Until meaning 5 each was written in full.

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::ser::SerializeSeq;
use serde::{Deserialize, Deserializer, Serializer};
use windlass_core::id::JobId;
use windlass_core::job::{JobSpec, NewJob};
use windlass_core::json::Json;

use super::op::{New, NewForm};

pub(super) fn serialize<S: Serializer>(jobs: &[New], to: S) -> Result<S::Ok, S::Error> {
    let mut list = to.serialize_seq(Some(jobs.len()))?;
    let mut before: Option<&NewJob> = None;
    for new in jobs {
        match before.is_some_and(|before| is_alike(before, &new.0)) {
            true => list.serialize_element(&(new.0.id, &new.0.spec.payload))?,
            false => list.serialize_element(new)?,
        }
        before = Some(&new.0);
    }
    list.end()
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<New>, D::Error> {
    from.deserialize_seq(Jobs)
}

/// Whether two jobs differ in their ids and payloads at most.
fn is_alike(one: &NewJob, other: &NewJob) -> bool {
    // A field that is added must be compared, too.
    let JobSpec { kind, queue, payload: _, priority, key, dedupe_key, budgets, retry, timeout_ms, meta } =
        &one.spec;
    let spec = &other.spec;
    one.start == other.start
        && *kind == spec.kind
        && *queue == spec.queue
        && *priority == spec.priority
        && *key == spec.key
        && *dedupe_key == spec.dedupe_key
        && *budgets == spec.budgets
        && *retry == spec.retry
        && *timeout_ms == spec.timeout_ms
        && *meta == spec.meta
}

struct Jobs;

impl<'de> Visitor<'de> for Jobs {
    type Value = Vec<New>;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("jobs")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<New>, A::Error> {
        let mut jobs: Vec<New> = Vec::new();
        while let Some(written) = list.next_element()? {
            let job = match (written, jobs.last()) {
                (Written::Whole(job), _) => job,
                (Written::Alike(id, payload), Some(New(before))) => {
                    let spec = JobSpec { payload, ..before.spec.clone() };
                    New(NewJob { id, spec, start: before.start })
                }
                (Written::Alike(id, _), None) => {
                    return Err(A::Error::custom(format!("job {id} is like one that is not there")));
                }
            };
            jobs.push(job);
        }
        Ok(jobs)
    }
}

/// A job as it stands in the list.
enum Written {
    Whole(New),
    Alike(JobId, Json),
}

impl<'de> Deserialize<'de> for Written {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Either)
    }
}

struct Either;

impl<'de> Visitor<'de> for Either {
    type Value = Written;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("a job, or the id and the payload of one that is like the one before it")
    }

    fn visit_map<A: MapAccess<'de>>(self, whole: A) -> Result<Written, A::Error> {
        NewForm::deserialize(MapAccessDeserializer::new(whole)).map(|job| Written::Whole(New(job)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut pair: A) -> Result<Written, A::Error> {
        let missing = |what: &str| A::Error::custom(format!("a job has no {what}"));
        let id = pair.next_element()?.ok_or_else(|| missing("id"))?;
        let payload = pair.next_element()?.ok_or_else(|| missing("payload"))?;
        Ok(Written::Alike(id, payload))
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;
    use windlass_core::id::{DedupeKey, Kind, QueueName};
    use windlass_core::job::Start;
    use windlass_core::time::Time;

    use super::*;
    use crate::journal::op::Op;

    fn job(number: u128, change: impl FnOnce(&mut NewJob)) -> New {
        let payload = Json::payload(format!(r#"{{"n":{number}}}"#)).unwrap();
        let spec = JobSpec::new(Kind::new("send").unwrap(), QueueName::new("mail").unwrap(), payload);
        let mut job = NewJob { id: JobId(Uuid::from_u128(number)), spec, start: Start::Now };
        change(&mut job);
        New(job)
    }

    fn jobs_of(op: &Op) -> Vec<NewJob> {
        op.new_jobs().cloned().collect()
    }

    /// Every field by which two jobs of a batch may differ is read back as it was.
    #[test]
    fn jobs_that_are_alike_are_written_once_and_read_as_they_were() {
        let changes: [fn(&mut NewJob); 9] = [
            |_| {},
            |job| job.spec.kind = Kind::new("print").unwrap(),
            |job| job.spec.queue = QueueName::new("paper").unwrap(),
            |job| job.spec.priority = -3,
            |job| job.spec.key = Some("shop-7".parse().unwrap()),
            |job| job.spec.dedupe_key = Some(DedupeKey::new("once").unwrap()),
            |job| job.spec.timeout_ms = Some(7),
            |job| job.spec.meta = Some(Json::null()),
            |job| job.start = Start::At(Time::from_ms(5)),
        ];
        let many = || {
            changes.iter().enumerate().flat_map(|(at, change)| {
                let at = at as u128 * 10;
                [job(at + 1, change), job(at + 2, change), job(at + 3, |_| {})]
            })
        };
        let op = Op::Enqueue(many().collect());
        let text = serde_json::to_string(&op).unwrap();
        let read: Op = serde_json::from_str(&text).unwrap();
        assert_eq!(jobs_of(&read), jobs_of(&op));
        // The first of a kind is whole, and whoever differs from the one before.
        assert_eq!(text.matches("\"spec\"").count(), 1 + 2 * (changes.len() - 1), "{text}");
    }

    /// What programs of meaning 4 have written.
    #[test]
    fn jobs_that_were_written_in_full_are_still_read() {
        let (one, two) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let whole = |id, n| {
            format!(
                r#"{{"id":"{id}","spec":{{"kind":"send","queue":"mail","payload":{{"n":{n}}},"priority":0}},"start":"Now"}}"#
            )
        };
        let read: Op =
            serde_json::from_str(&format!(r#"{{"Enqueue":[{},{}]}}"#, whole(one, 1), whole(two, 2))).unwrap();
        let op = Op::Enqueue(vec![job(1, |_| {}), job(2, |_| {})]);
        assert_eq!(jobs_of(&read), jobs_of(&op));
        let text = serde_json::to_string(&op).unwrap();
        assert_eq!(text, format!(r#"{{"Enqueue":[{},["{two}",{{"n":2}}]]}}"#, whole(one, 1)));
    }

    #[test]
    fn a_job_like_none_is_no_job() {
        for broken in [r#"[["00000000-0000-0000-0000-000000000001",{}]]"#, r#"[[]]"#, r#"[7]"#] {
            let read: Result<Op, _> = serde_json::from_str(&format!(r#"{{"Enqueue":{broken}}}"#));
            assert!(read.is_err(), "{broken}");
        }
    }
}
