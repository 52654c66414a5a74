//! How things stand: counts, ages and times, never a message.

use deadpool_postgres::Pool;
use serde::Serialize;
use tokio_postgres::types::Type;

use crate::database::{self, DatabaseError};

/// How things stand.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Status {
    /// Voice messages by status and stage.
    pub queue: Vec<Depth>,
    /// How long the oldest message that could be worked now has waited, in seconds.
    pub oldest_waiting_s: Option<f64>,
    /// Messages that a worker holds.
    pub in_flight: i64,
    /// Messages whose worker has let its lock run out.
    pub expired: i64,
    /// Messages that failed or wait for a person, by the class and code of their reason.
    pub failed: Vec<Failed>,
    /// How long stages took in the last 24 hours.
    pub stages: Vec<Latency>,
    /// Providers that want to be left alone, and for how many seconds still.
    pub cooling: Vec<Cooling>,
    /// Workers that claim nothing because their operator has to act.
    pub stopped: Vec<Stopped>,
}

/// How many messages are where.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Depth {
    /// The status.
    pub status: String,
    /// The stage.
    pub stage: String,
    /// How many.
    pub count: i64,
}

/// How many messages ended for a reason.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Failed {
    /// FAILED or TRIAGE.
    pub status: String,
    /// Class and code: `permanent twilio.not_ours`.
    pub reason: String,
    /// How many.
    pub count: i64,
    /// One of them, to look at and to retry.
    pub example: String,
}

/// How long a stage takes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Latency {
    /// The stage.
    pub stage: String,
    /// How many there were.
    pub count: i64,
    /// Half of them took no longer.
    pub p50_ms: f64,
    /// Of a hundred, 95 took no longer.
    pub p95_ms: f64,
    /// None took longer.
    pub max_ms: i64,
}

/// A provider that wants to be left alone.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cooling {
    /// Which.
    pub provider: String,
    /// For how long still.
    pub for_s: f64,
    /// Why: class and code.
    pub why: String,
}

/// A worker that claims nothing because its operator has to act.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Stopped {
    /// Which worker.
    pub worker: String,
    /// On whose account.
    pub provider: String,
    /// Why: class and code.
    pub why: String,
    /// When it tries again, in seconds.
    pub again_s: f64,
}

impl Status {
    /// Looks. `finished` also counts what is done and tells the times of stages, which reads many rows.
    pub async fn read(pool: &Pool, finished: bool) -> Result<Self, DatabaseError> {
        let words: &[&str] = match finished {
            true => &[],
            false => &["READY", "RETRY", "PROCESSING", "FAILED", "TRIAGE"],
        };
        let params = [(&words as &(dyn tokio_postgres::types::ToSql + Sync), Type::TEXT_ARRAY)];
        let queue = database::rows(pool, include_str!("../sql/status_queue.sql"), &params).await?;
        let queue =
            queue.iter().map(|row| Depth { status: row.get(0), stage: row.get(1), count: row.get(2) });
        let now = database::row(pool, include_str!("../sql/status_now.sql"), &[]).await?;
        let failed = database::rows(pool, include_str!("../sql/status_failed.sql"), &[]).await?;
        let failed = failed.iter().map(|row| Failed {
            status: row.get(0),
            reason: row.get(1),
            count: row.get(2),
            example: row.get(3),
        });
        let stages = match finished {
            true => database::rows(pool, include_str!("../sql/status_stages.sql"), &[]).await?,
            false => Vec::new(),
        };
        let stages = stages.iter().map(|row| Latency {
            stage: row.get(0),
            count: row.get(1),
            p50_ms: row.get(2),
            p95_ms: row.get(3),
            max_ms: row.get(4),
        });
        let (mut cooling, mut stopped) = (Vec::new(), Vec::new());
        for row in database::rows(pool, include_str!("../sql/status_stops.sql"), &[]).await? {
            let (provider, why, for_s) = (row.get(1), row.get(2), row.get(3));
            match row.get::<_, Option<String>>(0) {
                None => cooling.push(Cooling { provider, for_s, why }),
                Some(worker) => stopped.push(Stopped { worker, provider, why, again_s: for_s }),
            }
        }
        Ok(Self {
            queue: queue.collect(),
            oldest_waiting_s: now.get(0),
            in_flight: now.get(1),
            expired: now.get(2),
            failed: failed.collect(),
            stages: stages.collect(),
            cooling,
            stopped,
        })
    }

    /// The status in the text form of Prometheus.
    pub(crate) fn write(&self, out: &mut String) {
        let Self { queue, oldest_waiting_s, in_flight, expired, failed, stages: _, cooling, stopped } = self;
        let mut line = |text: String| {
            out.push_str(&text);
            out.push('\n');
        };
        line("# TYPE nurse_tour_messages gauge".into());
        for Depth { status, stage, count } in queue {
            line(format!("nurse_tour_messages{{status={},stage={}}} {count}", label(status), label(stage)));
        }
        line("# TYPE nurse_tour_oldest_waiting_seconds gauge".into());
        line(format!("nurse_tour_oldest_waiting_seconds {}", oldest_waiting_s.unwrap_or(0.0)));
        line("# TYPE nurse_tour_in_flight gauge".into());
        line(format!("nurse_tour_in_flight {in_flight}"));
        line("# TYPE nurse_tour_expired_locks gauge".into());
        line(format!("nurse_tour_expired_locks {expired}"));
        line("# TYPE nurse_tour_failed gauge".into());
        for Failed { status, reason, count, example: _ } in failed {
            line(format!("nurse_tour_failed{{status={},reason={}}} {count}", label(status), label(reason)));
        }
        line("# TYPE nurse_tour_cooling_seconds gauge".into());
        for Cooling { provider, for_s, why: _ } in cooling {
            line(format!("nurse_tour_cooling_seconds{{provider={}}} {for_s}", label(provider)));
        }
        line("# TYPE nurse_tour_workers_stopped gauge".into());
        line(format!("nurse_tour_workers_stopped {}", stopped.len()));
    }
}

/// A value of a label: in quotes, on one line.
fn label(text: &str) -> String {
    let clean: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    format!("\"{}\"", clean.replace('\\', "\\\\").replace('"', "\\\""))
}
