//! The suite is worth what it catches: stores that are broken on purpose, each
//! in one way that a real store has been broken in, and the suite must fail
//! every one of them.

use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use windlass_core::book::Book;
use windlass_core::epoch::Epoch;
use windlass_core::error::StoreError;
use windlass_core::event::Event;
use windlass_core::job::{Job, NewJob, Start};
use windlass_core::policy::budget::BudgetPolicy;
use windlass_core::policy::queue::QueuePolicy;
use windlass_core::record::{IfRev, RecordBatch, RecordPage};
use windlass_core::state::State;
use windlass_core::store::*;
use windlass_core::time::Time;
use windlass_core::transition::Outcome;
use windlass_testkit::clock::FakeClock;
use windlass_testkit::conformance::promises;
use windlass_testkit::memory::MemoryStore;
use windlass_testkit::subject::Subject;

mod broken;

use self::broken::Broken;

/// A way to be broken: what it does to calls, and what to a restart.
trait Flaw: Send + Sync + 'static {
    fn claim(request: ClaimRequest) -> ClaimRequest {
        request
    }
    fn lease(_book: &Book, lease: LeaseRef, _now: Time) -> LeaseRef {
        lease
    }
    fn settlement(settlement: Settlement) -> Settlement {
        settlement
    }
    fn settled(answers: Vec<Written>) -> Vec<Written> {
        answers
    }
    fn step(step: StepWrite) -> StepWrite {
        step
    }
    fn jobs(jobs: Vec<NewJob>) -> Vec<NewJob> {
        jobs
    }
    fn policy(policy: QueuePolicy) -> QueuePolicy {
        policy
    }
    fn budget(policy: BudgetPolicy) -> BudgetPolicy {
        policy
    }
    fn found(job: Job) -> Job {
        job
    }
    fn leases(leases: Vec<Leased>) -> Vec<Leased> {
        leases
    }
    fn events(events: Vec<Event>) -> Vec<Event> {
        events
    }
    fn batch(batch: RecordBatch) -> RecordBatch {
        batch
    }
    fn page(page: RecordPage) -> RecordPage {
        page
    }
    fn reopened(_book: &mut Book) {}
    /// After a new epoch has begun.
    fn turned(_before: &Book, _book: &mut Book) {}
    /// Before anything else is done with the leases of a book.
    fn looked(_book: &mut Book, _now: Time) {}
    fn claimed(_book: &mut Book, _now: Time) {}
    const EXPIRES: bool = true;
    const PRUNES: bool = true;
    const CANCELS: bool = true;
    const RUNS_NOW: bool = true;
    const CUTS_STEPS: bool = true;
    const DELETES: bool = true;
}

struct BrokenSubject<F> {
    inner: MemoryStore,
    opened: AtomicU64,
    flaw: PhantomData<F>,
}

#[async_trait]
impl<F: Flaw> Subject for BrokenSubject<F> {
    const NAME: &'static str = "broken";
    const SHARED: bool = false;
    const CUTS: bool = true;

    async fn create(clock: FakeClock) -> Self {
        Self { inner: MemoryStore::new(Arc::new(clock)), opened: AtomicU64::new(0), flaw: PhantomData }
    }

    async fn open(&self) -> Result<Arc<dyn Store>, StoreError> {
        if self.opened.fetch_add(1, Ordering::Relaxed) > 0 {
            F::reopened(&mut self.inner.book());
        }
        Ok(Arc::new(Broken::<F> { inner: self.inner.clone(), flaw: PhantomData }))
    }

    async fn cut(&self) {
        let before = self.inner.book().clone();
        windlass_testkit::memory::cut(&self.inner).await;
        F::turned(&before, &mut self.inner.book());
    }

    async fn wipe(&self) {
        *self.inner.book() = Book::new();
    }
}

/// The promise of this name must see the flaw, in one of `tries`.
fn caught<F: Flaw>(by: &str, tries: u32) {
    let (name, promise) = promises::<BrokenSubject<F>>()
        .into_iter()
        .find(|(name, _)| *name == by)
        .expect("a promise of that name");
    let seen = (0..tries).any(|_| catch_unwind(AssertUnwindSafe(&promise)).is_err());
    assert!(seen, "{name} did not see {}", std::any::type_name::<F>());
}

/// The generated sequences find a flaw too, without knowing of it. They are others in each try, and a rare flaw may not
/// be met by the first hundred.
fn caught_by_sequences<F: Flaw>() {
    caught::<F>("p21_generated_sequences_match_the_book", 20);
}

macro_rules! mutants {
    ($($(#[$doc:meta])* $test:ident: $flaw:ident by $promise:literal $(and $sequences:ident)? { $($body:tt)* })*) => {$(
        $(#[$doc])*
        struct $flaw;
        impl Flaw for $flaw { $($body)* }

        #[test]
        fn $test() {
            caught::<$flaw>($promise, 1);
            $(mutants!(@ $sequences $flaw);)?
        }
    )*};
    (@ sequences $flaw:ident) => { caught_by_sequences::<$flaw>() };
}

/// Marks leases that have run out as some flaw would have it.
fn remark(book: &mut Book, now: Time, to: impl Fn(Option<Time>, i64) -> Option<Time>) {
    let document = serde_json::to_string(&book.to_document()).expect("a document");
    let mut value: serde_json::Value = serde_json::from_str(&document).expect("JSON");
    for entry in value["jobs"].as_array_mut().expect("jobs") {
        let mut job: Job = serde_json::from_str(&entry.to_string()).expect("a job");
        if let State::Running(lease) = &mut job.state
            && lease.expires_at <= now
        {
            lease.marked_at = to(lease.marked_at, lease.wait_ms());
        }
        *entry = serde_json::to_value(&job).expect("JSON");
    }
    *book =
        Book::from_document(serde_json::from_str(&value.to_string()).expect("a document")).expect("a book");
}

mutants! {
    /// Refuses a write after the end of the lease, whether or not the job was taken back.
    strict_lease: StrictLease by "p26_a_late_write_counts" and sequences {
        fn lease(book: &Book, lease: LeaseRef, now: Time) -> LeaseRef {
            let held = book.job(lease.job_id).and_then(Job::lease);
            let out = held.is_some_and(|held| held.expires_at <= now);
            LeaseRef { fence: if out { 0 } else { lease.fence }, ..lease }
        }
    }
    /// Takes back at the first look.
    one_look: OneLook by "p26_two_looks_take_a_lease" and sequences {
        fn looked(book: &mut Book, now: Time) {
            remark(book, now, |_, wait_ms| Some(now.plus_ms(-wait_ms)));
        }
    }
    /// However old a mark is, it counts.
    old_mark_counts: OldMarkCounts by "p26_an_old_mark_is_none" and sequences {
        fn looked(book: &mut Book, now: Time) {
            remark(book, now, |mark, wait_ms| mark.map(|at| at.max(now.plus_ms(-wait_ms))));
        }
    }
    /// Takes back what has run out when somebody asks for work.
    claim_takes_back: ClaimTakesBack by "p26_a_claim_takes_nothing_back" and sequences {
        fn claimed(book: &mut Book, now: Time) {
            remark(book, now, |_, wait_ms| Some(now.plus_ms(-wait_ms)));
            book.expire(now);
        }
    }
    /// Takes whatever fence for the current one.
    no_fence: NoFence by "p04_a_stale_fence_changes_nothing" and sequences {
        fn lease(book: &Book, lease: LeaseRef, _now: Time) -> LeaseRef {
            let fence = book.job(lease.job_id).map_or(lease.fence, |job| job.fence);
            LeaseRef { fence, ..lease }
        }
    }
    /// Two running jobs share a key.
    double_key: DoubleKey by "p03_a_key_runs_once" and sequences {
        fn jobs(mut jobs: Vec<NewJob>) -> Vec<NewJob> {
            jobs.iter_mut().for_each(|job| job.spec.key = None);
            jobs
        }
    }
    /// Forgets the limit of a queue.
    no_limit: NoLimit by "p03_a_queue_keeps_its_limit" and sequences {
        fn policy(policy: QueuePolicy) -> QueuePolicy {
            QueuePolicy { limit: None, ..policy }
        }
    }
    /// Everything is gone after a restart.
    loses_jobs: LosesJobs by "p01_what_was_answered_survives_a_restart" and sequences {
        fn reopened(book: &mut Book) {
            *book = Book::new();
        }
    }
    /// A restart begins the fences anew.
    resets_fences: ResetsFences by "p02_the_fence_rises_with_each_claim" {
        fn reopened(book: &mut Book) {
            let text = serde_json::to_string(&book.to_document()).expect("a document");
            let text = text.replace("\"fence\":4", "\"fence\":1");
            let document = serde_json::from_str(&text).expect("a document");
            *book = Book::from_document(document).expect("a book");
        }
    }
    /// A new epoch does not lift the floor.
    keeps_the_floor: KeepsTheFloor by "p27_fences_rise_over_epochs" and sequences {
        fn turned(before: &Book, book: &mut Book) {
            book.enter(Epoch { floor: before.epoch().floor, ..*book.epoch() });
        }
    }
    /// A new epoch holds back nothing.
    holds_back_nothing: HoldsBackNothing by "p27_what_others_may_hold_waits" and sequences {
        fn turned(_before: &Book, book: &mut Book) {
            let document = serde_json::to_string(&book.to_document()).expect("a document");
            let document = document.replace("\"lossy\":true", "\"lossy\":false");
            *book = Book::from_document(serde_json::from_str(&document).expect("a document")).expect("a book");
        }
    }
    /// A new epoch holds back whatever comes.
    holds_back_all: HoldsBackAll by "p27_what_others_may_hold_waits" {
        fn jobs(mut jobs: Vec<NewJob>) -> Vec<NewJob> {
            let plain = |job: &NewJob| job.spec.dedupe_key.is_none();
            let keyed = |job: &NewJob| windlass_core::id::DedupeKey::new(job.id.to_string()).ok();
            jobs.iter_mut().filter(|job| plain(job)).for_each(|job| job.spec.dedupe_key = keyed(job));
            jobs
        }
    }
    /// A new epoch leaves leases, their marks and the windows of budgets as they were.
    renews_nothing: RenewsNothing by "p27_a_cut_history_is_a_new_epoch" and sequences {
        fn turned(before: &Book, book: &mut Book) {
            let mut document = serde_json::to_value(before.to_document()).expect("a document");
            document["epoch"] = serde_json::to_value(book.epoch()).expect("an epoch");
            *book = Book::from_document(serde_json::from_value(document).expect("a document")).expect("a book");
        }
    }
    /// The windows of budgets are as they were.
    fills_no_window: FillsNoWindow by "p27_a_second_and_a_minute_are_spent" {
        fn turned(before: &Book, book: &mut Book) {
            let mut document = serde_json::to_value(book.to_document()).expect("a document");
            let before = serde_json::to_value(before.to_document()).expect("a document");
            document["budgets"] = before["budgets"].clone();
            *book = Book::from_document(serde_json::from_value(document).expect("a document")).expect("a book");
        }
    }
    /// Positions of before are read as if nothing had been.
    reads_old_positions: ReadsOldPositions by "p27_a_position_of_another_epoch_is_refused" and sequences {
        fn turned(before: &Book, book: &mut Book) {
            book.begin(before.epoch().instance);
        }
    }
    /// Makes a second job for a dedupe key.
    ignores_dedupe: IgnoresDedupe by "p09_a_dedupe_key_has_one_unfinished_job" and sequences {
        fn jobs(mut jobs: Vec<NewJob>) -> Vec<NewJob> {
            jobs.iter_mut().for_each(|job| job.spec.dedupe_key = None);
            jobs
        }
    }
    /// Never takes back a lease.
    never_expires: NeverExpires by "p02_a_job_has_one_lease" and sequences {
        const EXPIRES: bool = false;
    }
    /// Never deletes anything.
    never_prunes: NeverPrunes by "p13_finished_jobs_go_by_age" and sequences {
        const PRUNES: bool = false;
    }
    /// Says that it canceled, and did not.
    lies_about_cancel: LiesAboutCancel by "p10_a_canceled_queued_job_never_starts" and sequences {
        const CANCELS: bool = false;
    }
    /// Slots of a budget do not count.
    no_slots: NoSlots by "p11_slots" and sequences {
        fn budget(policy: BudgetPolicy) -> BudgetPolicy {
            BudgetPolicy { slots: None, ..policy }
        }
    }
    /// A rate does not count.
    no_rate: NoRate by "p11_per_second" and sequences {
        fn budget(policy: BudgetPolicy) -> BudgetPolicy {
            BudgetPolicy { per_second: None, ..policy }
        }
    }
    /// Minutes do not count.
    no_minutes: NoMinutes by "p11_per_minute" and sequences {
        fn budget(policy: BudgetPolicy) -> BudgetPolicy {
            BudgetPolicy { per_minute: None, ..policy }
        }
    }
    /// Delays are forgotten.
    no_delay: NoDelay by "p12_one_clock_decides" and sequences {
        fn jobs(mut jobs: Vec<NewJob>) -> Vec<NewJob> {
            jobs.iter_mut().for_each(|job| job.start = Start::Now);
            jobs
        }
    }
    /// Jobs are handed out in another order.
    reverses_order: ReversesOrder by "p08_first_come_first_served" and sequences {
        fn leases(mut leases: Vec<Leased>) -> Vec<Leased> {
            leases.reverse();
            leases
        }
    }
    /// A claim that is asked again takes further jobs.
    forgets_requests: ForgetsRequests by "p15_a_repeated_claim_gives_the_same_leases" and sequences {
        fn claim(mut request: ClaimRequest) -> ClaimRequest {
            static ASKED: AtomicU64 = AtomicU64::new(1);
            request.request_id = uuid::Uuid::from_u128(u128::from(ASKED.fetch_add(1, Ordering::Relaxed)) << 80);
            request
        }
    }
    /// A repeated settlement is called lost.
    repeats_are_lost: RepeatsAreLost by "p15_a_repeated_settlement_is_done" {
        fn settled(answers: Vec<Written>) -> Vec<Written> {
            static SEEN: AtomicU64 = AtomicU64::new(0);
            let repeat = SEEN.fetch_add(1, Ordering::Relaxed) % 2 == 1;
            if repeat { vec![Written::Lost; answers.len()] } else { answers }
        }
    }
    /// A release costs an attempt.
    release_costs: ReleaseCosts by "p07_release_and_park_give_the_attempt_back" and sequences {
        fn settlement(settlement: Settlement) -> Settlement {
            let outcome = match settlement.outcome {
                Outcome::Released => Outcome::Retry { error: String::new(), when: Some(Start::Now) },
                other => other,
            };
            Settlement { outcome, ..settlement }
        }
    }
    /// A number is rounded on its way.
    rounds_numbers: RoundsNumbers by "p16_json_comes_back_exactly" {
        fn found(mut job: Job) -> Job {
            let number: serde_json::Value = job.spec.payload.read().expect("JSON");
            job.spec.payload = windlass_core::json::Json::from_value("payload", &number, 1 << 21).expect("JSON");
            job
        }
    }
    /// Steps of a job are shown without their order.
    shuffles_steps: ShufflesSteps by "p13_steps_are_bounded" and sequences {
        fn found(mut job: Job) -> Job {
            job.steps.reverse();
            job
        }
    }
    /// Every step has the same name, so that all but the first are dropped.
    drops_steps: DropsSteps by "p06_a_stored_step_stays" and sequences {
        fn step(step: StepWrite) -> StepWrite {
            StepWrite { name: windlass_core::id::StepName::new("same").expect("a name"), ..step }
        }
    }
    /// Tells an event again.
    doubles_events: DoublesEvents by "p20_events_follow_a_position" and sequences {
        fn events(mut events: Vec<Event>) -> Vec<Event> {
            events.extend(events.first().cloned());
            events
        }
    }
    /// A job that is to run now waits on.
    leaves_jobs_for_later: LeavesJobsForLater by "p28_a_job_is_run_now" and sequences {
        const RUNS_NOW: bool = false;
    }
    /// A job that is run again from a step keeps all of them.
    keeps_every_step: KeepsEveryStep by "p28_a_job_is_run_again_from_a_step" and sequences {
        const CUTS_STEPS: bool = false;
    }
    /// A job that is said to be deleted is there.
    deletes_nothing: DeletesNothing by "p28_a_job_is_deleted" and sequences {
        const DELETES: bool = false;
    }
    /// Whoever writes last is right, whatever the others have read.
    ignores_revisions: IgnoresRevisions by "p25_no_change_is_lost" and sequences {
        fn batch(mut batch: RecordBatch) -> RecordBatch {
            batch.writes.iter_mut().for_each(|write| write.if_rev = IfRev::Any);
            batch
        }
    }
    /// An attempt that has lost its lease writes on.
    writes_without_a_lease: WritesWithoutALease by "p23_a_lost_lease_writes_nothing" and sequences {
        fn batch(batch: RecordBatch) -> RecordBatch {
            RecordBatch { lease: None, ..batch }
        }
    }
    /// A batch whose answer was lost is written twice.
    forgets_batches: ForgetsBatches by "p23_a_repeated_batch_is_written_once" and sequences {
        fn batch(batch: RecordBatch) -> RecordBatch {
            static ASKED: AtomicU64 = AtomicU64::new(1);
            let id = uuid::Uuid::from_u128(u128::from(ASKED.fetch_add(1, Ordering::Relaxed)) << 80);
            RecordBatch { id, ..batch }
        }
    }
    /// The last record of a page is left out of the pages.
    skips_a_record: SkipsARecord by "p24_records_come_in_every_order" and sequences {
        fn page(mut page: RecordPage) -> RecordPage {
            if page.next.is_some() && page.records.len() > 1 {
                page.records.pop();
            }
            page
        }
    }
}
