//! What of the database's set-up may lose something, or slows it down.

use tokio_postgres::Row;
use windlass_core::store::Risk;

use crate::error::Fault;
use crate::store::PostgresStore;

/// A standby that is this far behind is told.
const BEHIND_BYTES: i64 = 64 * 1024 * 1024;
const BEHIND_MS: i64 = 10_000;
/// A transaction that is open for this long holds the horizon: what is deleted stays in the way.
const OPEN_MS: i64 = 300_000;
/// A slot that nobody reads may hold this much of the log.
const SLOT_BYTES: i64 = 1024 * 1024 * 1024;
/// This share of all connections in use is told, in percent.
const CONNECTIONS_SHARE: i64 = 90;

impl PostgresStore {
    pub(crate) async fn risks_once(&self) -> Result<Vec<Risk>, Fault> {
        let link = self.link().await?;
        let mut risks = read(&link.row(include_str!("../sql/risks.sql"), &[]).await?)?;
        if self.is_pooled() {
            risks.push(Risk::new(
                "a transaction pooler stands between this program and Postgres: new work on other machines is found by \
                 asking, about twice a second for each idle process",
                "where that costs too much, give workers a URL that leads to Postgres itself, or a pooler in session mode",
            ));
        }
        Ok(risks)
    }
}

fn read(row: &Row) -> Result<Vec<Risk>, Fault> {
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
    replication(row, &mut risks)?;
    if let Some(ms) = number(6)?.filter(|ms| *ms > OPEN_MS) {
        risks.push(Risk::new(
            format!("a transaction is open for {} s: rows that claims have deleted cannot be cleared away", ms / 1_000),
            "end it: SELECT pid, query FROM pg_stat_activity WHERE backend_xmin IS NOT NULL ORDER BY xact_start; and set \
             idle_in_transaction_session_timeout",
        ));
    }
    if let Some(ms) = number(7)?.filter(|ms| *ms > OPEN_MS) {
        risks.push(Risk::new(
            format!("a prepared transaction is {} s old: it holds its locks, and the horizon", ms / 1_000),
            "COMMIT PREPARED or ROLLBACK PREPARED it: SELECT gid FROM pg_prepared_xacts",
        ));
    }
    if let Some(bytes) = number(8)?.filter(|bytes| *bytes > SLOT_BYTES) {
        risks.push(Risk::new(
            format!(
                "a replication slot that nobody reads holds {} MB of the log: the disk fills up",
                bytes >> 20
            ),
            "SELECT pg_drop_replication_slot(slot_name) for it, or let its reader come back",
        ));
    }
    if let (Some(max), Some(used)) = (number(9)?, number(10)?)
        && used * 100 > max * CONNECTIONS_SHARE
    {
        risks.push(Risk::new(
            format!("{used} of {max} connections are in use: the next program may not get one"),
            "raise max_connections, or put a pooler in between",
        ));
    }
    risks.extend(row.try_get::<_, Option<&str>>(11)?.and_then(little_room));
    Ok(risks)
}

/// Of a server on this machine: that its disk has little room left. Of another one nothing is known here.
fn little_room(folder: &str) -> Option<Risk> {
    let disk = rustix::fs::statvfs(folder).ok()?;
    let all = disk.f_blocks * disk.f_frsize;
    Risk::of_disk(&format!("Postgres ({folder})"), disk.f_bavail * disk.f_frsize, all)
}

fn replication(row: &Row, risks: &mut Vec<Risk>) -> Result<(), Fault> {
    let standbys: i64 = row.try_get(2)?;
    if standbys > 0 && !row.try_get::<_, bool>(3)? {
        risks.push(Risk::new(
            "the standby is replicated asynchronously: a failover loses the newest commits, acknowledged jobs among them",
            "set synchronous_standby_names where nothing may be lost, and say replication=synchronous in the URL, so that \
             nothing waits after a failover",
        ));
    }
    let behind_bytes = row.try_get::<_, Option<i64>>(4)?.filter(|bytes| *bytes > BEHIND_BYTES);
    let behind_ms = row.try_get::<_, Option<i64>>(5)?.filter(|ms| *ms > BEHIND_MS);
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
