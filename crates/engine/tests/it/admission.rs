//! Who decides whether a worker claims, and what becomes of what the source refuses.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use windlass_engine::core::error::StoreError;
use windlass_engine::core::id::JobId;
use windlass_engine::core::state::StateName;
use windlass_engine::core::store::{Leased, Settlement, Written};
use windlass_engine::{Admission, Admit, Context, Outcome, Unsettled, Worker, WorkerError};

use crate::faulty::Faulty;
use crate::stage::{Note, Stage};

/// Decides as it is told, and writes down what it hears.
struct Porter {
    admit: Mutex<Admit>,
    chooses_last: bool,
    outlives: bool,
    /// What becomes of an end that is refused.
    unsettled: Mutex<Box<dyn FnMut() -> Unsettled + Send>>,
    heard: Mutex<Vec<String>>,
}

impl Porter {
    fn new(admit: Admit) -> Self {
        Self {
            admit: Mutex::new(admit),
            chooses_last: false,
            outlives: false,
            unsettled: Mutex::new(Box::new(|| Unsettled::LetGo)),
            heard: Mutex::default(),
        }
    }

    fn ends(unsettled: impl FnMut() -> Unsettled + Send + 'static) -> Arc<Self> {
        Arc::new(Self { unsettled: Mutex::new(Box::new(unsettled)), ..Self::new(Admit::All) })
    }

    fn hear(&self, what: String) {
        self.heard.lock().unwrap().push(what);
    }

    fn heard(&self, what: &str) -> usize {
        self.heard.lock().unwrap().iter().filter(|heard| *heard == what).count()
    }
}

#[async_trait]
impl Admission for Porter {
    async fn admit(&self) -> Admit {
        *self.admit.lock().unwrap()
    }

    fn choose(&self, leases: &[Leased]) -> usize {
        if self.chooses_last { leases.len() - 1 } else { 0 }
    }

    async fn claimed(&self, leases: &[Leased]) {
        self.hear(format!("claimed {}", leases.len()));
    }

    async fn unclaimed(&self, error: &StoreError) {
        self.hear(format!("unclaimed {}", error.code()));
    }

    async fn settled(&self, end: &Settlement, written: Written) {
        self.hear(format!("{} {written:?}", end.outcome.word()));
    }

    async fn unsettled(&self, _: &Settlement, refusals: u32, error: &StoreError) -> Unsettled {
        self.hear(format!("refused {refusals} {}", error.code()));
        (self.unsettled.lock().unwrap())()
    }

    fn outlives(&self, _: &StoreError) -> bool {
        self.outlives
    }
}

const NOTHING: Admit = Admit::Nothing { again_in: Duration::from_secs(30) };

fn faulty(stage: &Stage) -> (Arc<Faulty>, Worker) {
    let faulty = Faulty::new(stage.store.clone());
    let worker = stage.dress(Worker::from_source(faulty.clone()));
    (faulty, worker)
}

async fn all_are(stage: &Stage, ids: &[JobId], state: StateName) -> bool {
    let mut are = true;
    for id in ids {
        are &= stage.job(*id).await.state.name() == state;
    }
    are
}

/// Nothing is claimed, neither by asking nor inside of the commit that brings the work, until the decision is another.
#[tokio::test]
async fn nothing_is_claimed_while_nothing_is_admitted() {
    let stage = Stage::new();
    let porter = Arc::new(Porter::new(NOTHING));
    let first = stage.enqueue("before").await;
    let worker = stage.worker().admission(porter.clone()).handle(async |_: Note, _: Context| Ok(()));
    let running = stage.start(worker);
    stage.world().advance(Duration::from_secs(60)).await;
    let second = stage.enqueue("while it waits").await;
    stage.world().advance(Duration::from_secs(60)).await;
    assert!(all_are(&stage, &[first, second], StateName::Queued).await);
    *porter.admit.lock().unwrap() = Admit::All;
    // Nobody calls; it asks again by itself.
    stage.world().advance(Duration::from_secs(31)).await;
    assert!(all_are(&stage, &[first, second], StateName::Completed).await);
    running.stop().await;
    assert_eq!((porter.heard("claimed 2"), porter.heard("completed Done")), (1, 2));
}

/// What is held back is waited for by a worker that runs until there is nothing to do, and left by one that takes what is due.
#[tokio::test]
async fn a_worker_that_may_not_claim_is_not_idle() {
    let stage = Stage::new();
    let id = stage.enqueue("held back").await;
    let worker = |porter| stage.worker().admission(porter).handle(async |_: Note, _: Context| Ok(()));
    let none = worker(Arc::new(Porter::new(NOTHING))).due_only().run_until_idle().await.unwrap();
    assert_eq!((none.claimed, stage.job(id).await.state.name()), (0, StateName::Queued));
    let porter = Arc::new(Porter::new(NOTHING));
    let waits = tokio::spawn(worker(porter.clone()).run_until_idle());
    stage.world().advance(Duration::from_secs(60)).await;
    assert!(!waits.is_finished(), "there is a job that it was not let at");
    *porter.admit.lock().unwrap() = Admit::All;
    stage.until_state(id, StateName::Completed).await;
    waits.await.unwrap().unwrap();
}

#[tokio::test]
async fn no_more_is_claimed_than_is_admitted() {
    let stage = Stage::new();
    let (faulty, worker) = faulty(&stage);
    let mut ids = Vec::new();
    for n in 0..7 {
        ids.push(stage.enqueue(&format!("n{n}")).await);
    }
    let porter = Arc::new(Porter::new(Admit::AtMost(2)));
    let worker = worker.slots(10).admission(porter).handle(async |_: Note, _: Context| Ok(()));
    let running = stage.start(worker);
    stage.until("all are done", async || all_are(&stage, &ids, StateName::Completed).await).await;
    running.stop().await;
    assert!(faulty.claims.lock().unwrap().iter().all(|claim| claim.limit <= 2));
}

/// A trial is made by the job that is chosen, of more than there are slots for; the others cost no attempt.
#[tokio::test]
async fn one_is_chosen_and_the_others_are_given_back() {
    let stage = Stage::new();
    let mut ids = Vec::new();
    for n in 0..4 {
        ids.push(stage.enqueue(&format!("n{n}")).await);
    }
    let porter = Arc::new(Porter { chooses_last: true, ..Porter::new(Admit::OneOf(3)) });
    let began = Arc::new(Mutex::new(Vec::new()));
    let worker = stage.worker().slots(1).admission(porter.clone()).handle({
        let (porter, began) = (porter.clone(), began.clone());
        move |_: Note, ctx: Context| {
            *porter.admit.lock().unwrap() = Admit::All;
            began.lock().unwrap().push(ctx.id());
            async { Ok(()) }
        }
    });
    let running = stage.start(worker);
    stage.until("all are done", async || all_are(&stage, &ids, StateName::Completed).await).await;
    running.stop().await;
    assert_eq!(began.lock().unwrap()[0], ids[2], "the last of the three that were claimed");
    assert_eq!((began.lock().unwrap().len(), porter.heard("claimed 3")), (4, 0));
    for id in ids {
        let job = stage.job(id).await;
        assert_eq!((job.attempt, job.crashes), (1, 0));
    }
}

/// What is given back while the store does not answer is given back later, and is nobody's crash.
#[tokio::test]
async fn what_cannot_be_given_back_at_once_is_given_back_later() {
    let stage = Stage::new();
    let (faulty, worker) = faulty(&stage);
    let ids = [stage.enqueue("tries").await, stage.enqueue("waits").await];
    let porter = Arc::new(Porter::new(Admit::OneOf(2)));
    let worker = worker.slots(1).admission(porter.clone()).handle({
        let porter = porter.clone();
        move |_: Note, _: Context| {
            *porter.admit.lock().unwrap() = Admit::All;
            async { Ok(()) }
        }
    });
    faulty.refuses_ends.store(3, Ordering::SeqCst);
    let running = stage.start(worker);
    stage.until("all are done", async || all_are(&stage, &ids, StateName::Completed).await).await;
    running.stop().await;
    assert_eq!(faulty.refuses_ends.load(Ordering::SeqCst), 0, "it was away");
    for id in ids {
        let job = stage.job(id).await;
        assert_eq!((job.attempt, job.crashes), (1, 0));
    }
}

/// An error that would end the worker is told, and outlived by who says so.
#[tokio::test]
async fn a_claim_that_is_refused_ends_only_who_does_not_outlive_it() {
    let stage = Stage::new();
    let id = stage.enqueue("refused").await;
    for outlives in [false, true] {
        let (faulty, worker) = faulty(&stage);
        faulty.refuses_claims.store(true, Ordering::SeqCst);
        let porter = Arc::new(Porter { outlives, ..Porter::new(Admit::All) });
        let worker = worker.admission(porter.clone()).handle(async |_: Note, _: Context| Ok(()));
        let running = tokio::spawn(worker.run_until(std::future::pending()));
        stage.world().advance(Duration::from_secs(60)).await;
        assert!(porter.heard("unclaimed store_broken") > 0);
        assert_eq!(running.is_finished(), !outlives);
        if outlives {
            faulty.refuses_claims.store(false, Ordering::SeqCst);
            stage.until_state(id, StateName::Completed).await;
            running.abort();
        } else {
            let ended = running.await.unwrap();
            assert!(matches!(ended, Err(WorkerError::Store(StoreError::Broken(_)))), "{ended:?}");
        }
    }
}

/// An end that is refused is written otherwise.
#[tokio::test]
async fn an_end_that_is_refused_is_another() {
    let stage = Stage::new();
    let (faulty, worker) = faulty(&stage);
    let id = stage.enqueue("refused").await;
    *faulty.unfit.lock().unwrap() = Some(id);
    let taken = faulty.clone();
    let porter = Porter::ends(move || {
        *taken.unfit.lock().unwrap() = None;
        Unsettled::Instead(Outcome::Failed { error: "in plain words".into() })
    });
    let worker = worker.admission(porter.clone()).handle(async |_: Note, _: Context| Ok(()));
    let running = stage.start(worker);
    let job = stage.until_state(id, StateName::Failed).await;
    assert_eq!((job.last_error(), job.attempt), (Some("in plain words"), 1));
    assert_eq!(running.stop().await.settled, 1);
    assert_eq!((porter.heard("refused 1 value_unfit"), porter.heard("failed Done")), (1, 1));
}

/// One that is held costs no other, keeps its lease for longer than that lasts, and ends as it did when the source takes it.
#[tokio::test]
async fn an_end_is_held_until_it_is_taken() {
    let stage = Stage::new();
    let (faulty, worker) = faulty(&stage);
    let id = stage.enqueue("refused").await;
    *faulty.unfit.lock().unwrap() = Some(id);
    let porter = Porter::ends(|| Unsettled::Hold);
    let worker = worker.admission(porter.clone()).handle(async |_: Note, _: Context| Ok(()));
    let running = stage.start(worker);
    stage.until("it is refused", async || porter.heard("refused 1 value_unfit") > 0).await;
    let other = stage.enqueue("beside it").await;
    stage.until_state(other, StateName::Completed).await;
    stage.world().advance(Duration::from_secs(300)).await;
    assert_eq!(stage.job(id).await.state.name(), StateName::Running);
    *faulty.unfit.lock().unwrap() = None;
    let job = stage.until_state(id, StateName::Completed).await;
    assert_eq!((job.attempt, job.crashes, job.fence), (1, 0, 1));
    assert_eq!(running.stop().await.settled, 2);
}

/// Whoever answers with ends that are all refused does not keep the settler for ever; and a worker that ends lets go.
#[tokio::test]
async fn an_end_that_nobody_takes_is_let_go() {
    for holds in [true, false] {
        let stage = Stage::new();
        let (faulty, worker) = faulty(&stage);
        let id = stage.enqueue("refused").await;
        *faulty.unfit.lock().unwrap() = Some(id);
        let ending = Arc::new(AtomicBool::new(false));
        let ends = ending.clone();
        let porter = Porter::ends(move || match (holds, ends.load(Ordering::SeqCst)) {
            (true, false) => Unsettled::Hold,
            (true, true) => Unsettled::LetGo,
            (false, _) => Unsettled::Instead(Outcome::Canceled),
        });
        let worker = worker.housekeeping(false).admission(porter.clone());
        let running = stage.start(worker.handle(async |_: Note, _: Context| Ok(())));
        stage.until("it is refused", async || porter.heard("refused 1 value_unfit") > 0).await;
        ending.store(true, Ordering::SeqCst);
        let summary = running.stop().await;
        assert_eq!((summary.claimed, summary.settled), (1, 0));
        assert_eq!(stage.job(id).await.state.name(), StateName::Running, "its lease runs out");
    }
}
