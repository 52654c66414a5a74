//! Claims that limits, budgets or crossed keys bound: what bounds them is locked and read, `core` picks, and what it
//! picked is taken, in one transaction of two round trips.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;

use serde::Deserialize;
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};
use uuid::Uuid;
use windlass_core::pick::{BudgetNo, Gate, Head, Heads, NextHead, Picked, QueueRoom, Rooms, pick};
use windlass_core::policy::budget::Budget;
use windlass_core::store::{ClaimAnswer, ClaimRequest, PROMOTE_MAX};
use windlass_core::time::Time;

use crate::budgets::{BudgetRow, SAVE, SAVE_TYPES, save};
use crate::claim::{self, TYPES};
use crate::error::Fault;
use crate::link::{Link, Param};

const SQL: &str = sql!("claim", "survey");
const SQL_TYPES: [Type; 8] = [
    Type::INT8,
    Type::UUID,
    Type::TEXT,
    Type::TEXT_ARRAY,
    Type::TEXT_ARRAY,
    Type::INT4,
    Type::INT8,
    Type::INT4,
];
const PICKED: &str = sql!("claim", "picked");
const PICKED_TYPES: [Type; 4] = [Type::INT8, Type::TEXT, Type::INT8_ARRAY, Type::INT8_ARRAY];
/// Where the columns of the heads begin.
const HEADS: usize = 9;

/// So long may a program take to pick, which takes it microseconds: then the server gives up on it, and on what it has locked.
pub(crate) const PICKING_MS: u64 = 5_000;

/// Makes a claim, and says whether anything bounded it, where it met any gates; nothing when its request was answered
/// before.
pub(crate) async fn claim(
    link: &Link,
    request: &ClaimRequest,
    now: Option<i64>,
) -> Result<Option<(ClaimAnswer, Option<bool>)>, Fault> {
    link.prepare(SQL, &SQL_TYPES).await?;
    let (begun, surveyed) = tokio::join!(link.begin(), survey(link, request, now));
    let taken = match begun.and(surveyed) {
        Ok(Some(survey)) => survey.take(link, request, now).await,
        Ok(None) => link.commit().await.map(|()| None),
        Err(fault) => Err(fault),
    };
    if taken.is_err() && link.is_in_transaction() {
        // The connection goes on; what went wrong is told.
        let _ = link.rollback().await;
    }
    taken
}

/// What bounds a claim, and what it may take.
struct Survey {
    now: Time,
    /// When time alone may free others, budgets aside.
    next: Option<Time>,
    instance: Uuid,
    /// Whether anything bounds the gates, where there are any.
    bounded: Option<bool>,
    /// The gates as the statement that takes is told of them.
    gates: String,
    /// Of each gate.
    of: Vec<GateOf>,
    rooms: RoomRows,
}

struct GateOf {
    queue: String,
    /// Their names, joined.
    budgets: String,
    heads: VecDeque<HeadRow>,
}

struct HeadRow {
    rank: i64,
    seq: i64,
    key: Option<String>,
    bytes: i64,
}

/// What the store says of limited queues and of budgets that are defined.
#[derive(Deserialize, Default)]
struct RoomRows {
    /// Name, limit, and how many run.
    queues: Option<Vec<(String, u32, u32)>>,
    budgets: Option<Vec<BudgetRow>>,
}

async fn survey(link: &Link, request: &ClaimRequest, now: Option<i64>) -> Result<Option<Survey>, Fault> {
    let ClaimRequest { request_id, worker: _, queues, kinds, limit, lease_ms } = request;
    let queues: Vec<&str> = queues.iter().map(|queue| queue.as_str()).collect();
    let kinds: Option<Vec<&str>> =
        kinds.as_ref().map(|kinds| kinds.iter().map(|kind| kind.as_str()).collect());
    let (lease_ms, limit, promote_max) = (lease_ms.map(i64::from), *limit as i32, PROMOTE_MAX as i32);
    let asked = request.asked();
    let values: [&(dyn ToSql + Sync); SQL_TYPES.len()] =
        [&now, request_id, &asked, &queues, &kinds, &limit, &lease_ms, &promote_max];
    let params: Vec<Param<'_>> = values.into_iter().zip(SQL_TYPES).collect();
    Survey::read(&link.row(SQL, &params).await?)
}

impl Survey {
    /// Nothing when the request was answered before.
    fn read(row: &Row) -> Result<Option<Self>, Fault> {
        if row.try_get(2)? {
            return Ok(None);
        }
        let names = |at| Ok::<_, Fault>(row.try_get::<_, Option<Vec<String>>>(at)?.unwrap_or_default());
        let gate = |(queue, budgets)| GateOf { queue, budgets, heads: VecDeque::new() };
        let mut of: Vec<GateOf> = names(6)?.into_iter().zip(names(7)?).map(gate).collect();
        let numbers = |at| Ok::<_, Fault>(row.try_get::<_, Option<Vec<i64>>>(at)?.unwrap_or_default());
        let (ats, ranks, seqs) = (numbers(HEADS)?, numbers(HEADS + 1)?, numbers(HEADS + 2)?);
        let keys: Vec<Option<String>> = row.try_get::<_, Option<_>>(HEADS + 3)?.unwrap_or_default();
        // Of a job that was deleted meanwhile there are none.
        let bytes: Vec<Option<i64>> = row.try_get::<_, Option<_>>(HEADS + 4)?.unwrap_or_default();
        for ((at, rank), (seq, (key, bytes))) in
            ats.into_iter().zip(ranks).zip(seqs.into_iter().zip(keys.into_iter().zip(bytes)))
        {
            let gate = usize::try_from(at - 1).ok().and_then(|at| of.get_mut(at));
            let gate = gate.ok_or_else(|| Fault::unreadable("a head", "it has no gate"))?;
            gate.heads.push_back(HeadRow { rank, seq, key, bytes: bytes.unwrap_or(0) });
        }
        let rooms: RoomRows =
            serde_json::from_str(row.try_get(8)?).map_err(|why| Fault::unreadable("a survey", why))?;
        Ok(Some(Self {
            now: Time::from_ms(row.try_get(0)?),
            next: row.try_get::<_, Option<i64>>(1)?.map(Time::from_ms),
            instance: row.try_get(3)?,
            bounded: row.try_get(4)?,
            gates: row.try_get::<_, Option<String>>(5)?.unwrap_or_default(),
            of,
            rooms,
        }))
    }

    /// Picks, takes what was picked, and ends the transaction.
    async fn take(
        mut self,
        link: &Link,
        request: &ClaimRequest,
        given: Option<i64>,
    ) -> Result<Option<(ClaimAnswer, Option<bool>)>, Fault> {
        let (picked, spent) = self.pick(request)?;
        let next = picked.next_free.into_iter().chain(self.next).min();
        let next_due_in_ms = next.map(|at| at.ms_since(self.now));
        if picked.taken.is_empty() {
            link.commit().await?;
            let answer = ClaimAnswer { leases: Vec::new(), next_due_in_ms, instance: Some(self.instance) };
            return Ok(Some((answer, self.bounded)));
        }
        let mut takes = vec![0_i64; self.of.len()];
        let mut keyed = Vec::new();
        for taken in &picked.taken {
            takes[taken.gate] += 1;
            keyed.extend(taken.row.1.then_some(taken.row.0));
        }
        let values: [&(dyn ToSql + Sync); PICKED_TYPES.len()] =
            [&self.now.ms(), &self.gates, &takes, &Some(keyed).filter(|keyed| !keyed.is_empty())];
        let more: Vec<Param<'_>> = values.into_iter().zip(PICKED_TYPES).collect();
        link.prepare(PICKED, &[&TYPES[..], &PICKED_TYPES].concat()).await?;
        link.prepare(SAVE, &SAVE_TYPES).await?;
        let (rows, saved, committed) =
            tokio::join!(claim::rows(link, PICKED, request, given, &more), save(link, &spent), link.commit());
        // Where one of them failed, the commit was none.
        let mut answer = claim::answer(&rows?)?;
        saved?;
        committed?;
        // Somebody else was faster where nothing was locked: there may be others to be had.
        let short = answer.leases.len() < picked.taken.len();
        answer.next_due_in_ms = if short { Some(0) } else { next_due_in_ms };
        Ok(Some((answer, self.bounded)))
    }

    /// What the claim takes, each by its number and whether it has a key, and the budgets as they are after that.
    #[expect(clippy::type_complexity, reason = "two things that are taken apart at once")]
    fn pick(&mut self, request: &ClaimRequest) -> Result<(Picked<(i64, bool)>, Vec<Budget>), Fault> {
        let RoomRows { queues, budgets } = std::mem::take(&mut self.rooms);
        let budgets: Result<Vec<(Budget, u32)>, Fault> =
            budgets.unwrap_or_default().into_iter().map(BudgetRow::read).collect();
        let budgets = budgets?;
        // Not before what was spent: another server's clock may have been ahead.
        let spent = budgets.iter().filter_map(|(budget, _)| budget.spent_until());
        self.now = spent.fold(self.now, Time::max);
        let mut rooms = Rooms::new(self.now);
        let mut numbers: HashMap<String, BudgetNo> = HashMap::new();
        for (budget, slots_used) in budgets {
            numbers.insert(budget.name.to_string(), rooms.budget(budget, slots_used));
        }
        let limits: HashMap<String, (u32, u32)> = queues
            .unwrap_or_default()
            .into_iter()
            .map(|(name, limit, running)| (name, (limit, running)))
            .collect();
        let mut known = HashMap::new();
        for gate in &self.of {
            let queue = *known.entry(gate.queue.as_str()).or_insert_with(|| {
                let (limit, running) = limits.get(&gate.queue).copied().unzip();
                // What a pause or an epoch holds back was left out.
                rooms.queue(QueueRoom { limit, running: running.unwrap_or(0), ..QueueRoom::default() })
            });
            let named = gate.budgets.split('\u{1f}').filter_map(|name| numbers.get(name).copied());
            rooms.gate(Gate { queue, budgets: named.collect(), nobody_elses: true });
        }
        let Ok(picked) = pick(request, &mut rooms, &mut Lines(&mut self.of));
        Ok((picked, rooms.into_spent().collect()))
    }
}

/// The heads that were read.
struct Lines<'a>(&'a mut [GateOf]);

impl Heads for Lines<'_> {
    type Key = (String, String);
    type Row = (i64, bool);
    type Error = Infallible;

    fn next(&mut self, gate: usize, _: u32) -> NextHead<Self> {
        let GateOf { queue, budgets: _, heads } = &mut self.0[gate];
        Ok(heads.pop_front().map(|HeadRow { rank, seq, key, bytes }| {
            let row = (seq, key.is_some());
            let key = key.map(|key| (queue.clone(), key));
            Head { rank, seq: seq as u64, key, bytes: bytes as usize, row }
        }))
    }
}
