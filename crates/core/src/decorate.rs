//! Decorators: sources and stores that stand around another one, and change a verb or two of it.
//!
//! Every verb of a decorator asks the same one inside unless it is written anew, and all of it is passed on here: a verb that
//! is added to [`Source`] or [`Store`] and not to this file does not compile. [`SourceDecorator::around`] stands around all verbs at
//! once. What a decorator cannot lose by forgetting it includes its [`Capabilities`].
//!
//! ```
//! # use std::sync::atomic::{AtomicU32, Ordering};
//! # use windlass_core::decorate::SourceDecorator;
//! # use windlass_core::error::StoreError;
//! # use windlass_core::store::{ClaimAnswer, ClaimRequest, Source};
//! struct Counting<S> {
//!     inner: S,
//!     claims: AtomicU32,
//! }
//!
//! #[async_trait::async_trait]
//! impl<S: Source> SourceDecorator for Counting<S> {
//!     fn source(&self) -> &dyn Source {
//!         &self.inner
//!     }
//!
//!     async fn claim(&self, request: ClaimRequest) -> Result<ClaimAnswer, StoreError> {
//!         self.claims.fetch_add(1, Ordering::Relaxed);
//!         self.inner.claim(request).await
//!     }
//! }
//! ```

use std::pin::Pin;

use crate::audit::{AuditBite, AuditFrom};
use crate::eligible::Explanation;
use crate::error::StoreError;
use crate::event::{Action, Event, Position};
use crate::id::{BudgetName, JobId, QueueName, ScheduleName, WorkerName};
use crate::job::{Job, NewJob};
use crate::log::{LogPage, LogWrite};
use crate::policy::budget::BudgetPolicy;
use crate::policy::queue::QueuePolicy;
use crate::policy::schedule::{Schedule, SchedulePolicy};
use crate::query::{Counted, JobFilter, ListRequest, Page, QueueStatus, WorkerStatus};
use crate::record::Records;
use crate::store::*;
use crate::time::Time;
use crate::wake::Registration;

/// A call that is under way.
pub type Call<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// Makes the trait of a decorator, whose verbs all ask the one inside, and by it the trait that is decorated. `said` are verbs that
/// answer on the spot, `asked` those that are waited for: these are written as `async_trait` writes them, since a future that only
/// waits for another would be compiled for every decorator.
macro_rules! passed_on {
    (
        $(#[$doc:meta])*
        trait $decorator:ident: $($bound:ident)&+ { $($own:item)* }
        $trait:ident of $inner:ident
        said { $($word:ident($($told:ident: $told_type:ty)?) -> $said:ty;)* }
        asked { $($verb:ident($($given:ident: $type:ty),*) -> $answer:ty;)* }
    ) => {
        $(#[$doc])*
        pub trait $decorator: $($bound +)+ {
            /// The one inside.
            fn $inner(&self) -> &dyn $trait;
            $($own)*
            $(
                #[doc = concat!("[`", stringify!($trait), "::", stringify!($word), "`]; as the one inside, unless it is written anew.")]
                fn $word(&self, $($told: $told_type)?) -> $said {
                    self.$inner().$word($($told)?)
                }
            )*
            $(
                #[doc = concat!("[`", stringify!($trait), "::", stringify!($verb), "`]; as the one inside, unless it is written anew.")]
                fn $verb<'life0, 'async_trait>(&'life0 self, $($given: $type),*) -> Call<'async_trait, $answer>
                where
                    'life0: 'async_trait,
                    Self: 'async_trait,
                {
                    self.$inner().$verb($($given),*)
                }
            )*
        }

        impl<D: $decorator> $trait for D {
            $(
                fn $word(&self, $($told: $told_type)?) -> $said {
                    $decorator::$word(self, $($told)?)
                }
            )*
            $(
                fn $verb<'life0, 'async_trait>(&'life0 self, $($given: $type),*) -> Call<'async_trait, $answer>
                where
                    'life0: 'async_trait,
                    Self: 'async_trait,
                {
                    self.around($decorator::$verb(self, $($given),*))
                }
            )*
        }
    };
}

passed_on! {
    /// A source that stands around another.
    trait SourceDecorator: Send & Sync {
        /// Stands around every verb that is waited for, those that are written anew as well.
        fn around<'a, T: Send + 'a>(&'a self, call: Call<'a, T>) -> Call<'a, T> {
            call
        }
    }
    Source of source
    said {
        on_work(wake: WakeFn) -> Registration;
        on_commit(offer: OfferFn) -> Registration;
        capabilities() -> Capabilities;
    }
    asked {
        claim(request: ClaimRequest) -> ClaimAnswer;
        renew(leases: Vec<LeaseRef>) -> RenewAnswer;
        cancels(leases: Vec<LeaseRef>) -> Vec<JobId>;
        store_steps(steps: Vec<StepWrite>) -> Vec<Written>;
        progress(reports: Vec<ProgressWrite>) -> Vec<Written>;
        settle(settlements: Vec<Settlement>) -> Vec<Written>;
        expire() -> Expired;
        spend(budget: BudgetName, amount: u32) -> Spent;
        cool_down(budget: BudgetName, for_ms: u64) -> ();
    }
}

passed_on! {
    /// A store that stands around another. What jobs say goes where the one inside keeps it, also where its records are decorated.
    trait StoreDecorator: SourceDecorator {}
    Store of store
    said {
        records() -> Result<&dyn Records, StoreError>;
    }
    asked {
        enqueue(jobs: Vec<NewJob>) -> Vec<Enqueued>;
        put_log(write: LogWrite) -> Written;
        logs(job: JobId) -> Vec<LogPage>;
        get(id: JobId) -> Option<Job>;
        holders(jobs: Vec<JobId>) -> Vec<Holder>;
        list(request: ListRequest) -> Page;
        count_jobs(filter: JobFilter) -> Counted;
        cancel_all(ids: Vec<JobId>) -> Vec<CancelAnswer>;
        retry_all(ids: Vec<JobId>) -> Vec<RetryAnswer>;
        run_now_all(ids: Vec<JobId>) -> Vec<RunNowAnswer>;
        rerun_all(wishes: Vec<Rerun>) -> Vec<RerunAnswer>;
        delete_all(ids: Vec<JobId>) -> Vec<DeleteAnswer>;
        explain(id: JobId) -> Option<Explanation>;
        queues() -> Vec<QueueStatus>;
        put_queue(name: QueueName, policy: QueuePolicy) -> ();
        pause_queue(name: QueueName, paused: bool) -> ();
        delete_queue(name: QueueName) -> QueueDeletion;
        budgets() -> Vec<BudgetStatus>;
        put_budget(name: BudgetName, policy: BudgetPolicy) -> ();
        delete_budget(name: BudgetName) -> bool;
        schedules() -> Vec<Schedule>;
        put_schedule(name: ScheduleName, policy: SchedulePolicy) -> ();
        delete_schedule(name: ScheduleName) -> bool;
        fire_schedules() -> Fired;
        beat(worker: WorkerBeat) -> ();
        workers() -> Vec<WorkerStatus>;
        forget_worker(name: WorkerName) -> ();
        prune() -> u64;
        events(since: Option<Position>, limit: u32) -> Vec<Event>;
        act(action: Action) -> ();
        events_end() -> Position;
        audit_bite(from: AuditFrom) -> AuditBite;
        now() -> Time;
        accepts() -> ();
        risks() -> Vec<Risk>;
        epoch() -> EpochStatus;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::task::{Context, Poll, Waker};

    use super::*;
    use crate::memory::MemoryStore;
    use crate::time::Clock;

    struct Epoch;

    impl Clock for Epoch {
        fn wall(&self) -> Time {
            Time::MIN
        }

        fn boot_ms(&self) -> u64 {
            0
        }

        fn boot_id(&self) -> uuid::Uuid {
            uuid::Uuid::nil()
        }
    }

    /// Can whatever can be.
    struct Able(MemoryStore);

    const ABLE: Capabilities = Capabilities { tells: true, claims_at_once: 7, shares_commits: true };

    impl SourceDecorator for Able {
        fn source(&self) -> &dyn Source {
            &self.0
        }

        fn capabilities(&self) -> Capabilities {
            ABLE
        }
    }

    impl StoreDecorator for Able {
        fn store(&self) -> &dyn Store {
            &self.0
        }
    }

    /// Changes nothing but what stands around all.
    struct Around {
        inner: Able,
        is_away: bool,
    }

    impl SourceDecorator for Around {
        fn source(&self) -> &dyn Source {
            &self.inner
        }

        fn around<'a, T: Send + 'a>(&'a self, call: Call<'a, T>) -> Call<'a, T> {
            match self.is_away {
                true => Box::pin(async { Err(StoreError::Unavailable("it is away".into())) }),
                false => call,
            }
        }
    }

    impl StoreDecorator for Around {
        fn store(&self) -> &dyn Store {
            &self.inner
        }
    }

    fn around(is_away: bool) -> (MemoryStore, Arc<dyn Store>) {
        let store = MemoryStore::new(Arc::new(Epoch));
        (store.clone(), Arc::new(Around { inner: Able(store), is_away }))
    }

    /// The answer of a store in memory is there at once.
    fn ready<T>(mut call: Call<'_, T>) -> Result<T, StoreError> {
        match call.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answer) => answer,
            Poll::Pending => panic!("it waits"),
        }
    }

    #[test]
    fn a_decorator_loses_nothing() {
        let (inner, store) = around(false);
        assert_eq!(store.capabilities(), ABLE);
        let registrations = (store.on_work(Arc::new(|_| {})), store.on_commit(Arc::new(|_| None)));
        assert_eq!(inner.registered(), 2);
        drop(registrations);
        assert_eq!(inner.registered(), 0);
        assert!(store.records().is_ok());
        let queue = QueueName::new("q").expect("a name");
        ready(store.pause_queue(queue.clone(), true)).expect("paused");
        let seen = ready(store.queues()).expect("queues");
        assert_eq!((&seen[0].name, seen[0].paused), (&queue, true), "it is the one inside that was asked");
    }

    #[test]
    fn what_stands_around_stands_around_every_verb() {
        let (_, store) = around(true);
        let refused = [
            ready(store.expire()).map(drop),
            ready(store.cancels(Vec::new())).map(drop),
            ready(store.enqueue(Vec::new())).map(drop),
            ready(store.risks()).map(drop),
            ready(store.logs(JobId(uuid::Uuid::nil()))).map(drop),
            // Sugar, over a verb that is decorated.
            ready(store.cancel(JobId(uuid::Uuid::nil()))).map(drop),
        ];
        for answer in refused {
            assert!(matches!(answer, Err(StoreError::Unavailable(_))), "{answer:?}");
        }
    }
}
