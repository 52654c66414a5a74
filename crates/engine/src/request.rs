//! A job to be enqueued, with its options.

use std::fmt::Display;
use std::marker::PhantomData;
use std::time::Duration;

use serde::Serialize;
use windlass_core::error::Invalid;
use windlass_core::id::{BudgetName, DedupeKey, JobId, Key, Kind, QueueName};
use windlass_core::job::{JobSpec, NewJob, Start};
use windlass_core::json::{Json, META_BYTES_MAX, PAYLOAD_BYTES_MAX};
use windlass_core::policy::ladder::{Ladder, RetryRule};
use windlass_core::time::{Span, Time};
use windlass_core::trace::TraceParent;

use crate::job::Job;
use crate::telemetry;
use crate::world::{Ids, RealWorld};

/// A job to be enqueued, with its options; `O` is what its handler returns, and
/// `C` who will enqueue it: nobody yet, or the client that it was given to.
///
/// Nothing is checked before the end: a wrong key or a payload that is too
/// large is the one error of the enqueue.
///
/// ```
/// use std::time::Duration;
/// use windlass_engine::JobRequest;
///
/// let job = JobRequest::new("sync-shop", serde_json::json!({"shop": 7}))
///     .queue("etsy")
///     .key("shop-7")
///     .priority(10)
///     .delay(Duration::from_secs(60));
/// assert!(job.build().is_ok());
/// ```
#[derive(Debug)]
pub struct JobRequest<O = serde_json::Value, C = ()> {
    pub(crate) client: C,
    id: Option<JobId>,
    start: Start,
    /// What was said so far, or the first thing that cannot be.
    spec: Result<JobSpec, Invalid>,
    output: PhantomData<fn() -> O>,
}

impl JobRequest {
    /// A job of a kind, with a payload that can be written as JSON.
    pub fn new<T: Serialize>(kind: &str, payload: T) -> Self {
        Self::in_queue("default", kind, &payload)
    }
}

impl<O> JobRequest<O> {
    /// Jobs as a store takes them, in their order, or the first thing that is
    /// wrong with any of them.
    pub fn build_all<R: Into<Self>>(jobs: impl IntoIterator<Item = R>) -> Result<Vec<NewJob>, Invalid> {
        let world = RealWorld::new();
        let mut ids = Ids::new(&world);
        jobs.into_iter().map(|job| job.into().build_with(&mut ids)).collect()
    }

    /// A job as its type describes it.
    pub fn of<J: Job<Output = O>>(job: &J) -> Self {
        let mut request = Self::in_queue(J::QUEUE, J::KIND, job).priority(J::PRIORITY);
        for budget in J::BUDGETS {
            request = request.budget(budget);
        }
        if let Some(ladder) = J::LADDER {
            request = request.ladder(ladder);
        }
        if let Some(max) = J::MAX_ATTEMPTS {
            request = request.max_attempts(max);
        }
        if let Some(timeout) = J::TIMEOUT {
            request = request.timeout(timeout);
        }
        if let Some(key) = job.key() {
            request = request.key(key);
        }
        match job.dedupe_key() {
            Some(key) => request.dedupe_key(key),
            None => request,
        }
    }

    fn in_queue<T: Serialize + ?Sized>(queue: &str, kind: &str, payload: &T) -> Self {
        let spec = (|| {
            let payload = Json::from_value("payload", payload, PAYLOAD_BYTES_MAX)?;
            Ok(JobSpec::new(Kind::new(kind)?, QueueName::new(queue)?, payload))
        })();
        Self { client: (), id: None, start: Start::Now, spec, output: PhantomData }
    }
}

impl<O, C> JobRequest<O, C> {
    /// The same job, given to a client.
    pub(crate) fn given_to<D>(self, client: D) -> JobRequest<O, D> {
        let Self { client: _, id, start, spec, output } = self;
        JobRequest { client, id, start, spec, output }
    }

    /// What it is, without an id; for whoever keeps it, such as a schedule.
    pub(crate) fn spec(self) -> Result<JobSpec, Invalid> {
        self.spec
    }

    /// An id of the caller's own: enqueueing it again answers with the same job.
    pub fn id(mut self, id: JobId) -> Self {
        self.id = Some(id);
        self
    }

    /// The queue.
    pub fn queue(self, queue: impl Display) -> Self {
        self.with(QueueName::new(queue.to_string()), |spec, queue| spec.queue = queue)
    }

    /// Higher first.
    pub fn priority(self, priority: i16) -> Self {
        self.with(Ok(priority), |spec, priority| spec.priority = priority)
    }

    /// Not before this moment.
    pub fn run_at(mut self, at: Time) -> Self {
        self.start = Start::At(at);
        self
    }

    /// Not before `delay` has passed, by the store's clock.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.start = Start::AfterMs(Span::from_ms(as_ms(delay)).ms());
        self
    }

    /// Of the running jobs of the queue, at most one has this key.
    pub fn key(self, key: impl Display) -> Self {
        self.with(Key::new(key.to_string()), |spec, key| spec.key = Some(key))
    }

    /// While a job with this dedupe key is not final, enqueueing answers with that one.
    pub fn dedupe_key(self, key: impl Display) -> Self {
        self.with(DedupeKey::new(key.to_string()), |spec, key| spec.dedupe_key = Some(key))
    }

    /// A budget that must allow the job, beside those that were said before.
    pub fn budget(self, budget: impl Display) -> Self {
        self.with(BudgetName::new(budget.to_string()), |spec, budget| spec.budgets.push(budget))
    }

    /// Delays between attempts such as `1m 5m 1h`, instead of the queue's; `none` for one attempt.
    pub fn ladder(self, ladder: &str) -> Self {
        self.with(ladder.parse(), |spec, ladder| {
            let max_attempts = spec.retry.as_ref().and_then(|rule| rule.max_attempts);
            spec.retry = Some(RetryRule { ladder, max_attempts });
        })
    }

    /// How many attempts there are: fewer than the ladder has rungs and one, or
    /// more, when its last rung repeats. Without a ladder of its own the job
    /// has the default one.
    pub fn max_attempts(self, max: u32) -> Self {
        let wrong = || Invalid::new("max_attempts", "is 0; at least 1 is needed");
        self.with(if max == 0 { Err(wrong()) } else { Ok(max) }, |spec, max| {
            let ladder = spec.retry.take().map_or_else(Ladder::default_rungs, |rule| rule.ladder);
            spec.retry = Some(RetryRule { ladder, max_attempts: Some(max) });
        })
    }

    /// How long one attempt may take.
    pub fn timeout(self, timeout: Duration) -> Self {
        self.with(Ok(as_ms(timeout).max(1)), |spec, ms| spec.timeout_ms = Some(ms))
    }

    /// What the caller wants to remember; anything that can be written as JSON.
    pub fn meta<T: Serialize>(self, meta: T) -> Self {
        self.with(Json::from_value("meta", &meta, META_BYTES_MAX), |spec, meta| spec.meta = Some(meta))
    }

    /// The span that the job comes from, as the header `traceparent` of W3C
    /// Trace Context says it; its attempts are then part of the same trace.
    /// With the feature `opentelemetry` the current span is taken by itself.
    pub fn traceparent(self, text: impl Display) -> Self {
        self.with(TraceParent::new(&text.to_string()), |spec, parent| {
            spec.meta = parent.put(spec.meta.take())
        })
    }

    /// The job as a store takes it, or the first thing that was wrong with it.
    /// For whoever gives it to a store by itself, such as `enqueue_in`.
    pub fn build(self) -> Result<NewJob, Invalid> {
        self.build_with(&mut Ids::new(&RealWorld::new()))
    }

    pub(crate) fn build_with(self, ids: &mut Ids<'_>) -> Result<NewJob, Invalid> {
        let id = self.id.unwrap_or_else(|| ids.make());
        let mut spec = self.spec?.checked()?;
        if let Some(parent) = telemetry::current() {
            spec.meta = parent.put(spec.meta.take());
        }
        Ok(NewJob { id, spec, start: self.start })
    }

    /// Sets a value, or keeps why it cannot be, unless something was wrong before.
    fn with<T>(mut self, value: Result<T, Invalid>, set: impl FnOnce(&mut JobSpec, T)) -> Self {
        match (&mut self.spec, value) {
            (Ok(spec), Ok(value)) => set(spec, value),
            (Ok(_), Err(invalid)) => self.spec = Err(invalid),
            (Err(_), _) => {}
        }
        self
    }
}

impl<O, C: Clone> Clone for JobRequest<O, C> {
    fn clone(&self) -> Self {
        let Self { client, id, start, spec, output } = self;
        Self { client: client.clone(), id: *id, start: *start, spec: spec.clone(), output: *output }
    }
}

impl<J: Job> From<J> for JobRequest<J::Output> {
    fn from(job: J) -> Self {
        Self::of(&job)
    }
}

fn as_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
