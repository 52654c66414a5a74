//! Schedules. A run's job has an id that follows from the run, and the rows that are
//! due are locked while runs are fired, so that a run is one job over the whole fleet.
//! Those that are not due are neither read nor written.

use tokio_postgres::Row;
use tokio_postgres::types::Type;
use windlass_core::id::ScheduleName;
use windlass_core::job::NewJob;
use windlass_core::policy::schedule::{Schedule, SchedulePolicy};
use windlass_core::store::{Fired, FiredRun};
use windlass_core::time::Time;
use windlass_core::wake::Work;

use crate::enqueue::{Batch, insert};
use crate::error::Fault;
use crate::find::now;
use crate::link::Link;
use crate::store::PostgresStore;

impl PostgresStore {
    pub(crate) async fn schedules_once(&self) -> Result<Vec<Schedule>, Fault> {
        read_all(&self.link().await?, sql!("schedule", "all")).await
    }

    pub(crate) async fn put_schedule_once(
        &self,
        name: &ScheduleName,
        policy: &SchedulePolicy,
    ) -> Result<(), Fault> {
        let link = self.link().await?;
        link.begin().await?;
        let now = now(&link, self.given_now()).await?;
        let new = Schedule::new(name.clone(), policy.clone(), now);
        let params: [crate::link::Param<'_>; 3] =
            [(&name.as_str(), Type::TEXT), (&to_text(&new)?, Type::TEXT), (&next_ms(&new), Type::INT8)];
        // Locks the row that is there, so that a run fired meanwhile is not forgotten.
        let rows = link.rows(sql!("schedule", "add"), &params).await?;
        if rows.is_empty() {
            let one = link.rows(sql!("schedule", "load"), &params[..1]).await?;
            let Some(row) = one.first() else { return Err(Fault::Collided("the schedule vanished".into())) };
            let mut schedule = read_schedule(row)?;
            schedule.change(policy.clone(), now);
            save(&link, &schedule).await?;
        }
        link.commit().await?;
        // Whoever fires schedules looks at them.
        self.wake.work(Work::Anywhere);
        Ok(())
    }

    pub(crate) async fn delete_schedule_once(&self, name: &ScheduleName) -> Result<bool, Fault> {
        let params: [crate::link::Param<'_>; 1] = [(&name.as_str(), Type::TEXT)];
        let rows = self.link().await?.rows(sql!("schedule", "delete"), &params).await?;
        Ok(!rows.is_empty())
    }

    pub(crate) async fn fire_schedules_once(&self) -> Result<Fired, Fault> {
        let link = self.link().await?;
        let (moment, next) = next_due(&link, self.given_now()).await?;
        if next.is_none_or(|next| moment < next) {
            return Ok(Fired { runs: Vec::new(), next_in_ms: next.map(|at| at.ms_since(moment)) });
        }
        link.begin().await?;
        let params: [crate::link::Param<'_>; 1] = [(&moment.ms(), Type::INT8)];
        let rows = link.rows(sql!("schedule", "due"), &params).await?;
        let mut schedules = rows.iter().map(read_schedule).collect::<Result<Vec<_>, _>>()?;
        let runs = fire(&link, &mut schedules, moment).await?;
        let (_, next) = next_due(&link, Some(moment.ms())).await?;
        link.commit().await?;
        if runs.iter().any(|run| !run.skipped) {
            self.wake.work(Work::Anywhere);
        }
        Ok(Fired { runs, next_in_ms: next.map(|at| at.ms_since(moment)) })
    }
}

/// When a schedule is due that is at rest, or whose line has no run any more.
const NEVER_MS: i64 = i64::MAX;

fn next_ms(schedule: &Schedule) -> i64 {
    schedule.next_due().map_or(NEVER_MS, Time::ms)
}

/// What time it is, and when the first schedule is due: one statement, since every idle process asks now and then.
async fn next_due(link: &Link, given: Option<i64>) -> Result<(Time, Option<Time>), Fault> {
    let row = link.row(sql!("schedule", "next"), &[(&given, Type::INT8)]).await?;
    let next_ms: Option<i64> = row.try_get(1)?;
    Ok((Time::from_ms(row.try_get(0)?), next_ms.filter(|ms| *ms != NEVER_MS).map(Time::from_ms)))
}

async fn fire(link: &Link, schedules: &mut [Schedule], now: Time) -> Result<Vec<FiredRun>, Fault> {
    let mut due: Vec<(usize, Time)> = Vec::new();
    let mut jobs: Vec<NewJob> = Vec::new();
    for (at, schedule) in schedules.iter().enumerate() {
        for run in schedule.due(now) {
            due.push((at, run));
            jobs.push(schedule.job_for(run));
        }
    }
    let enqueued = if jobs.is_empty() {
        Vec::new()
    } else {
        insert(link, &Batch::of(&jobs), Some(now.ms()), false).await?
    };
    let mut runs = Vec::with_capacity(due.len());
    for ((at, run), enqueued) in due.into_iter().zip(enqueued) {
        let schedule = &mut schedules[at];
        if !enqueued.deduplicated {
            schedule.last_run = Some(run);
            schedule.last_job = Some(enqueued.id);
        }
        let (job_id, skipped) = (enqueued.id, enqueued.deduplicated);
        runs.push(FiredRun { schedule: schedule.name.clone(), run, job_id, skipped });
    }
    for schedule in schedules {
        if schedule.is_due(now) {
            schedule.settle(now);
        }
        save(link, schedule).await?;
    }
    Ok(runs)
}

async fn save(link: &Link, schedule: &Schedule) -> Result<(), Fault> {
    let params: [crate::link::Param<'_>; 3] = [
        (&schedule.name.as_str(), Type::TEXT),
        (&to_text(schedule)?, Type::TEXT),
        (&next_ms(schedule), Type::INT8),
    ];
    link.rows(sql!("schedule", "save"), &params).await?;
    Ok(())
}

async fn read_all(link: &Link, sql: &str) -> Result<Vec<Schedule>, Fault> {
    let rows = link.rows(sql, &[]).await?;
    rows.iter().map(read_schedule).collect()
}

fn read_schedule(row: &Row) -> Result<Schedule, Fault> {
    serde_json::from_str(row.try_get(0)?).map_err(|why| Fault::unreadable("a schedule", why))
}

fn to_text(schedule: &Schedule) -> Result<String, Fault> {
    serde_json::to_string(schedule).map_err(|why| Fault::unreadable("a schedule", why))
}
