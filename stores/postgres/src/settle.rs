//! Settlements: completions in one statement, everything else by `core` on locked rows.

use std::collections::{HashMap, HashSet};

use tokio_postgres::types::Type;
use uuid::Uuid;
use windlass_core::event::What;
use windlass_core::id::{JobId, QueueName};
use windlass_core::store::{Settlement, Written};
use windlass_core::transition::{self, Lost, Outcome};
use windlass_core::wake::Work;

use crate::enqueue::if_any;
use crate::error::Fault;
use crate::link::Link;
use crate::moves::Moving;
use crate::numbers::{Known, Numbers};
use crate::row::Stored;
use crate::store::PostgresStore;
use crate::worker::lease_columns;

/// What one statement completed.
struct Completed {
    /// How many.
    done: usize,
    /// Which, with their queues; left out when it was all and nobody has to be told.
    queues: HashMap<Uuid, QueueName>,
    freed: bool,
}

impl PostgresStore {
    pub(crate) async fn settle_once(&self, settlements: &[Settlement]) -> Result<Vec<Written>, Fault> {
        if settlements.is_empty() {
            return Ok(Vec::new());
        }
        let link = self.reserved_link().await?;
        let now = self.given_now();
        let ids: HashSet<JobId> = settlements.iter().map(|settlement| settlement.lease.job_id).collect();
        let all_complete = settlements.iter().all(completes) && ids.len() == settlements.len();
        if all_complete {
            let done = complete(&link, settlements, &self.numbers.take(settlements), now, true).await?;
            if done.freed {
                self.wake.work(Work::Anywhere);
            }
            if done.done == settlements.len() {
                return Ok(vec![Written::Done; settlements.len()]);
            }
            return self.look_again(link, settlements, &done).await;
        }
        let mut moving = Moving::begin(link, now).await?;
        // A job that is named twice has to be settled in the order asked.
        let twins = ids.len() != settlements.len();
        let answers = settle_mixed(&mut moving, settlements, &self.numbers, twins).await?;
        if moving.commit().await? {
            self.wake.work(Work::Anywhere);
        }
        Ok(answers)
    }

    /// Which of those that were not completed now had been completed before.
    async fn look_again(
        &self,
        link: Link,
        settlements: &[Settlement],
        done: &Completed,
    ) -> Result<Vec<Written>, Fault> {
        let left = settlements.iter().map(|settlement| settlement.lease.job_id.0);
        let left: Vec<Uuid> = left.filter(|id| !done.queues.contains_key(id)).collect();
        let rows = link.rows(include_str!("../sql/get_many.sql"), &[(&left, Type::UUID_ARRAY)]).await?;
        let mut there: HashMap<Uuid, Stored> = HashMap::with_capacity(rows.len());
        for row in &rows {
            let stored = crate::row::read_job(row, 0, None)?;
            there.insert(stored.job.id.0, stored);
        }
        let written = |Settlement { lease, outcome }: &Settlement| {
            let before = there
                .get(&lease.job_id.0)
                .is_some_and(|stored| transition::already_settled(&stored.job, lease.fence, outcome));
            if before || done.queues.contains_key(&lease.job_id.0) { Written::Done } else { Written::Lost }
        };
        Ok(settlements.iter().map(written).collect())
    }
}

fn completes(settlement: &Settlement) -> bool {
    matches!(settlement.outcome, Outcome::Completed { .. })
}

async fn complete(
    link: &Link,
    settlements: &[Settlement],
    known: &Known,
    now: Option<i64>,
    note: bool,
) -> Result<Completed, Fault> {
    let (ids, fences) = lease_columns(settlements.iter().map(|settlement| &settlement.lease));
    let mut results: Vec<Option<&str>> = Vec::with_capacity(settlements.len());
    for Settlement { lease: _, outcome } in settlements {
        results.push(match outcome {
            Outcome::Completed { result } => result.as_ref().map(|json| json.as_str()),
            _ => None,
        });
    }
    // All of one claim: the common case, of which nothing more need be said.
    let of =
        (!known.packs.is_empty() && (known.packs.len() > 1 || known.of.contains(&0))).then_some(&known.of);
    let packs: Vec<i64> = known.packs.iter().map(|pack| pack.0).collect();
    let row = link
        .row(
            include_str!("../sql/complete.sql"),
            &[
                (&now, Type::INT8),
                (&ids, Type::UUID_ARRAY),
                (&known.seqs, Type::INT8_ARRAY),
                (&fences, Type::INT8_ARRAY),
                (&if_any(&results), Type::TEXT_ARRAY),
                (&known.keyed, Type::BOOL),
                (&note, Type::BOOL),
                (&(!packs.is_empty()).then_some(packs), Type::INT8_ARRAY),
                (&of, Type::INT4_ARRAY),
            ],
        )
        .await?;
    let done = row.try_get::<_, i64>(0)? as usize;
    let ids: Vec<Uuid> = row.try_get::<_, Option<_>>(1)?.unwrap_or_default();
    let names: Vec<&str> = row.try_get::<_, Option<_>>(2)?.unwrap_or_default();
    let mut queues = HashMap::with_capacity(ids.len());
    let mut known: HashMap<&str, QueueName> = HashMap::new();
    for (id, name) in ids.into_iter().zip(names) {
        if !known.contains_key(name) {
            let queue = QueueName::new(name).map_err(|why| Fault::unreadable("a queue", why))?;
            known.insert(name, queue);
        }
        queues.insert(id, known[name].clone());
    }
    Ok(Completed { done, queues, freed: row.try_get(3)? })
}

async fn settle_mixed(
    moving: &mut Moving,
    settlements: &[Settlement],
    numbers: &Numbers,
    twins: bool,
) -> Result<Vec<Written>, Fault> {
    let ids: Vec<Uuid> = settlements.iter().map(|settlement| settlement.lease.job_id.0).collect();
    let mut locked: HashMap<Uuid, Stored> =
        moving.lock(&ids).await?.into_iter().map(|stored| (stored.job.id.0, stored)).collect();
    let mut completed = Completed { done: 0, queues: HashMap::new(), freed: false };
    // Whatever was remembered of them: they are locked, and each that runs has a row of its own by now.
    numbers.take(settlements);
    if !twins {
        let (done, known) = completions(settlements, &locked);
        if !done.is_empty() {
            completed = complete(moving.link(), &done, &known, Some(moving.now.ms()), false).await?;
        }
    }
    let mut answers = Vec::with_capacity(settlements.len());
    for settlement in settlements {
        answers.push(settle_one(moving, &mut locked, &completed, settlement)?);
    }
    Ok(answers)
}

/// The completions of jobs that are locked, and what is known of these.
fn completions(settlements: &[Settlement], locked: &HashMap<Uuid, Stored>) -> (Vec<Settlement>, Known) {
    let mut done = Vec::new();
    let mut seqs = Vec::new();
    let mut keyed = None;
    for settlement in settlements.iter().filter(|settlement| completes(settlement)) {
        if let Some(Stored { job, policy: _ }) = locked.get(&settlement.lease.job_id.0) {
            keyed = keyed.or(Some(job.spec.key.is_some()));
            seqs.push(job.seq as i64);
            done.push(settlement.clone());
        }
    }
    let known = Known { seqs: Some(seqs), keyed: keyed.unwrap_or(false), ..Known::default() };
    (done, known)
}

fn settle_one(
    moving: &mut Moving,
    locked: &mut HashMap<Uuid, Stored>,
    completed: &Completed,
    Settlement { lease, outcome }: &Settlement,
) -> Result<Written, Fault> {
    if let Some(queue) = completed.queues.get(&lease.job_id.0) {
        moving.noted(What::Completed, queue, lease.job_id);
        return Ok(Written::Done);
    }
    let Some(stored) = locked.get_mut(&lease.job_id.0) else { return Ok(Written::Lost) };
    let policy = stored.policy()?;
    match transition::settle(&mut stored.job, &policy, lease.fence, outcome, moving.now) {
        Err(Lost) => Ok(Written::Lost),
        Ok(None) => Ok(Written::Done),
        Ok(Some(moved)) => {
            moving.moved(&stored.job, moved)?;
            if moved.delete {
                locked.remove(&lease.job_id.0);
            }
            Ok(Written::Done)
        }
    }
}
