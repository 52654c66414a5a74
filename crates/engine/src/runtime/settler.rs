//! The settler: groups the ends of attempts into few commits. While one commit
//! is under way the next ones gather; nobody waits for company.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::mpsc;
use windlass_core::store::{Settlement, Written};

use super::{Backoff, Engine, Phase, WorkerEvent};

/// How many settlements go into one commit.
const COMMIT_MAX: usize = 2_000;

pub(super) async fn run(engine: Arc<Engine>, mut ended: mpsc::UnboundedReceiver<Settlement>) {
    let mut batch = Vec::new();
    loop {
        tokio::select! {
            biased;
            count = ended.recv_many(&mut batch, COMMIT_MAX) => {
                if count == 0 {
                    return;
                }
                settle(&engine, std::mem::take(&mut batch)).await;
            }
            () = engine.until(|phase| matches!(phase, Phase::Ended | Phase::Failed(_))) => return,
        }
    }
}

/// Settles a batch, however long the store takes to be back: the lease keeper
/// holds on to the leases meanwhile, and what is lost is answered as lost. One that the store
/// cannot take costs no other: a batch that is refused for what is in it is halved until that one is alone.
async fn settle(engine: &Engine, batch: Vec<Settlement>) {
    let mut batches = vec![batch];
    while let Some(mut batch) = batches.pop() {
        if settle_together(engine, &batch).await {
            continue;
        }
        batches.push(batch.split_off(batch.len() / 2));
        batches.push(batch);
    }
}

/// Settles these in one commit; false when one of several may be what the store cannot take.
async fn settle_together(engine: &Engine, batch: &[Settlement]) -> bool {
    let mut trouble = Backoff::new(20, 2_000);
    loop {
        match engine.source.settle(batch.to_vec()).await {
            Ok(answers) => {
                for (settlement, written) in batch.iter().zip(answers) {
                    count(engine, settlement, written);
                }
                engine.news.settled.notify_one();
                return true;
            }
            Err(error) => {
                engine.mind(&error, "settle");
                if error.is_of_one_call() && batch.len() > 1 {
                    return false;
                }
                if !error.is_transient() {
                    // What cannot be settled is held no longer: its lease runs out, which counts as a crash.
                    batch.iter().for_each(|one| engine.let_go(one.lease.job_id, one.lease.fence));
                    return true;
                }
            }
        }
        engine.world.sleep_ms(trouble.next_ms(&*engine.world)).await;
    }
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
