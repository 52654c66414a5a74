//! Batches of records, as they are written down.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;
use windlass_core::id::{Label, RecordKey, ShelfName};
use windlass_core::json::Json;
use windlass_core::record::{IfRev, Keep, Put, RecordBatch, RecordWrite};
use windlass_core::store::LeaseRef;
use windlass_core::time::Time;

use super::op::New;

/// A batch.
#[derive(Debug)]
pub(crate) struct Batch(pub(crate) RecordBatch);

#[derive(Serialize, Deserialize)]
struct BatchForm {
    id: Uuid,
    lease: Option<LeaseRef>,
    writes: Vec<WriteForm>,
    jobs: Vec<New>,
}

#[derive(Serialize, Deserialize)]
struct WriteForm {
    shelf: ShelfName,
    key: RecordKey,
    #[serde(with = "IfRevForm")]
    if_rev: IfRev,
    put: Option<PutForm>,
}

#[derive(Serialize, Deserialize)]
struct PutForm {
    value: Json,
    sort: i64,
    label: Option<Label>,
    #[serde(with = "KeepForm")]
    keep: Keep,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Keep")]
enum KeepForm {
    Forever,
    ForMs(u64),
    Until(Time),
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "IfRev")]
enum IfRevForm {
    Any,
    Absent,
    Is(u64),
}

impl Serialize for Batch {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let RecordBatch { id, lease, writes, jobs } = self.0.clone();
        let put = |Put { value, sort, label, keep }| PutForm { value, sort, label, keep };
        let write = |RecordWrite { shelf, key, if_rev, put: what }| WriteForm {
            shelf,
            key,
            if_rev,
            put: what.map(put),
        };
        let writes = writes.into_iter().map(write).collect();
        BatchForm { id, lease, writes, jobs: jobs.into_iter().map(New).collect() }.serialize(to)
    }
}

impl<'de> Deserialize<'de> for Batch {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let BatchForm { id, lease, writes, jobs } = BatchForm::deserialize(from)?;
        let put = |PutForm { value, sort, label, keep }| Put { value, sort, label, keep };
        let write = |WriteForm { shelf, key, if_rev, put: what }| RecordWrite {
            shelf,
            key,
            if_rev,
            put: what.map(put),
        };
        let writes = writes.into_iter().map(write).collect();
        Ok(Self(RecordBatch { id, lease, writes, jobs: jobs.into_iter().map(|new| new.0).collect() }))
    }
}
