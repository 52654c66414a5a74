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
use crate::row::Stored;
use crate::store::PostgresStore;
use crate::ticket::Spot;

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
            let ends: Vec<&Settlement> = settlements.iter().collect();
            let spots: Vec<Option<Spot>> = settlements.iter().map(spot_of).collect();
            let done = complete(&link, &ends, &spots, now, true).await?;
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
        let answers = settle_mixed(&mut moving, settlements, twins).await?;
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
        let rows = link.rows(sql!("job", "get_many"), &[(&left, Type::UUID_ARRAY)]).await?;
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

/// What the ticket of a lease says.
fn spot_of(settlement: &Settlement) -> Option<Spot> {
    settlement.lease.ticket.and_then(Spot::of)
}

fn completes(settlement: &Settlement) -> bool {
    matches!(settlement.outcome, Outcome::Completed { .. })
}

/// The columns of completions, sorted by their numbers, as tickets say them: those of which none is known come last.
#[derive(Default)]
struct Columns<'a> {
    ids: Vec<Uuid>,
    fences: Vec<i64>,
    results: Vec<Option<&'a str>>,
    seqs: Vec<Option<i64>>,
}

impl<'a> Columns<'a> {
    fn of(ends: &[&'a Settlement], spots: &[Option<Spot>]) -> Self {
        let mut order: Vec<usize> = (0..ends.len()).collect();
        // Numbers of two instances of the store are never mixed.
        let tag = spots.iter().flatten().map(|spot| spot.tag).next();
        let spot = |at: usize| spots[at].filter(|spot| Some(spot.tag) == tag);
        order.sort_by_key(|at| spot(*at).map_or((true, 0), |spot| (false, spot.seq)));
        let mut columns = Self::default();
        for at in order {
            let Settlement { lease, outcome } = ends[at];
            columns.ids.push(lease.job_id.0);
            columns.fences.push(lease.fence as i64);
            columns.results.push(match outcome {
                Outcome::Completed { result } => result.as_ref().map(|json| json.as_str()),
                _ => None,
            });
            columns.seqs.push(spot(at).map(|spot| spot.seq));
        }
        columns
    }
}

/// Completes jobs, each named once. `told`: they are written down as events here, in the order in which they are named.
async fn complete(
    link: &Link,
    ends: &[&Settlement],
    spots: &[Option<Spot>],
    now: Option<i64>,
    told: bool,
) -> Result<Completed, Fault> {
    let columns = Columns::of(ends, spots);
    let told: Option<Vec<Uuid>> = told.then(|| ends.iter().map(|end| end.lease.job_id.0).collect());
    let row = link
        .row(
            sql!("lease", "complete"),
            &[
                (&now, Type::INT8),
                (&columns.ids, Type::UUID_ARRAY),
                (&columns.fences, Type::INT8_ARRAY),
                (&if_any(&columns.results), Type::TEXT_ARRAY),
                (&told, Type::UUID_ARRAY),
                (&if_any(&columns.seqs), Type::INT8_ARRAY),
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
    twins: bool,
) -> Result<Vec<Written>, Fault> {
    let ids: Vec<Uuid> = settlements.iter().map(|settlement| settlement.lease.job_id.0).collect();
    let mut locked: HashMap<Uuid, Stored> =
        moving.lock(&ids).await?.into_iter().map(|stored| (stored.job.id.0, stored)).collect();
    let mut completed = Completed { done: 0, queues: HashMap::new(), freed: false };
    if !twins {
        let (ends, spots) = completions(settlements, &locked);
        if !ends.is_empty() {
            completed = complete(moving.link(), &ends, &spots, Some(moving.now.ms()), false).await?;
        }
    }
    let mut answers = Vec::with_capacity(settlements.len());
    for settlement in settlements {
        answers.push(settle_one(moving, &mut locked, &completed, settlement)?);
    }
    Ok(answers)
}

/// The completions of jobs that are locked, and where these stand: each that runs has a row of its own by now.
fn completions<'a>(
    settlements: &'a [Settlement],
    locked: &HashMap<Uuid, Stored>,
) -> (Vec<&'a Settlement>, Vec<Option<Spot>>) {
    let ends = settlements.iter().filter(|settlement| completes(settlement)).filter_map(|settlement| {
        let Stored { job, policy: _ } = locked.get(&settlement.lease.job_id.0)?;
        Some((settlement, Some(Spot { tag: 0, seq: job.seq as i64 })))
    });
    ends.unzip()
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
