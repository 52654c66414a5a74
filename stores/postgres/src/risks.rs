//! What of the database's set-up may lose something, or slows it down.

use std::time::Duration;

use tokio_postgres::Row;
use windlass_core::error::StoreError;
use windlass_core::store::Risk;

use crate::error::Fault;
use crate::store::{PostgresStore, call};

/// From where on something is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How far a standby may be behind.
    pub behind_bytes: i64,
    /// The same by time.
    pub behind_ms: i64,
    /// How long a transaction may be open. It holds the horizon: what is deleted stays in the way.
    pub open_ms: i64,
    /// How much of the log a slot may hold that nobody reads.
    pub slot_bytes: i64,
    /// Which share of all connections may be in use, in percent.
    pub connections_percent: i64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            behind_bytes: 64 << 20,
            behind_ms: 10_000,
            open_ms: 300_000,
            slot_bytes: 1 << 30,
            connections_percent: 90,
        }
    }
}

/// A connection that listens is connected again within this as a rule, and a program that starts has one by then.
const SILENT_MAX: Duration = Duration::from_secs(2);

impl PostgresStore {
    /// What of the set-up may lose something, told from these limits on.
    pub async fn risks_from(&self, limits: Limits) -> Result<Vec<Risk>, StoreError> {
        call!(self, self.risks_once(limits))
    }

    async fn risks_once(&self, limits: Limits) -> Result<Vec<Risk>, Fault> {
        let link = self.link().await?;
        let row = link.row(sql!("server", "risks"), &[]).await?;
        let mut risks = read(&row, limits)?;
        drop(link);
        risks
            .extend(self.connections().plainly("SHOW synchronous_commit").await.and_then(|said| lazy(&said)));
        if self.is_pooled() {
            risks.push(Risk::new(
                "a transaction pooler stands between this program and Postgres: whether there is new work on other machines is \
                 read about once a second by each idle process",
                "where that costs too much, give workers a URL that leads to Postgres itself, or a pooler in session mode",
            ));
        } else if let Some(silent) = self.silent_for().filter(|silent| *silent > SILENT_MAX) {
            risks.push(Risk::new(
                format!(
                    "the connection that listens for new work is lost since {} s: until there is one again, work is found by \
                     asking, every second",
                    silent.as_secs()
                ),
                "see in the log of this program why it cannot connect: max_connections, pg_hba.conf, a pooler that is not \
                 recognised (say pooler=transaction in the URL)",
            ));
        }
        Ok(risks)
    }
}

/// Of a server whose sessions do not wait for the disk.
fn lazy(synchronous_commit: &str) -> Option<Risk> {
    (synchronous_commit == "off").then(|| {
        Risk::new(
            "synchronous_commit is off here: Windlass commits with on, your own tables do not, so that a crash of the server \
             may lose what you wrote and keep the jobs that you enqueued after it",
            "set synchronous_commit = on, or in the transactions that must not be lost: SET LOCAL synchronous_commit = on",
        )
    })
}

fn read(row: &Row, limits: Limits) -> Result<Vec<Risk>, Fault> {
    let mut risks = Vec::new();
    let number = |at: usize| row.try_get::<_, Option<i64>>(at);
    if row.try_get(0)? {
        risks.push(Risk::new(
            "fsync is off: when the machine loses power, jobs that were acknowledged are lost, and perhaps the database",
            "set fsync = on and restart Postgres",
        ));
    }
    if row.try_get(1)? {
        risks.push(Risk::new(
            "full_page_writes is off: a page that is half written when the machine loses power is lost",
            "set full_page_writes = on, unless the file system writes pages whole",
        ));
    }
    replication(row, limits, &mut risks)?;
    if let Some(ms) = number(6)?.filter(|ms| *ms > limits.open_ms) {
        risks.push(Risk::new(
            format!("a transaction is open for {} s: rows that claims have deleted cannot be cleared away", ms / 1_000),
            "end it: SELECT pid, query FROM pg_stat_activity WHERE backend_xmin IS NOT NULL ORDER BY xact_start; and set \
             idle_in_transaction_session_timeout",
        ));
    }
    if let Some(ms) = number(7)?.filter(|ms| *ms > limits.open_ms) {
        risks.push(Risk::new(
            format!("a prepared transaction is {} s old: it holds its locks, and the horizon", ms / 1_000),
            "COMMIT PREPARED or ROLLBACK PREPARED it: SELECT gid FROM pg_prepared_xacts",
        ));
    }
    if let Some(bytes) = number(8)?.filter(|bytes| *bytes > limits.slot_bytes) {
        risks.push(Risk::new(
            format!(
                "a replication slot that nobody reads holds {} MB of the log: the disk fills up",
                bytes >> 20
            ),
            "SELECT pg_drop_replication_slot(slot_name) for it, or let its reader come back",
        ));
    }
    if let (Some(max), Some(used)) = (number(9)?, number(10)?)
        && used * 100 > max * limits.connections_percent
    {
        risks.push(Risk::new(
            format!("{used} of {max} connections are in use: the next program may not get one"),
            "raise max_connections, or put a pooler in between",
        ));
    }
    risks.extend(row.try_get::<_, Option<&str>>(11)?.and_then(little_room));
    Ok(risks)
}

/// It was said that a promotion loses nothing, and the server does not look like it.
fn unfounded(standbys: i64) -> Risk {
    let who =
        if standbys == 0 { "no standby follows this server" } else { "its commits wait for no standby" };
    Risk::new(
        format!(
            "the URL said replication=synchronous, and {who}: is its storage mirrored or shared (RDS Multi-AZ, Aurora, Neon)? If \
             not, a failover loses commits, and jobs that somebody holds by a lost one are given out again without a pause"
        ),
        "where the storage is not shared, set synchronous_standby_names, or say replication=asynchronous in the URL",
    )
}

/// Of a server on this machine: that its disk has little room left. Of another one nothing is known here.
fn little_room(folder: &str) -> Option<Risk> {
    let disk = rustix::fs::statvfs(folder).ok()?;
    let all = disk.f_blocks * disk.f_frsize;
    Risk::of_disk(&format!("Postgres ({folder})"), disk.f_bavail * disk.f_frsize, all)
}

fn replication(row: &Row, limits: Limits, risks: &mut Vec<Risk>) -> Result<(), Fault> {
    let (standbys, waits): (i64, bool) = (row.try_get(2)?, row.try_get(3)?);
    // Nothing where the role may not see which standby is waited for.
    let waited_for = row.try_get::<_, Option<bool>>(13)?;
    if row.try_get(12)? {
        if !waits || waited_for == Some(false) {
            risks.push(unfounded(standbys));
        }
    } else if standbys == 0 {
        risks.push(Risk::new(
            "no standby follows this server: what is lost with its disk is all that came after the newest backup",
            "set up a standby, or be sure of your backups. Where the provider mirrors the storage (RDS Multi-AZ, Aurora, Neon), \
             nothing is lost: say replication=synchronous in the URL",
        ));
    } else if !waits {
        risks.push(Risk::new(
            "the standby is replicated asynchronously: a failover loses the newest commits, acknowledged jobs among them",
            "set synchronous_standby_names where nothing may be lost, and say replication=synchronous in the URL, so that \
             nothing waits after a failover",
        ));
    }
    let behind_bytes = row.try_get::<_, Option<i64>>(4)?.filter(|bytes| *bytes > limits.behind_bytes);
    let behind_ms = row.try_get::<_, Option<i64>>(5)?.filter(|ms| *ms > limits.behind_ms);
    if let Some(behind) = behind_bytes
        .map(|bytes| format!("{} MB", bytes >> 20))
        .or(behind_ms.map(|ms| format!("{} s", ms / 1_000)))
    {
        risks.push(Risk::new(
            format!("a standby is {behind} behind"),
            "look at pg_stat_replication, at its disk and at the network",
        ));
    }
    Ok(())
}
