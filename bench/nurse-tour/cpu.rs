//! Who used the processor: on a machine that all share, that says more than the time.

use std::ops::Sub;

use anyhow::Context;
use tokio_postgres::Client;

/// What a second has of the ticks that Linux counts in.
const TICKS: f64 = 100.0;

/// The seconds that the servers beside the worker have used so far.
pub struct Cpu {
    pub postgres_s: f64,
    /// This process: the stand-ins, and the little that measuring takes.
    pub stand_ins_s: f64,
}

impl Cpu {
    pub async fn of_servers(client: &Client) -> anyhow::Result<Self> {
        let backend: i32 = client.query_one("SELECT pg_backend_pid()", &[]).await?.get(0);
        let server = Process::read(u32::try_from(backend)?)?.parent;
        let mut postgres_s = 0.0;
        for entry in std::fs::read_dir("/proc")? {
            let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            // One that has ended meanwhile is counted by its parent.
            let Ok(process) = Process::read(pid) else { continue };
            postgres_s += if pid == server { process.with_children_s } else { 0.0 };
            postgres_s += if process.parent == server { process.own_s } else { 0.0 };
        }
        Ok(Self { postgres_s, stand_ins_s: of_process(std::process::id())? })
    }
}

impl Sub for Cpu {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            postgres_s: self.postgres_s - before.postgres_s,
            stand_ins_s: self.stand_ins_s - before.stand_ins_s,
        }
    }
}

/// The seconds that a process has used so far.
pub fn of_process(pid: u32) -> anyhow::Result<f64> {
    Ok(Process::read(pid)?.own_s)
}

struct Process {
    parent: u32,
    own_s: f64,
    /// With those of its children that have ended.
    with_children_s: f64,
}

impl Process {
    fn read(pid: u32) -> anyhow::Result<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
        // The name may hold anything, but ends with the last parenthesis.
        let rest = stat.rsplit_once(')').context("no name")?.1;
        let fields: Vec<u64> =
            rest.split_whitespace().skip(1).map(|field| field.parse().unwrap_or(0)).collect();
        let ticks = |range: std::ops::Range<usize>| {
            fields.get(range).map_or(0.0, |part| part.iter().sum::<u64>() as f64)
        };
        Ok(Self {
            parent: u32::try_from(*fields.first().context("no parent")?)?,
            own_s: ticks(10..12) / TICKS,
            with_children_s: ticks(10..14) / TICKS,
        })
    }
}
