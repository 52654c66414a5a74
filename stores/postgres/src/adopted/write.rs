//! Renewals and steps: what a worker writes while it holds its rows.

use std::collections::HashSet;

use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;
use windlass_core::error::{Invalid, StoreError};
use windlass_core::id::StepName;
use windlass_core::store::{LeaseRef, RenewAnswer, StepWrite, Written};

use super::codec::output_text;
use super::lease::Held;
use super::source::AdoptedTable;
use crate::error::Fault;
use crate::link::{Link, Param};

/// The leases of a batch as arrays, one for each column.
pub(super) struct Batch {
    ids: Vec<String>,
    fences: Vec<i64>,
}

impl Batch {
    pub(super) fn of<'a>(held: impl IntoIterator<Item = &'a Held>) -> Self {
        let (ids, fences) = held.into_iter().map(|held| (held.row_id.clone(), held.fence)).unzip();
        Self { ids, fences }
    }

    pub(super) fn params(&self) -> [Param<'_>; 2] {
        [(&self.ids, Type::TEXT_ARRAY), (&self.fences, Type::INT8_ARRAY)]
    }
}

/// The leases that a statement has written, as the rows say: each by row and fence.
#[derive(Default)]
pub(super) struct Wrote(HashSet<(String, i64)>);

impl Wrote {
    /// Runs a statement that answers with rows and fences.
    pub(super) async fn by(link: &Link, sql: &str, params: &[Param<'_>]) -> Result<Self, Fault> {
        let rows = link.rows(sql, params).await.map_err(refused)?;
        let leases = rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?)));
        Ok(Self(leases.collect::<Result<_, Fault>>()?))
    }

    pub(super) fn add(&mut self, more: Self) {
        self.0.extend(more.0);
    }

    pub(super) fn has(&self, held: &Held) -> bool {
        self.0.contains(&(held.row_id.clone(), held.fence))
    }
}

impl AdoptedTable {
    pub(super) async fn renew_once(&self, leases: &[LeaseRef]) -> Result<RenewAnswer, Fault> {
        let link = self.connections.reserved_link().await?;
        let held = self.held(&link, leases.iter()).await?;
        let known: Vec<&Held> = held.iter().flatten().collect();
        let mut renewed = Wrote::default();
        if !known.is_empty() {
            let (now, batch) = (self.connections.given_now(), Batch::of(known.iter().copied()));
            let lengths: Vec<Option<i64>> = known.iter().map(|held| held.lease_ms).collect();
            let mut params: Vec<Param<'_>> = vec![(&now, Type::INT8)];
            params.extend(batch.params());
            params.push((&lengths, Type::INT8_ARRAY));
            renewed = Wrote::by(&link, &self.statements.renew, &params).await?;
        }
        let mut answer = RenewAnswer::default();
        for (lease, held) in leases.iter().zip(&held) {
            match held.as_ref().is_some_and(|held| renewed.has(held)) {
                true => answer.renewed.push(lease.job_id),
                false => answer.lost.push(lease.job_id),
            }
        }
        Ok(answer)
    }

    /// Steps of one name go together, in one statement; names in the order in which they came.
    pub(super) async fn store_steps_once(&self, steps: &[StepWrite]) -> Result<Vec<Written>, Fault> {
        let link = self.connections.reserved_link().await?;
        let held = self.held(&link, steps.iter().map(|step| &step.lease)).await?;
        let mut groups: Vec<(&StepName, Vec<(usize, Held)>)> = Vec::new();
        for (at, (step, held)) in steps.iter().zip(held).enumerate() {
            let Some(held) = held else { continue };
            match groups.iter_mut().find(|(name, _)| **name == step.name) {
                Some((_, group)) => group.push((at, held)),
                None => groups.push((&step.name, vec![(at, held)])),
            }
        }
        let mut answers = vec![Written::Lost; steps.len()];
        for (name, group) in groups {
            let written = self.store_step(&link, name, &group, steps).await?;
            for (at, held) in group {
                if written.has(&held) {
                    answers[at] = Written::Done;
                }
            }
        }
        Ok(answers)
    }

    async fn store_step(
        &self,
        link: &Link,
        name: &StepName,
        group: &[(usize, Held)],
        steps: &[StepWrite],
    ) -> Result<Wrote, Fault> {
        let statement = self.statements.steps.get(name).ok_or_else(|| {
            let why = format!("{:?} has no stage in the mapping of {}", name.as_str(), self.mapping.table);
            Invalid::new("step", why)
        })?;
        let output = |at: usize| match statement.plain {
            true => output_text(&steps[at].output),
            false => steps[at].output.as_str().to_owned(),
        };
        let outputs: Vec<String> = group.iter().map(|(at, _)| output(*at)).collect();
        let (now, batch) = (self.connections.given_now(), Batch::of(group.iter().map(|(_, held)| held)));
        let mut params: Vec<Param<'_>> = vec![(&now, Type::INT8)];
        params.extend(batch.params());
        params.push((&outputs, Type::TEXT_ARRAY));
        Wrote::by(link, &statement.sql, &params).await
    }
}

/// The rows that a statement wrote.
pub(super) async fn ids(link: &Link, sql: &str, params: &[Param<'_>]) -> Result<HashSet<String>, Fault> {
    let rows = link.rows(sql, params).await.map_err(refused)?;
    rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
}

/// What a carried statement stumbles over stays where it is: made again, the
/// same call would stumble again, for ever.
fn refused(fault: Fault) -> Fault {
    match fault {
        Fault::Collided(why) if why.contains(SqlState::UNIQUE_VIOLATION.code()) => {
            Fault::Failed(StoreError::Broken(why))
        }
        other => other,
    }
}
