//! The settler: groups the ends of attempts into few commits. While one commit
//! is under way the next ones gather; nobody waits for company.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::mpsc;
use windlass_core::error::StoreError;
use windlass_core::store::{Settlement, Written};

use super::{Backoff, Engine, Phase, WorkerEvent};
use crate::admission::Unsettled;

/// How many settlements go into one commit.
const COMMIT_MAX: usize = 2_000;
/// How often an end that is refused is written otherwise before it is let go.
const REFUSALS_MAX: u32 = 8;
/// How often ends are written again that are held.
const HELD_MS: u64 = 1_000;

pub(super) async fn run(engine: Arc<Engine>, mut ended: mpsc::UnboundedReceiver<Settlement>) {
    let mut batch = Vec::new();
    let (mut held, mut again_ms) = (Vec::new(), 0);
    loop {
        let wait_ms = u64::saturating_sub(again_ms, engine.world.boot_ms());
        tokio::select! {
            biased;
            () = engine.world.sleep_ms(wait_ms), if !held.is_empty() => {
                held = settle(&engine, std::mem::take(&mut held)).await;
                again_ms = engine.world.boot_ms() + HELD_MS;
            }
            count = ended.recv_many(&mut batch, COMMIT_MAX) => {
                if count == 0 {
                    return;
                }
                let refused = settle(&engine, std::mem::take(&mut batch)).await;
                if held.is_empty() {
                    again_ms = engine.world.boot_ms() + HELD_MS;
                }
                held.extend(refused);
            }
            () = engine.until(has_ended) => return,
        }
    }
}

fn has_ended(phase: &Phase) -> bool {
    matches!(phase, Phase::Ended | Phase::Failed(_))
}

/// Settles a batch, however long the store takes to be back: the lease keeper
/// holds on to the leases meanwhile, and what is lost is answered as lost. One that the store
/// cannot take costs no other: a batch that is refused for what is in it is halved until that one is alone.
/// Answers those that are to be written again later.
async fn settle(engine: &Engine, batch: Vec<Settlement>) -> Vec<Settlement> {
    let (mut batches, mut held) = (vec![batch], Vec::new());
    while let Some(mut batch) = batches.pop() {
        let Err(error) = settle_together(engine, &batch).await else { continue };
        if has_ended(&engine.phase.borrow()) {
            batch.iter().for_each(|one| let_go(engine, one));
        } else if batch.len() > 1 {
            batches.push(batch.split_off(batch.len() / 2));
            batches.push(batch);
        } else if let Some(one) = batch.pop() {
            held.extend(settle_otherwise(engine, one, error).await);
        }
    }
    held
}

/// Settles these in one commit; an error when they cannot be.
async fn settle_together(engine: &Engine, batch: &[Settlement]) -> Result<(), StoreError> {
    let mut trouble = Backoff::new(20, 2_000);
    loop {
        match engine.source.settle(batch.to_vec()).await {
            Ok(answers) => {
                for (settlement, written) in batch.iter().zip(answers) {
                    if let Some(admission) = &engine.admission {
                        admission.settled(settlement, written).await;
                    }
                    count(engine, settlement, written);
                }
                engine.news.settled.notify_one();
                return Ok(());
            }
            Err(error) => {
                engine.mind(&error, "settle");
                if !error.is_transient() {
                    return Err(error);
                }
            }
        }
        engine.world.sleep_ms(trouble.next_ms(&*engine.world)).await;
    }
}

/// Ends otherwise what the store refuses, as whoever decides over admission says. Answers it when it is to be written again later.
async fn settle_otherwise(engine: &Engine, refused: Settlement, mut error: StoreError) -> Option<Settlement> {
    let mut tried = refused.clone();
    for refusals in 1..=REFUSALS_MAX {
        let Some(admission) = &engine.admission else { break };
        match admission.unsettled(&tried, refusals, &error).await {
            Unsettled::Instead(outcome) => tried.outcome = outcome,
            Unsettled::Hold => return Some(refused),
            Unsettled::LetGo => break,
        }
        match settle_together(engine, std::slice::from_ref(&tried)).await {
            Ok(()) => return None,
            Err(again) => error = again,
        }
    }
    let_go(engine, &refused);
    None
}

/// What cannot be settled is held no longer: its lease runs out, which counts as a crash.
fn let_go(engine: &Engine, settlement: &Settlement) {
    engine.let_go(settlement.lease.job_id, settlement.lease.fence);
    engine.news.settled.notify_one();
}

fn count(engine: &Engine, settlement: &Settlement, written: Written) {
    let lease = settlement.lease;
    if written == Written::Done {
        engine.counts.settled.fetch_add(1, Ordering::Relaxed);
    } else {
        tracing::warn!(job_id = %lease.job_id, fence = lease.fence, "the lease was lost before the attempt was settled; its result is dropped");
        engine.counts.lost.fetch_add(1, Ordering::Relaxed);
        engine.tell(&WorkerEvent::Lost { job_id: lease.job_id, fence: lease.fence });
    }
    engine.let_go(lease.job_id, lease.fence);
}
