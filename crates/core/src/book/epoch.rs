//! What a new epoch does to all that a store keeps, and what it holds back.

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use super::Book;
use crate::epoch::{Epoch, FLOOR_STEP, PAUSE_MS_MAX, lifted};
use crate::id::{JobId, QueueName};
use crate::job::Job;
use crate::long_leases::LongLeases;
use crate::policy::queue::LEASE_MS_DEFAULT;
use crate::state::State;
use crate::store::EpochStatus;
use crate::time::Time;

impl Book {
    /// The epoch that it is in.
    pub fn epoch(&self) -> &Epoch {
        &self.epoch
    }

    /// Names the instance of a book that is new.
    pub fn begin(&mut self, instance: Uuid) {
        self.epoch.instance = instance;
        self.tag_events();
    }

    /// The longest that an epoch holds back anything.
    pub fn set_pause_max(&mut self, ms: u32) {
        self.pause_ms_max = Some(ms);
    }

    /// Begins a new epoch: the history of this book may have been cut. Every lease is renewed, every mark is cleared,
    /// what a second (where commits may be lost: a minute) allows is taken for spent, and revisions leap, so that a record that was read in the lost history
    /// is not taken for what is there. What the epoch before still holds back stays so, whatever this one lost.
    pub fn turn(&mut self, instance: Uuid, chance: u64, lossy: bool, now: Time) {
        let longest = self.epoch.pause_until(u32::MAX, self.pause_ms_max());
        let lossy = lossy || longest.is_some_and(|until| now < until);
        self.enter(self.epoch.next(instance, chance, self.next_seq, lossy, now));
    }

    /// Begins this epoch, whoever has drawn it: the jobs that are there now were accepted before it, and for how long it
    /// holds them back is what is known of their queues now.
    pub fn enter(&mut self, epoch: Epoch) {
        let now = epoch.began_at;
        self.epoch = Epoch { first_seq: self.next_seq, ..epoch };
        self.pauses = self.pauses_now();
        self.next_rev += FLOOR_STEP;
        self.tag_events();
        let running: Vec<u64> = self.running.iter().copied().collect();
        for seq in running {
            let mut job = Job::clone(&self.jobs[&seq]);
            if let State::Running(lease) = &mut job.state {
                lease.renew_from(now);
            }
            self.put(job);
        }
        for budget in self.budgets.values_mut() {
            budget.fill(self.epoch.lossy, now);
        }
    }

    /// Lifts the floor of all fences and does nothing else: the store was started, and may be a copy of what it was.
    pub fn lift(&mut self, chance: u64, now: Time) {
        self.epoch.floor = lifted(self.epoch.floor, chance, now);
    }

    /// Follows a step of the store's clock by `ms`: what is held back is held back for as long as before.
    pub(super) fn shift_epoch(&mut self, ms: i64) {
        self.epoch.shift(ms);
        for leases in self.long_leases.values_mut() {
            leases.shift(ms);
        }
    }

    /// The epoch, and until when it holds something back.
    pub fn epoch_status(&self, now: Time) -> EpochStatus {
        let unfinished = self.queued.iter().map(|(_, seq)| seq).chain(&self.running);
        let queues = unfinished.map(|seq| &self.jobs[seq].spec.queue);
        let ends = queues.filter_map(|queue| self.pause_until(queue));
        EpochStatus { epoch: self.epoch, paused_until: ends.max().filter(|until| now < *until) }
    }

    /// Until when jobs of a queue are held back that somebody else may hold.
    pub(super) fn pause_until(&self, queue: &QueueName) -> Option<Time> {
        let fixed_ms = self.pauses.get(queue).copied().unwrap_or(LEASE_MS_DEFAULT);
        self.epoch.pause_until(fixed_ms, self.pause_ms_max())
    }

    /// For how long an epoch that begins now holds back jobs: by queue, where it is not what every queue has that nobody
    /// has configured.
    pub(super) fn pauses_now(&self) -> BTreeMap<QueueName, u32> {
        if !self.epoch.lossy {
            return BTreeMap::new();
        }
        let names: BTreeSet<&QueueName> = self.queues.keys().chain(self.long_leases.keys()).collect();
        let pause = |queue| self.policy(queue).lease_ms.max(self.longest_ms(queue)).min(self.pause_ms_max());
        let fixed = names.into_iter().map(|queue| (queue.clone(), pause(queue)));
        fixed.filter(|(_, ms)| *ms != LEASE_MS_DEFAULT).collect()
    }

    /// The longest lease that was claimed from a queue within a day, of those that are longer than it says; 0 for none.
    pub fn longest_ms(&self, queue: &QueueName) -> u32 {
        self.long_leases.get(queue).map_or(0, LongLeases::longest_ms)
    }

    fn pause_ms_max(&self) -> u32 {
        self.pause_ms_max.unwrap_or(PAUSE_MS_MAX)
    }

    /// For how long an attempt stands still that stood still before it was renewed.
    pub(super) fn still_ms(&self, id: JobId, now: Time) -> Option<u64> {
        if !self.epoch.lossy {
            return None;
        }
        let queue = &self.job(id)?.spec.queue;
        let until = self.pause_until(queue)?;
        Some(until.ms_since(now)).filter(|ms| *ms > 0)
    }

    /// Remembers that a lease was claimed that is longer than its queue says, or will say.
    pub(super) fn note_lease(&mut self, queue: &QueueName, lease_ms: u32, now: Time) {
        self.long_leases.entry(queue.clone()).or_default().note(lease_ms, now);
    }

    /// Forgets what nobody holds any more.
    pub(super) fn forget_leases(&mut self, now: Time) {
        self.long_leases.retain(|_, leases| {
            leases.forget(now);
            !leases.is_empty()
        });
    }

    /// Says of all events that they are of this epoch: what is kept of the others is told again.
    pub(super) fn tag_events(&mut self) {
        let tag = self.epoch.tag();
        for event in &mut self.events {
            event.position.epoch = tag;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A document from before pauses were fixed, read in the middle of one.
    #[test]
    fn a_document_of_before_has_the_pause_that_it_had() {
        let began = Time::from_ms(1_800_000_000_000);
        let mut book = Book::new();
        book.turn(Uuid::from_u128(1), 0, true, began);
        let text = serde_json::to_string(&book.to_document()).expect("a document");
        let mut old: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let fields = old.as_object_mut().expect("fields");
        fields.remove("pauses").expect("what is fixed");
        fields.insert("longest".to_owned(), serde_json::json!({ "mail": [45_000, began] }));
        let old = Book::from_document(serde_json::from_value(old).expect("a document")).expect("a book");
        let until = |name: &str| old.pause_until(&QueueName::new(name).expect("a name"));
        assert_eq!(until("mail"), Some(began.plus_ms(45_000)));
        assert_eq!(until("other"), Some(began.plus_ms(30_000)));
    }

    #[test]
    fn an_epoch_without_loss_keeps_the_pause_of_the_one_before() {
        let began = Time::from_ms(1_800_000_000_000);
        let lossy_after = |ms: i64| {
            let mut book = Book::new();
            book.turn(Uuid::from_u128(1), 0, true, began);
            book.turn(Uuid::from_u128(2), 0, false, began.plus_ms(ms));
            book.epoch().lossy
        };
        assert!(lossy_after(0) && lossy_after(i64::from(PAUSE_MS_MAX) - 1));
        assert!(!lossy_after(i64::from(PAUSE_MS_MAX)));
    }
}
