//! Records of a store and of the book, side by side. Revisions are a store's own numbers: what is compared is
//! which write has which.

use std::collections::HashMap;

use uuid::Uuid;
use windlass_core::error::StoreError;
use windlass_core::record::{
    BatchAnswer, IfRev, Order, Record, RecordBatch, RecordPage, RecordWrite, Scan, ScanCursor,
};

use super::op::{Guess, Op, Pen};
use super::pair::{Pair, Same, newest, same};
use super::words::*;

/// A revision that no store gives.
const NEVER: u64 = u64::MAX >> 1;

/// The revisions that both gave, and the batches that both were told.
#[derive(Default)]
pub struct Revisions {
    /// The book's, with the store's.
    of_store: HashMap<u64, u64>,
    /// All of the book's, in their order.
    given: Vec<u64>,
    /// The batches with the book's revisions in their conditions.
    batches: Vec<RecordBatch>,
}

impl Revisions {
    fn add(&mut self, book: &[u64], store: &[u64]) {
        self.given.extend(book.iter().filter(|rev| !self.of_store.contains_key(rev)));
        self.of_store.extend(book.iter().copied().zip(store.iter().copied()));
    }

    fn of_store(&self, book: u64) -> u64 {
        self.of_store.get(&book).copied().unwrap_or(NEVER)
    }

    /// The same batch in the store's revisions.
    fn batch(&self, mut batch: RecordBatch) -> RecordBatch {
        for write in &mut batch.writes {
            if let IfRev::Is(rev) = &mut write.if_rev {
                *rev = self.of_store(*rev);
            }
        }
        batch
    }

    /// The book's answer in the store's revisions.
    fn answer(&self, answer: BatchAnswer) -> BatchAnswer {
        match answer {
            BatchAnswer::Done { revs, jobs } => {
                BatchAnswer::Done { revs: revs.into_iter().map(|rev| self.of_store(rev)).collect(), jobs }
            }
            BatchAnswer::Conflict { write, rev } => {
                BatchAnswer::Conflict { write, rev: rev.map(|rev| self.of_store(rev)) }
            }
            BatchAnswer::LeaseLost => BatchAnswer::LeaseLost,
        }
    }

    fn record(&self, record: Record) -> Record {
        Record { rev: self.of_store(record.rev), ..record }
    }

    fn page(&self, RecordPage { records, next }: RecordPage, order: Order) -> RecordPage {
        let records = records.into_iter().map(|record| self.record(record)).collect();
        let next = next.map(|cursor| match order {
            Order::Key | Order::Sort => cursor,
            Order::Rev => ScanCursor { at: self.of_store(cursor.at.cast_unsigned()).cast_signed(), ..cursor },
        });
        RecordPage { records, next }
    }
}

impl Pair {
    /// Writes or reads records, and compares the answers.
    pub async fn record(&mut self, op: &Op) -> Same {
        match op {
            Op::Write { lease, pens, jobs } => {
                let lease = lease.filter(|_| !self.known.is_empty()).map(|(n, fence)| self.lease(n, fence));
                let writes = pens.iter().map(|pen| self.write_of(pen)).collect();
                let jobs = self.jobs_of(jobs);
                let id = Uuid::from_u128(self.revisions.batches.len() as u128 + 1);
                self.write_batch(RecordBatch { id, lease, writes, jobs }).await
            }
            Op::WriteAgain { which } => match newest(&self.revisions.batches, *which) {
                Some(batch) => self.write_batch(batch.clone()).await,
                None => Ok(()),
            },
            Op::Scan { shelf, order, descending, prefix, label, limit } => {
                let scan = Scan {
                    shelf: shelf_of(*shelf),
                    order: order_of(*order),
                    descending: *descending,
                    prefix: prefix_of(*prefix).to_owned(),
                    label: label.map(label_of),
                    after: None,
                    limit: *limit,
                };
                self.compare_scan(scan).await
            }
            Op::Read { shelf, keys, prefix } => self.compare_read(*shelf, keys, prefix_of(*prefix)).await,
            _ => Ok(()),
        }
    }

    fn write_of(&self, Pen { shelf, key, guess, ink }: &Pen) -> RecordWrite {
        let (shelf, key) = (shelf_of(*shelf), record_key_of(*key));
        let there = self.book.record(&shelf, &key, self.now()).map(|record| record.rev);
        let if_rev = match guess {
            Guess::Any => IfRev::Any,
            Guess::Absent => IfRev::Absent,
            Guess::Right => IfRev::Is(there.unwrap_or(NEVER)),
            Guess::Wrong(which) => IfRev::Is(newest(&self.revisions.given, *which).copied().unwrap_or(NEVER)),
        };
        RecordWrite { shelf, key, if_rev, put: ink.as_ref().map(|ink| put_of(ink, self.now())) }
    }

    async fn write_batch(&mut self, batch: RecordBatch) -> Same {
        self.revisions.batches.push(batch.clone());
        let book = self.book.write_records(&batch, self.now());
        let store = self.records()?.write(self.revisions.batch(batch.clone())).await;
        if let (Ok(BatchAnswer::Done { revs: book, .. }), Ok(BatchAnswer::Done { revs: store, .. })) =
            (&book, &store)
        {
            if !store.is_sorted_by(|a, b| a < b) {
                return Err(format!("the revisions of a batch do not rise: {store:?}"));
            }
            self.revisions.add(book, store);
        }
        if book.is_ok() {
            self.know(&batch.jobs);
        }
        same("write", store, book.map(|answer| self.revisions.answer(answer)))
    }

    /// Compares both shelves: by key, or in every order.
    pub async fn compare_records(&self, in_every_order: bool) -> Same {
        for shelf in 0..2 {
            let orders = if in_every_order { 3 } else { 1 };
            for order in (0..orders).map(order_of) {
                self.compare_scan(Scan { order, ..Scan::of(shelf_of(shelf)) }).await?;
            }
        }
        Ok(())
    }

    /// Compares all pages of a scan.
    async fn compare_scan(&self, scan: Scan) -> Same {
        let (mut book_scan, mut store_scan) = (scan.clone(), scan.clone());
        loop {
            let book = self.book.scan_records(book_scan.clone(), self.now());
            let store = self.records()?.scan(store_scan.clone()).await;
            let next = book.as_ref().ok().and_then(|page| page.next.clone());
            let book = book.map(|page| self.revisions.page(page, scan.order)).map_err(StoreError::from);
            store_scan.after = book.as_ref().ok().and_then(|page| page.next.clone());
            same(&format!("{store_scan:?}"), store, book)?;
            match next {
                Some(next) => book_scan.after = Some(next),
                None => return Ok(()),
            }
        }
    }

    async fn compare_read(&self, shelf: u8, keys: &[u8], prefix: &str) -> Same {
        let shelf = shelf_of(shelf);
        let keys: Vec<_> = keys.iter().map(|n| record_key_of(*n)).collect();
        let book = |key| self.book.record(&shelf, key, self.now()).cloned();
        let book: Vec<_> =
            keys.iter().map(|key| book(key).map(|record| self.revisions.record(record))).collect();
        let count = self.records()?.count(shelf.clone(), prefix.to_owned()).await;
        same("count", count, Ok(self.book.count_records(&shelf, prefix, self.now())))?;
        same("read", self.records()?.read(shelf, keys).await, Ok(book))
    }

    fn records(&self) -> Result<&dyn windlass_core::record::Records, String> {
        self.store.records().map_err(|error| format!("records answered {error}"))
    }
}
