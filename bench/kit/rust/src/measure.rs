//! The measures, the same for every contestant.

use std::io::{BufRead, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::json;

use crate::{Ask, Fault, Peer, Work, now_ms, seen};

/// A worker that ran nothing for so long has nothing more to do.
const IDLE_MS: f64 = 2_000.0;
/// Waited after the last job, so that one that is run twice is seen.
const LINGER: Duration = Duration::from_millis(500);
/// Jobs that open connections and fill caches, when pickup is measured.
const WARM_MS: f64 = 500.0;

pub async fn measure<P: Peer>(ask: &Ask) -> Result<(), Fault> {
    let peer = P::connect(ask).await?;
    say("ready")?;
    if ask.measure == "setup" {
        return Ok(());
    }
    heard()?;
    let found = match ask.measure.as_str() {
        "enqueue_one" => enqueue_one(peer, ask).await?,
        "enqueue_batch" => enqueue_batch(peer, ask).await?,
        "drain" => drain(&peer, ask).await?,
        "latency" => pickup(peer, ask, 1).await?,
        "steady" => pickup(peer, ask, 20).await?,
        other => return Err(format!("there is no measure {other:?}").into()),
    };
    say(&found.to_string())?;
    // The driver reads this process's CPU time and memory, then closes stdin.
    heard()
}

fn say(line: &str) -> Result<(), Fault> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}

fn heard() -> Result<(), Fault> {
    std::io::stdin().lock().read_line(&mut String::new())?;
    Ok(())
}

fn deadline_ms(ask: &Ask, start_ms: f64) -> f64 {
    start_ms + ask.number("seconds", 3_600) as f64 * 1e3
}

async fn enqueue_one<P: Peer>(peer: P, ask: &Ask) -> Result<serde_json::Value, Fault> {
    let (peer, jobs) = (Arc::new(peer), ask.number("jobs", 1_000));
    let taken = Arc::new(AtomicU64::new(0));
    let start_ms = now_ms();
    let deadline = deadline_ms(ask, start_ms);
    let producers = (0..ask.number("producers", 16)).map(|_| {
        let (peer, taken) = (peer.clone(), taken.clone());
        tokio::spawn(async move {
            let mut done = 0;
            while now_ms() < deadline && taken.fetch_add(1, Ordering::Relaxed) < jobs {
                peer.enqueue(Work::now()).await?;
                done += 1;
            }
            Ok::<u64, Fault>(done)
        })
    });
    let mut done = 0;
    for producer in producers.collect::<Vec<_>>() {
        done += producer.await??;
    }
    Ok(json!({"jobs": done, "start_ms": start_ms, "end_ms": now_ms()}))
}

/// Batches one after the other; by contestants that say so `at_once` of them, each by a producer of its own.
async fn enqueue_batch<P: Peer>(peer: P, ask: &Ask) -> Result<serde_json::Value, Fault> {
    let (jobs, batch) = (ask.number("jobs", 1_000), ask.number("batch", 1_000));
    let (peer, taken) = (Arc::new(peer), Arc::new(AtomicU64::new(0)));
    let start_ms = now_ms();
    let deadline = deadline_ms(ask, start_ms);
    let producers = (0..ask.number("at_once", 1)).map(|_| {
        let (peer, taken) = (peer.clone(), taken.clone());
        tokio::spawn(async move {
            let mut done = 0;
            while now_ms() < deadline {
                let count = batch.min(jobs.saturating_sub(taken.fetch_add(batch, Ordering::Relaxed)));
                if count == 0 {
                    break;
                }
                peer.enqueue_many((0..count).map(|_| Work::now()).collect()).await?;
                done += count;
            }
            Ok::<u64, Fault>(done)
        })
    });
    let mut done = 0;
    for producer in producers.collect::<Vec<_>>() {
        done += producer.await??;
    }
    Ok(json!({"jobs": done, "start_ms": start_ms, "end_ms": now_ms()}))
}

async fn drain<P: Peer>(peer: &P, ask: &Ask) -> Result<serde_json::Value, Fault> {
    let jobs = ask.number("jobs", 1_000);
    let start_ms = now_ms();
    let deadline = deadline_ms(ask, start_ms);
    peer.work().await?;
    while seen::runs() < jobs && now_ms() < deadline {
        tokio::time::sleep(Duration::from_millis(2)).await;
        if seen::runs() > 0 && now_ms() - seen::last_ms() > IDLE_MS {
            break;
        }
    }
    let (jobs, end_ms) = (seen::runs(), seen::last_ms());
    // The driver looks when the last of them is settled.
    say("drained")?;
    tokio::time::sleep(LINGER).await;
    Ok(json!({"jobs": jobs, "runs": seen::runs(), "start_ms": start_ms, "end_ms": end_ms}))
}

/// Jobs at a fixed rhythm, `at_once` of them per beat, and how long each waited.
async fn pickup<P: Peer>(peer: P, ask: &Ask, at_once: u64) -> Result<serde_json::Value, Fault> {
    let (peer, every_ms) = (Arc::new(peer), ask.number("every_ms", 20));
    seen::keep_pickups();
    peer.work().await?;
    let mut beat = tokio::time::interval(Duration::from_millis(every_ms));
    let start_ms = now_ms();
    let deadline = deadline_ms(ask, start_ms) + WARM_MS;
    let mut sent = 0;
    let mut sending = tokio::task::JoinSet::new();
    while now_ms() < deadline {
        beat.tick().await;
        let peer = peer.clone();
        sending.spawn(async move {
            let mut work: Vec<Work> = (0..at_once).map(|_| Work::now()).collect();
            match work.pop() {
                Some(one) if work.is_empty() => peer.enqueue(one).await,
                Some(last) => peer.enqueue_many([work, vec![last]].concat()).await,
                None => Ok(()),
            }
        });
        sent += at_once;
        while let Some(done) = sending.try_join_next() {
            done??;
        }
    }
    while let Some(done) = sending.join_next().await {
        done??;
    }
    let end_ms = now_ms();
    while seen::runs() < sent && now_ms() - end_ms < IDLE_MS {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    Ok(json!({"jobs": sent, "runs": seen::runs(), "start_ms": start_ms, "end_ms": end_ms,
              "pickups_ms": seen::pickups_ms(start_ms + WARM_MS)}))
}
