//! Moves that `core` decides: lock the rows, decide, save, in one transaction.

use std::collections::HashMap;

use tokio_postgres::types::Type;
use uuid::Uuid;
use windlass_core::book::Moves;
use windlass_core::event::What;
use windlass_core::id::JobId;
use windlass_core::job::Job;
use windlass_core::store::{CancelAnswer, EXPIRE_MAX, Expired, RetryAnswer};
use windlass_core::time::Time;
use windlass_core::transition::{self, Cancel, Expiry, Moved};
use windlass_core::wake::Work;

use crate::error::Fault;
use crate::link::Link;
use crate::row::{SavedRow, Stored, read_job};
use crate::store::PostgresStore;

/// A transaction over locked jobs: what moved in it is saved by [`Moving::commit`].
pub(crate) struct Moving {
    link: Link,
    pub(crate) now: Time,
    rows: Vec<SavedRow>,
    moves: Moves,
}

impl Moving {
    pub(crate) async fn begin(link: Link, now: Option<i64>) -> Result<Self, Fault> {
        link.begin().await?;
        let row = link.row(sql!("epoch", "begin"), &[(&now, Type::INT8)]).await?;
        let now = Time::from_ms(row.try_get(0)?);
        Ok(Self { link, now, rows: Vec::new(), moves: Moves::default() })
    }

    pub(crate) fn link(&self) -> &Link {
        &self.link
    }

    /// Locks jobs and reads them as they now are, in no order.
    pub(crate) async fn lock(&mut self, ids: &[Uuid]) -> Result<Vec<Stored>, Fault> {
        let rows = self.link.rows(sql!("job", "lock"), &[(&ids, Type::UUID_ARRAY)]).await?;
        rows.iter().map(|row| read_job(row, 0, None)).collect()
    }

    /// [`Moving::lock`], by the ids of jobs.
    pub(crate) async fn lock_by_id(&mut self, ids: &[JobId]) -> Result<HashMap<JobId, Stored>, Fault> {
        let ids: Vec<Uuid> = ids.iter().map(|id| id.0).collect();
        Ok(self.lock(&ids).await?.into_iter().map(|stored| (stored.job.id, stored)).collect())
    }

    /// Who holds the dedupe keys of these jobs now.
    pub(crate) async fn holders_of(
        &self,
        jobs: impl Iterator<Item = &Stored>,
    ) -> Result<HashMap<String, JobId>, Fault> {
        let keys: Vec<&str> =
            jobs.filter_map(|stored| stored.job.spec.dedupe_key.as_ref()).map(|key| key.as_str()).collect();
        if keys.is_empty() {
            return Ok(HashMap::new());
        }
        let params: [crate::link::Param<'_>; 1] = [(&keys, Type::TEXT_ARRAY)];
        let rows = self.link.rows(sql!("dedupe", "holders"), &params).await?;
        rows.iter().map(|row| Ok((row.try_get(0)?, JobId(row.try_get(1)?)))).collect()
    }

    /// Notes that a job has moved.
    pub(crate) fn moved(&mut self, job: &Job, moved: Moved) -> Result<(), Fault> {
        self.moves.add(moved.what, job);
        self.rows.push(SavedRow::of(job, moved.delete)?);
        Ok(())
    }

    /// Notes that the lease of a job was marked. Nobody is told: nothing has happened to the job.
    pub(crate) fn marked(&mut self, job: &Job) -> Result<(), Fault> {
        self.rows.push(SavedRow::of(job, false)?);
        Ok(())
    }

    /// Takes the time again: rows may have been waited for.
    pub(crate) async fn take_time(&mut self, given: Option<i64>) -> Result<(), Fault> {
        let row = self.link.row(sql!("epoch", "begin"), &[(&given, Type::INT8)]).await?;
        self.now = Time::from_ms(row.try_get(0)?).max(self.now);
        Ok(())
    }

    /// Notes that a job was moved by a statement of its own.
    pub(crate) fn noted(&mut self, what: What, queue: &windlass_core::id::QueueName, id: JobId) {
        self.moves.add_id(what, queue, id);
    }

    /// Saves all that moved. Answers whether anything did.
    pub(crate) async fn commit(self) -> Result<bool, Fault> {
        let moved = !self.moves.0.is_empty();
        if moved || !self.rows.is_empty() {
            let rows = to_json(&self.rows)?;
            let events = to_json(&events(&self.moves))?;
            let params: [crate::link::Param<'_>; 3] =
                [(&self.now.ms(), Type::INT8), (&rows, Type::TEXT), (&events, Type::TEXT)];
            self.link.rows(sql!("job", "save"), &params).await?;
        }
        self.link.commit().await?;
        Ok(moved)
    }
}

#[derive(serde::Serialize)]
struct EventRow<'a> {
    what: i16,
    queue: &'a str,
    jobs: &'a [JobId],
}

fn events(moves: &Moves) -> Vec<EventRow<'_>> {
    moves
        .0
        .iter()
        .map(|(what, queue, jobs)| EventRow { what: what.code(), queue: queue.as_str(), jobs })
        .collect()
}

fn to_json<T: serde::Serialize>(rows: &T) -> Result<String, Fault> {
    serde_json::to_string(rows).map_err(|why| Fault::unreadable("a move", why))
}

impl PostgresStore {
    pub(crate) async fn expire_once(&self) -> Result<Expired, Fault> {
        let now = self.given_now();
        let link = self.reserved_link().await?;
        let next_in_ms = next_look(&link, now).await?;
        if next_in_ms != Some(0) {
            return Ok(Expired { next_in_ms, ..Expired::default() });
        }
        let params: [crate::link::Param<'_>; 2] = [(&now, Type::INT8), (&(EXPIRE_MAX as i32), Type::INT4)];
        let rows = link.rows(sql!("lease", "look_due"), &params).await?;
        let ids = rows.iter().map(|row| row.try_get(0)).collect::<Result<Vec<Uuid>, _>>()?;
        if ids.is_empty() {
            let next_in_ms = next_look(&link, now).await?;
            return Ok(Expired { next_in_ms, ..Expired::default() });
        }
        let mut moving = Moving::begin(link, now).await?;
        let mut locked = moving.lock(&ids).await?;
        moving.take_time(now).await?;
        locked.sort_by_key(|stored| (stored.job.lease().map(|lease| lease.look_at()), stored.job.seq));
        let mut expired = Expired::default();
        for mut stored in locked {
            let policy = stored.policy()?;
            match transition::expire(&mut stored.job, &policy, moving.now) {
                Some(Expiry::Taken(moved)) => {
                    expired.jobs.push(stored.job.id);
                    moving.moved(&stored.job, moved)?;
                }
                Some(Expiry::Marked) => {
                    expired.marked += 1;
                    moving.marked(&stored.job)?;
                }
                None => {}
            }
        }
        if moving.commit().await? {
            self.wake.work(Work::Anywhere);
        }
        expired.next_in_ms = next_look(&self.reserved_link().await?, now).await?;
        Ok(expired)
    }

    pub(crate) async fn cancel_once(&self, ids: &[JobId]) -> Result<Vec<CancelAnswer>, Fault> {
        let mut moving = Moving::begin(self.link().await?, self.given_now()).await?;
        let mut locked = moving.lock_by_id(ids).await?;
        let mut answers = Vec::with_capacity(ids.len());
        for id in ids {
            let Some(stored) = locked.get_mut(id) else {
                answers.push(CancelAnswer::NotFound);
                continue;
            };
            let policy = stored.policy()?;
            let (answer, moved) = match transition::cancel(&mut stored.job, &policy, moving.now) {
                Cancel::Canceled(moved) => (CancelAnswer::Canceled, Some(moved)),
                Cancel::Requested(moved) => (CancelAnswer::Requested, Some(moved)),
                Cancel::AlreadyRequested => (CancelAnswer::Requested, None),
                Cancel::Final => (CancelAnswer::Final, None),
            };
            answers.push(answer);
            if let Some(moved) = moved {
                let deleted = moved.delete;
                moving.moved(&stored.job, moved)?;
                if deleted {
                    locked.remove(id);
                }
            }
        }
        if moving.commit().await? {
            // The workers are to hear of it soon, and keys may be free now.
            self.wake.work(Work::Anywhere);
        }
        Ok(answers)
    }

    pub(crate) async fn retry_once(&self, ids: &[JobId]) -> Result<Vec<RetryAnswer>, Fault> {
        let mut moving = Moving::begin(self.link().await?, self.given_now()).await?;
        let mut locked = moving.lock_by_id(ids).await?;
        let mut holders = moving.holders_of(locked.values()).await?;
        let mut answers = Vec::with_capacity(ids.len());
        for id in ids {
            let Some(stored) = locked.get_mut(id) else {
                answers.push(RetryAnswer::NotFound);
                continue;
            };
            let holder =
                stored.job.spec.dedupe_key.as_ref().and_then(|key| holders.get(key.as_str()).copied());
            let mut next = stored.job.clone();
            answers.push(match (transition::retry(&mut next, moving.now), holder) {
                (None, _) => RetryAnswer::NotFinal,
                (Some(_), Some(holder)) => RetryAnswer::Taken(holder),
                (Some(moved), None) => {
                    moving.moved(&next, moved)?;
                    holders.extend(next.spec.dedupe_key.as_ref().map(|key| (key.as_str().to_owned(), *id)));
                    stored.job = next;
                    RetryAnswer::Retried
                }
            });
        }
        if moving.commit().await? {
            self.wake.work(Work::Anywhere);
        }
        Ok(answers)
    }
}

async fn next_look(link: &Link, now: Option<i64>) -> Result<Option<u64>, Fault> {
    let row = link.row(sql!("lease", "look_next"), &[(&now, Type::INT8)]).await?;
    let next: Option<i64> = row.try_get(0)?;
    let now: i64 = row.try_get(1)?;
    Ok(next.map(|next| Time::from_ms(next).ms_since(Time::from_ms(now))))
}
