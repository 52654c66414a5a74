//! Records in memory.

use std::collections::BTreeMap;

use super::{Book, RememberedBatch};
use crate::error::{Invalid, StoreError};
use crate::id::{Label, RecordKey, ShelfName};
use crate::record::{
    BATCH_MEMORY_MS, BatchAnswer, IfRev, Put, Record, RecordBatch, RecordPage, RecordWrite, SCAN_BYTES_MAX,
    Scan, ScanCursor,
};
use crate::time::Time;

impl Book {
    /// Writes a batch, all or none.
    pub fn write_records(&mut self, batch: &RecordBatch, now: Time) -> Result<BatchAnswer, StoreError> {
        batch.checked()?;
        if let Some(RememberedBatch { at: _, revs, jobs }) = self.batches.get(&batch.id) {
            return Ok(batch.answered(revs.clone(), jobs.clone())?);
        }
        if let Some(lease) = batch.lease {
            let held = self.job(lease.job_id).and_then(|job| job.lease_for(lease.fence));
            if held.is_none() {
                return Ok(BatchAnswer::LeaseLost);
            }
        }
        for (at, write) in batch.writes.iter().enumerate() {
            let rev = self.record(&write.shelf, &write.key, now).map(|record| record.rev);
            let fits = match write.if_rev {
                IfRev::Any => true,
                IfRev::Absent => rev.is_none(),
                IfRev::Is(wanted) => rev == Some(wanted),
            };
            if !fits {
                return Ok(BatchAnswer::Conflict { write: at, rev });
            }
        }
        let jobs = self.enqueue(batch.jobs.clone(), now)?;
        let revs: Vec<u64> = batch.writes.iter().map(|write| self.write_record(write, now)).collect();
        let memory = RememberedBatch { at: now, revs: revs.clone(), jobs: jobs.clone() };
        self.batches.insert(batch.id, memory);
        Ok(BatchAnswer::Done { revs, jobs })
    }

    fn write_record(&mut self, write: &RecordWrite, now: Time) -> u64 {
        self.next_rev += 1;
        let rev = self.next_rev;
        let shelf = self.shelves.entry(write.shelf.clone()).or_default();
        match &write.put {
            None => drop(shelf.remove(&write.key)),
            Some(Put { value, sort, label, keep }) => {
                let expires_at = keep.expires_at(now);
                let (key, value, label) = (write.key.clone(), value.clone(), label.clone());
                let record = Record { key, value, sort: *sort, label, rev, written_at: now, expires_at };
                shelf.insert(record.key.clone(), record);
            }
        }
        rev
    }

    /// All records, for a document.
    pub(super) fn shelved(&self) -> BTreeMap<ShelfName, Vec<Record>> {
        let records = |records: &BTreeMap<_, Record>| records.values().cloned().collect();
        self.shelves.iter().map(|(shelf, found)| (shelf.clone(), records(found))).collect()
    }

    /// Takes the records of a document. Refuses those that contradict it.
    pub(super) fn shelve(&mut self, shelves: BTreeMap<ShelfName, Vec<Record>>) -> Result<(), Invalid> {
        for (shelf, records) in shelves {
            for record in records {
                let Record { key, rev, .. } = &record;
                if *rev > self.next_rev {
                    return Err(Invalid::new("document", format!("has {shelf}/{key} beyond its own end")));
                }
                let there = self.shelves.entry(shelf.clone()).or_default();
                if let Some(twin) = there.insert(key.clone(), record) {
                    return Err(Invalid::new("document", format!("has {shelf}/{} twice", twin.key)));
                }
            }
        }
        Ok(())
    }

    /// How many records there are, and how many bytes their values have, expired ones included.
    pub fn records_size(&self) -> (usize, usize) {
        let all = self.shelves.values().flat_map(BTreeMap::values);
        all.fold((0, 0), |(count, bytes), record| (count + 1, bytes + record.value.as_str().len()))
    }

    /// A record that is there.
    pub fn record(&self, shelf: &ShelfName, key: &RecordKey, now: Time) -> Option<&Record> {
        self.shelves.get(shelf)?.get(key).filter(|record| record.is_there(now))
    }

    /// A page of a shelf.
    pub fn scan_records(&self, scan: Scan, now: Time) -> Result<RecordPage, Invalid> {
        let scan = scan.checked()?;
        let mut found: Vec<(ScanCursor, &Record)> = self
            .shelf(&scan.shelf, &scan.prefix, now)
            .filter(|record| scan.label.is_none() || record.label == scan.label)
            .map(|record| (record.cursor(scan.order), record))
            .filter(|(at, _)| match (&scan.after, scan.descending) {
                (None, _) => true,
                (Some(after), false) => at > after,
                (Some(after), true) => at < after,
            })
            .collect();
        found.sort_unstable_by(|(a, _), (b, _)| if scan.descending { b.cmp(a) } else { a.cmp(b) });
        let (mut page, mut bytes) = (RecordPage::default(), 0);
        for (_, record) in found {
            bytes += record.value.as_str().len();
            if page.records.len() == scan.limit as usize
                || (bytes > SCAN_BYTES_MAX && !page.records.is_empty())
            {
                page.next = page.records.last().map(|last| last.cursor(scan.order));
                break;
            }
            page.records.push(record.clone());
        }
        Ok(page)
    }

    /// How many records have keys that begin so, by label.
    pub fn count_records(&self, shelf: &ShelfName, prefix: &str, now: Time) -> Vec<(Option<Label>, u64)> {
        let mut counts: BTreeMap<Option<Label>, u64> = BTreeMap::new();
        for record in self.shelf(shelf, prefix, now) {
            *counts.entry(record.label.clone()).or_default() += 1;
        }
        counts.into_iter().collect()
    }

    /// Forgets batches, and deletes expired records.
    pub(super) fn prune_records(&mut self, now: Time) {
        self.batches.retain(|_, memory| memory.at > now.plus_ms(-BATCH_MEMORY_MS));
        for records in self.shelves.values_mut() {
            records.retain(|_, record| record.is_there(now));
        }
        self.shelves.retain(|_, records| !records.is_empty());
    }

    /// Follows a step of the store's clock from `now` back to `after`: what had expired stays so.
    pub(super) fn shift_records(&mut self, after: Time, now: Time) {
        for record in self.shelves.values_mut().flat_map(BTreeMap::values_mut) {
            record.expires_at =
                record.expires_at.map(|at| if (after..=now).contains(&at) { after } else { at });
        }
    }

    fn shelf<'b>(
        &'b self,
        shelf: &ShelfName,
        prefix: &'b str,
        now: Time,
    ) -> impl Iterator<Item = &'b Record> {
        let records = self.shelves.get(shelf).into_iter().flat_map(BTreeMap::values);
        records.filter(move |record| record.key.as_str().starts_with(prefix) && record.is_there(now))
    }
}
