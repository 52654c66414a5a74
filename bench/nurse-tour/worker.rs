//! The worker as a process: how fast, how large.

use std::process::Child;

use anyhow::Context;

use crate::cpu::{self, Cpu};
use crate::place::Place;

const MB: usize = 1024 * 1024;

pub async fn throughput(messages: i64, concurrency: i64) -> anyhow::Result<()> {
    let place = Place::new().await?;
    place.messages(messages).await?;
    let before = Cpu::of_servers(&place.client).await?;
    let mut worker = place.worker(concurrency)?;
    let seconds = place.done(messages).await?;
    let (peak, used) = (peak_mib(&worker)?, Cpu::of_servers(&place.client).await? - before);
    let by_worker = cpu::of_process(worker.id())?;
    worker.kill()?;
    worker.wait()?;
    let stages = "SELECT string_agg(concat(to_stage, ' ', avg, ' ms'), ', ') FROM (SELECT to_stage, round(avg(duration_ms), 1) AS avg \
                  FROM nurse_tour_audit WHERE outcome = 'stage' GROUP BY 1 ORDER BY min(seq)) s";
    let stages: String = place.client.query_one(stages, &[]).await?.get(0);
    println!("on average: {stages}");
    println!(
        "{messages} messages in {seconds:.1} s: {:.0} messages/s, concurrency {concurrency}, peak {peak:.0} MiB",
        messages as f64 / seconds
    );
    let of = |cpu_s: f64| {
        format!("{:.2} ms ({:.0} % of the time)", cpu_s * 1e3 / messages as f64, cpu_s * 100.0 / seconds)
    };
    println!(
        "CPU for a message: worker {}, Postgres {}, stand-ins {}",
        of(by_worker),
        of(used.postgres_s),
        of(used.stand_ins_s)
    );
    Ok(())
}

pub async fn memory(messages: i64) -> anyhow::Result<()> {
    let place = Place::with_archive(std::env::temp_dir()).await?;
    // A little less than the limit: with its frame a note must fit, too.
    let note = [b"OggS".as_slice(), &vec![7; 16 * MB - 1024]].concat();
    let note = bytes::Bytes::from(note);
    for n in 1..=messages {
        place.twilio.put(&format!("MESM{n}"), "audio/ogg; codecs=opus", note.clone());
    }
    place.messages(messages).await?;
    let mut worker = place.worker(messages)?;
    let seconds = place.done(messages).await?;
    let peak = peak_mib(&worker)?;
    worker.kill()?;
    worker.wait()?;
    println!("{messages} notes of 16 MB at once in {seconds:.1} s: peak {peak:.0} MiB");
    Ok(())
}

/// The most memory that a process ever had, in MiB.
fn peak_mib(child: &Child) -> anyhow::Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id()))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM")?;
    Ok(line.trim().trim_end_matches(" kB").trim().parse::<f64>()? / 1024.0)
}
