//! 21: generated sequences. Whatever is done, in whatever order, a store
//! answers as the book does and shows what the book shows, after each step and
//! after a restart.

mod compare;
mod op;
mod pair;
mod records;
mod steer;
mod strategy;
mod tickets;
mod words;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;

use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use tokio::runtime;
use tokio::sync::Mutex;

use self::compare::Seen;
use self::op::{Handle, Op, Plan, Turn};
use self::pair::{Pair, Same};
use super::scene::Scene;
use crate::subject::Subject;
use windlass_core::time::Clock;

/// How many operations a sequence has at most.
const OPS_MAX: usize = 50;
/// How many sequences are tried unless `WINDLASS_PROPTEST_CASES` says otherwise.
const CASES: u32 = 100;

/// A store does what the book does, by whichever of two handles it is asked.
/// `WINDLASS_PROPTEST_CASES` sets how many sequences are tried,
/// `WINDLASS_PROPTEST_SEED` which ones; without it they are others in each run,
/// and what fails says by which seed.
pub async fn p21_generated_sequences_match_the_book<S: Subject>() {
    let scene = Mutex::new(Scene::<S>::new().await);
    let (mut runner, drawn) = generator(CASES);
    let handle = runtime::Handle::current();
    let outcome = tokio::task::block_in_place(|| {
        runner.run(&strategy::plans(OPS_MAX), |plan| {
            let case = handle.block_on(async { play(&mut *scene.lock().await, &plan).await });
            case.map_err(TestCaseError::fail)
        })
    });
    match outcome {
        Ok(()) => {}
        Err(TestError::Fail(why, plan)) => panic!(
            "{} and the book part:\n{why}\nafter\n{plan:?}found by WINDLASS_PROPTEST_SEED={drawn}",
            S::NAME
        ),
        Err(TestError::Abort(why)) => panic!("no sequences were made: {why}"),
    }
}

/// What makes sequences, as the environment asks for, and by which seed. Without one they are others in each run.
pub fn generator(cases: u32) -> (TestRunner, u32) {
    let config = Config {
        cases: number("WINDLASS_PROPTEST_CASES").unwrap_or(cases),
        failure_persistence: None,
        max_shrink_iters: 4_000,
        // What is found is shown after so long, however much shorter it could still be made.
        max_shrink_time: 60_000,
        ..Config::default()
    };
    let drawn = number("WINDLASS_PROPTEST_SEED").unwrap_or_else(draw);
    println!("WINDLASS_PROPTEST_SEED={drawn}");
    let mut seed = [7; 32];
    seed[..4].copy_from_slice(&drawn.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
    (TestRunner::new_with_rng(config, rng), drawn)
}

async fn play<S: Subject>(scene: &mut Scene<S>, plan: &Plan) -> Same {
    scene.subject.wipe().await;
    to_midnight(scene);
    let mut pair = Pair::new(scene.store().clone(), scene.clock.clone());
    let mut seen = Seen::default();
    let mut second = None;
    for (turn, Turn { by, hint, op }) in plan.0.iter().enumerate() {
        if matches!(op, Op::Restart | Op::Cut) {
            second = None;
        }
        if matches!(op, Op::Cut) && S::CUTS {
            pair.close();
            scene.cut().await;
            pair.store = scene.store().clone();
            let entered = pair.enter().await;
            entered.map_err(|why| format!("at operation {}: {why}", turn + 1))?;
        }
        pair.store = match by {
            Handle::First => scene.store().clone(),
            Handle::Second => match &second {
                Some(store) => Arc::clone(store),
                None => Arc::clone(second.insert(scene.second().await)),
            },
        };
        let step = async {
            pair.hint = *hint;
            pair.apply(op).await?;
            pair.compare(op, &mut seen, turn).await
        };
        step.await.map_err(|why| format!("at operation {}: {why}", turn + 1))?;
    }
    drop(second);
    pair.compare_all().await.map_err(|why| format!("at the end: {why}"))?;
    let book = std::mem::take(&mut pair.book);
    let known = std::mem::take(&mut pair.known);
    let revisions = std::mem::take(&mut pair.revisions);
    drop(pair);
    scene.reopen().await;
    let mut pair = Pair::new(scene.store().clone(), scene.clock.clone());
    (pair.book, pair.known, pair.revisions) = (book, known, revisions);
    pair.compare_all().await.map_err(|why| format!("after a restart: {why}"))?;
    let breaches = scene.store().audit().await.map_err(|error| format!("audit: {error}"))?;
    if breaches.is_empty() { Ok(()) } else { Err(format!("the store contradicts itself: {breaches:?}")) }
}

/// Each sequence begins at the same time of day, so that it does the same
/// again when it is shrunk: windows and cron lines look at the clock.
fn to_midnight<S: Subject>(scene: &Scene<S>) {
    const DAY_MS: u64 = 86_400_000;
    let today = scene.clock.wall().ms() as u64 % DAY_MS;
    scene.clock.advance(DAY_MS - today);
}

/// Other sequences in each run: what one run does not meet, another may.
fn draw() -> u32 {
    RandomState::new().build_hasher().finish() as u32
}

fn number(name: &str) -> Option<u32> {
    let text = std::env::var(name).ok()?;
    match text.parse() {
        Ok(number) => Some(number),
        Err(_) => panic!("{name} is {text:?}, which is not a number"),
    }
}
