//! Lanes that are behind: read for by a stream of their own until they are where the shared one is.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::{JoinError, JoinSet};
use windlass_app::AppError;

use super::desk::Desk;
use super::gap;
use super::shared::Wish;
use super::tail::{Chunk, Opening, Tail};
use crate::context::Context;
use crate::lane::{Following, Lane};
use crate::lease;
use crate::token::Token;

/// Lanes that come within this time are caught up together.
const GATHER_MS: u64 = 30;
/// Lanes of one stream.
const LANES_MAX: usize = 1_000;
/// How far behind the shared stream a lane may be for it to wait.
const NEAR_SECONDS: u32 = 2;
const PAUSE_MS: u64 = 500;

/// Catches up whatever comes, until it is time to end.
pub(crate) async fn run(
    context: Arc<Context>,
    mut behind: mpsc::UnboundedReceiver<Lane>,
    wishes: mpsc::Sender<Wish>,
) -> Result<(), AppError> {
    let seats = Arc::new(Semaphore::new(context.work.catch_ups_max));
    let mut streams = JoinSet::new();
    loop {
        let first = tokio::select! {
            () = context.stop.wait() => break,
            Some(ended) = streams.join_next() => {
                note(&context, ended);
                continue;
            }
            lane = behind.recv() => lane,
        };
        let Some(first) = first else { break };
        // Lanes that are far apart are no company: the nearer would wait for the other.
        context.home.world.sleep_ms(GATHER_MS).await;
        let mut lanes = vec![first];
        while lanes.len() < LANES_MAX
            && let Ok(lane) = behind.try_recv()
        {
            lanes.push(lane);
        }
        let Ok(seat) = seats.clone().acquire_owned().await else { break };
        let (context, wishes) = (context.clone(), wishes.clone());
        streams.spawn(async move {
            let lanes = catch_up(&context, lanes, &wishes).await;
            for lane in lanes {
                lane.handle.gone.store(true, Ordering::Relaxed);
            }
            drop(seat);
        });
    }
    while let Some(ended) = streams.join_next().await {
        note(&context, ended);
    }
    Ok(())
}

/// A stream that has panicked has let its lanes go: they are released, and taken anew by whoever comes first.
fn note(context: &Context, ended: Result<(), JoinError>) {
    if let Err(why) = ended {
        tracing::error!(panicked = why.is_panic(), "Catching up has failed; its listeners are let go");
        context.claim_now.notify_one();
    }
}

/// Reads until the lanes have joined the shared stream. Answers those that are let go.
async fn catch_up(context: &Arc<Context>, lanes: Vec<Lane>, wishes: &mpsc::Sender<Wish>) -> Vec<Lane> {
    let Some(start) = lanes.iter().map(|lane| lane.token.clone()).min() else { return lanes };
    let mut desk = Desk::new(context.clone(), lanes, start, false);
    desk.following(Following::CatchingUp);
    let mut tail = open(&desk);
    loop {
        let chunk = tokio::select! {
            biased;
            () = context.stop.wait() => break,
            chunk = tail.next() => chunk,
        };
        match chunk {
            Some(Chunk::Events { events, token }) => {
                if !desk.take(events, token).await {
                    break;
                }
                if std::mem::take(&mut desk.replan) {
                    tail = open(&desk);
                    continue;
                }
            }
            Some(Chunk::Lost { .. }) if desk.lanes.len() > 1 => {
                // Each by itself: history may be gone for one of them only.
                for lane in desk.lanes.drain(..) {
                    let lanes = Box::pin(catch_up_alone(context, lane, wishes)).await;
                    for lane in lanes {
                        lane.handle.gone.store(true, Ordering::Relaxed);
                    }
                }
                return Vec::new();
            }
            Some(Chunk::Lost { code }) => {
                if !gaps(context, &mut desk, code).await {
                    break;
                }
                tail = open(&desk);
                continue;
            }
            Some(Chunk::Skipped { .. }) => {
                if !gaps(context, &mut desk, 10334).await {
                    break;
                }
            }
            None => {
                if !context.pause(PAUSE_MS).await {
                    break;
                }
                tail = open(&desk);
            }
        }
        if desk.lanes.is_empty() {
            return Vec::new();
        }
        if is_near(context, &desk.token) {
            match join(context, &mut desk, &mut tail, wishes).await {
                true => return Vec::new(),
                false if context.stop.is_asked() => break,
                false => {}
            }
        }
    }
    desk.store_positions().await;
    desk.lanes
}

async fn catch_up_alone(context: &Arc<Context>, lane: Lane, wishes: &mpsc::Sender<Wish>) -> Vec<Lane> {
    catch_up(context, vec![lane], wishes).await
}

fn open(desk: &Desk) -> Tail {
    let (home, plan) = (&desk.context.home, desk.plan());
    let opening = Opening {
        pipeline: plan.pipeline(&home.database, &home.own_names()),
        start: desk.token.clone(),
        images_before: plan.images_before,
        is_open: Arc::new(AtomicBool::new(false)),
    };
    Tail::start(home, opening)
}

async fn gaps(context: &Arc<Context>, desk: &mut Desk, code: i32) -> bool {
    for lane in &mut desk.lanes {
        while let Err(error) = gap::record(context, lane, code).await {
            tracing::warn!(error = %error.kind, "A gap cannot be recorded now, and will be");
            if !context.pause(PAUSE_MS).await {
                return false;
            }
        }
        desk.token = desk.token.clone().max(lane.token.clone());
    }
    true
}

fn is_near(context: &Context, token: &Token) -> bool {
    let shared = context.shared.borrow().clone();
    shared.is_some_and(|shared| token.cluster_time().time + NEAR_SECONDS >= shared.cluster_time().time)
}

/// Asks the shared stream to stand still, reads as far as it is, and hands the lanes over. False when that did not
/// come about; then they are read for here as before.
async fn join(context: &Arc<Context>, desk: &mut Desk, tail: &mut Tail, wishes: &mpsc::Sender<Wish>) -> bool {
    let (at, there) = oneshot::channel();
    let (hand_over, joining) = oneshot::channel();
    let (back, rest) = oneshot::channel();
    if wishes.send(Wish::Hold { at, joining, back }).await.is_err() {
        return false;
    }
    let Ok(there) = there.await else { return false };
    // A write, so that there is something behind that position: a stream of a server at rest does not move.
    let _ =
        lease::register(&context.home, &context.instance, context.registry.len(), std::process::id()).await;
    while desk.token < there {
        let chunk = tokio::select! {
            () = context.stop.wait() => return false,
            chunk = tail.next() => chunk,
        };
        let Some(Chunk::Events { events, token }) = chunk else { return false };
        if !desk.take(events, token).await || std::mem::take(&mut desk.replan) {
            // What the lanes want has changed on the way; another time.
            *tail = open(desk);
            return false;
        }
    }
    let lanes = std::mem::take(&mut desk.lanes);
    if let Err(lanes) = hand_over.send(lanes) {
        desk.lanes = lanes;
        return false;
    }
    match rest.await {
        Ok(rest) => desk.lanes = rest,
        // The shared stream has ended, and the lanes with it.
        Err(_) => return true,
    }
    desk.lanes.is_empty()
}
