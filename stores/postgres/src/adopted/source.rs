//! A table that belongs to somebody else, as a source of work.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use tokio_postgres::types::Type;
use windlass_core::error::{Invalid, StoreError};
use windlass_core::id::{BudgetName, JobId};
use windlass_core::job::{Start, bounded_error};
use windlass_core::store::{
    ClaimAnswer, ClaimRequest, EXPIRE_MAX, Expired, LeaseRef, Leased, ProgressWrite, RenewAnswer, Settlement,
    Source, Spent, StepWrite, WakeFn, Written,
};
use windlass_core::time::Time;
use windlass_core::transition::Outcome;

use super::check::{Finding, column_types, findings};
use super::codec::{Claimed, job_id, output_text};
use super::lease::{Held, Leases};
use super::mapping::Mapping;
use super::statements::{Statements, literal, quote};
use crate::connect::Connections;
use crate::error::Fault;
use crate::link::{Link, Param};
use crate::options::Options;
use crate::store::call;

/// A table that belongs to somebody else.
pub struct AdoptedTable {
    connections: Connections,
    mapping: Mapping,
    statements: Statements,
    leases: Leases,
}

impl AdoptedTable {
    /// Looks at the table and gets ready to work it. Refuses one that lacks a
    /// column that the mapping names; [`AdoptedTable::check`] says which.
    pub async fn open(url: &str, options: Options, mapping: Mapping) -> Result<Arc<Self>, StoreError> {
        let mapping = mapping.checked()?;
        let connections = Connections::open(url, options)?;
        let (types, found) = call!(connections, Self::look(&connections, &mapping))?;
        let broken: Vec<String> =
            found.iter().filter(|finding| !finding.only_slow).map(|finding| finding.what.clone()).collect();
        if !broken.is_empty() {
            return Err(StoreError::Schema(broken.join("; ")));
        }
        let statements = Statements::of(&mapping, &types);
        Ok(Arc::new(Self { connections, mapping, statements, leases: Leases::default() }))
    }

    /// What a table lacks for a mapping, in plain words, with the SQL that would
    /// add it. Changes nothing.
    pub async fn check(url: &str, options: Options, mapping: &Mapping) -> Result<Vec<Finding>, StoreError> {
        let connections = Connections::open(url, options)?;
        let (_, found) = call!(connections, Self::look(&connections, mapping))?;
        Ok(found)
    }

    async fn look(
        connections: &Connections,
        mapping: &Mapping,
    ) -> Result<(HashMap<String, String>, Vec<Finding>), Fault> {
        let mut link = connections.link().await?;
        let types = column_types(&mut link, &mapping.table).await?.unwrap_or_default();
        Ok((types, findings(&mut link, mapping).await?))
    }

    async fn claim_once(&self, request: &ClaimRequest) -> Result<ClaimAnswer, Fault> {
        let wanted = request.queues.contains(&self.mapping.queue)
            && request.kinds.as_ref().is_none_or(|kinds| kinds.contains(&self.mapping.kind));
        if !wanted {
            return Ok(ClaimAnswer::default());
        }
        // Without a fence column the owner is what makes a claim its own.
        let unique = self.mapping.fence.is_none();
        let owner = if unique {
            format!("{}#{}", request.worker, request.request_id.simple())
        } else {
            request.worker.to_string()
        };
        let now = self.connections.given_now();
        let mut link = self.connections.link().await?;
        if unique {
            let params: [Param<'_>; 2] = [(&now, Type::INT8), (&owner, Type::TEXT)];
            let before = link.rows(&self.statements.again, &params).await?;
            if !before.is_empty() {
                return self.answer(&mut link, request, &owner, &before).await;
            }
        }
        let lease_ms = i64::from(request.lease_ms.unwrap_or(self.mapping.lease_ms));
        let params: [Param<'_>; 6] = [
            (&now, Type::INT8),
            (&self.mapping.words.ready, Type::TEXT_ARRAY),
            (&i64::from(self.mapping.tries_max), Type::INT8),
            (&i64::from(request.limit), Type::INT8),
            (&owner, Type::TEXT),
            (&lease_ms, Type::INT8),
        ];
        let rows = link.rows(&self.statements.claim, &params).await?;
        self.answer(&mut link, request, &owner, &rows).await
    }

    async fn answer(
        &self,
        link: &mut Link,
        request: &ClaimRequest,
        owner: &str,
        rows: &[tokio_postgres::Row],
    ) -> Result<ClaimAnswer, Fault> {
        let lease_ms = request.lease_ms.unwrap_or(self.mapping.lease_ms);
        let mut leases = Vec::with_capacity(rows.len());
        for row in rows {
            let claimed = Claimed::read(row)?;
            // A number for the engine; without a column the owner is the real fence.
            let fence = match self.mapping.fence {
                Some(_) => claimed.column_fence as u64,
                None => (request.request_id.as_u128() as u64) >> 1,
            };
            let held = Held {
                fence,
                row_id: claimed.row_id.clone(),
                owner: owner.to_owned(),
                column_fence: claimed.column_fence,
                tries: claimed.tries,
                lease_ms: i64::from(lease_ms),
            };
            match claimed.job(&self.mapping, &request.worker, fence, lease_ms) {
                Ok(job) => {
                    self.leases.put(job.id, held);
                    let retry_delay_ms = self.mapping.retry_rule().delay_ms(job.attempt);
                    leases.push(Leased { job, retry_delay_ms });
                }
                Err(refused) => self.refuse(link, &held, &refused).await?,
            }
        }
        Ok(ClaimAnswer { leases, next_due_in_ms: None })
    }

    /// Fails a row that cannot be a job, so that it does not stand in the way.
    async fn refuse(&self, link: &mut Link, held: &Held, refused: &Invalid) -> Result<(), Fault> {
        tracing::warn!(table = self.mapping.table, row = held.row_id, %refused, "a row was failed: it cannot be a job");
        let end = self.end(&self.mapping.words.failed, &refused.to_string());
        self.write(link, held, &end, &[]).await?;
        Ok(())
    }

    /// A guarded write. Answers whether the row was held.
    async fn write(
        &self,
        link: &mut Link,
        held: &Held,
        set: &str,
        more: &[Param<'_>],
    ) -> Result<bool, Fault> {
        let now = self.connections.given_now();
        let mut params: Vec<Param<'_>> = vec![
            (&now, Type::INT8),
            (&held.row_id, Type::TEXT),
            (&held.owner, Type::TEXT),
            (&held.column_fence, Type::INT8),
        ];
        params.extend(more.iter().cloned());
        Ok(!link.rows(&self.statements.write(set), &params).await?.is_empty())
    }

    async fn renew_once(&self, leases: &[LeaseRef]) -> Result<RenewAnswer, Fault> {
        let mut link = self.connections.reserved_link().await?;
        let set = format!("{} = {}", quote(&self.mapping.locked_until), self.statements.new_lock());
        let mut answer = RenewAnswer::default();
        for lease in leases {
            let renewed = match self.leases.of(lease) {
                Some(held) => self.write(&mut link, &held, &set, &[(&held.lease_ms, Type::INT8)]).await?,
                None => false,
            };
            if renewed { answer.renewed.push(lease.job_id) } else { answer.lost.push(lease.job_id) }
        }
        Ok(answer)
    }

    async fn store_steps_once(&self, steps: &[StepWrite]) -> Result<Vec<Written>, Fault> {
        let mut link = self.connections.reserved_link().await?;
        let mut answers = Vec::with_capacity(steps.len());
        for step in steps {
            let stage = self.mapping.stage.as_ref();
            let column = stage.and_then(|stage| stage.steps.iter().find(|column| column.name == step.name));
            let (Some(stage), Some(column)) = (stage, column) else {
                let why =
                    format!("{:?} has no stage in the mapping of {}", step.name.as_str(), self.mapping.table);
                return Err(Invalid::new("step", why).into());
            };
            let mut set = format!("{} = {}", quote(&stage.column), literal(&column.word));
            if let Some(crashes) = &self.mapping.crashes {
                set.push_str(&format!(", {} = 0", quote(crashes)));
            }
            let mut output = step.output.as_str().to_owned();
            if let Some(name) = &column.output {
                let text = self.statements.text_columns.contains(name);
                if text {
                    output = output_text(&step.output);
                }
                set.push_str(&format!(", {} = $5::text{}", quote(name), if text { "" } else { "::json" }));
            }
            let more: &[Param<'_>] = if column.output.is_some() { &[(&output, Type::TEXT)] } else { &[] };
            let written = match self.leases.of(&step.lease) {
                Some(held) => self.write(&mut link, &held, &set, more).await?,
                None => false,
            };
            answers.push(if written { Written::Done } else { Written::Lost });
        }
        Ok(answers)
    }

    async fn settle_once(&self, settlements: &[Settlement]) -> Result<Vec<Written>, Fault> {
        let mut link = self.connections.reserved_link().await?;
        let now = now(&mut link, self.connections.given_now()).await?;
        let mut answers = Vec::with_capacity(settlements.len());
        for Settlement { lease, outcome } in settlements {
            let Some(held) = self.leases.of(lease) else {
                answers.push(Written::Lost);
                continue;
            };
            let (set, next, word) = self.settlement(outcome, &held, now);
            let more: &[Param<'_>] = if next.is_some() { &[(&next, Type::INT8)] } else { &[] };
            let done = self.write(&mut link, &held, &set, more).await?
                || self.settled_before(&mut link, &held, word).await?;
            answers.push(if done { Written::Done } else { Written::Lost });
        }
        Ok(answers)
    }

    /// A final word that the same lease has written: the answer was lost.
    async fn settled_before(&self, link: &mut Link, held: &Held, word: Option<&str>) -> Result<bool, Fault> {
        let Some(word) = word else { return Ok(false) };
        let params: [Param<'_>; 4] = [
            (&held.row_id, Type::TEXT),
            (&word, Type::TEXT),
            (&held.owner, Type::TEXT),
            (&held.column_fence, Type::INT8),
        ];
        Ok(!link.rows(&self.statements.settled, &params).await?.is_empty())
    }

    /// What an outcome sets, the moment of the next attempt for `$5`, and the
    /// word when it is final.
    fn settlement(&self, outcome: &Outcome, held: &Held, now: Time) -> (String, Option<i64>, Option<&str>) {
        let words = &self.mapping.words;
        match outcome {
            Outcome::Completed { .. } => (self.end(&words.done, ""), None, Some(&words.done)),
            Outcome::Failed { error } => (self.end(&words.failed, error), None, Some(&words.failed)),
            Outcome::Canceled => {
                let word = self.mapping.canceled_word();
                (self.end(word, "canceled"), None, Some(word))
            }
            Outcome::Retry { error, when } => match self.mapping.retry_rule().delay_ms(held.tries) {
                None => (self.end(&words.failed, error), None, Some(&words.failed)),
                Some(delay_ms) => {
                    let at = when.unwrap_or(Start::AfterMs(delay_ms)).moment(now);
                    (self.requeue(false, Some(error)), Some(at.ms()), None)
                }
            },
            Outcome::Parked { until } => (self.requeue(true, None), Some(until.moment(now).ms()), None),
            Outcome::Released => (self.requeue(true, None), Some(now.ms()), None),
        }
    }

    /// A row that is over keeps its owner, so that a repeated settlement is known.
    fn end(&self, word: &str, error: &str) -> String {
        let mapping = &self.mapping;
        let mut set = format!(
            "{} = {}, {} = NULL",
            quote(&mapping.status),
            literal(word),
            quote(&mapping.locked_until)
        );
        if let Some(column) = &mapping.error {
            let error = if error.is_empty() { "NULL".to_owned() } else { literal(&bounded_error(error)) };
            set.push_str(&format!(", {} = {error}", quote(column)));
        }
        set
    }

    fn requeue(&self, give_back: bool, error: Option<&String>) -> String {
        let mapping = &self.mapping;
        let mut set = format!(
            "{} = {}, {} = NULL, {} = NULL, {} = {}",
            quote(&mapping.status),
            literal(&mapping.words.retry),
            quote(&mapping.owner),
            quote(&mapping.locked_until),
            quote(&mapping.next_attempt),
            self.statements.next_attempt("$5"),
        );
        if give_back {
            let tries = quote(&mapping.tries);
            set.push_str(&format!(", {tries} = greatest(t.{tries} - 1, 0)"));
        }
        if let (Some(column), Some(error)) = (&mapping.error, error) {
            set.push_str(&format!(", {} = {}", quote(column), literal(&bounded_error(error))));
        }
        set
    }

    async fn expire_once(&self) -> Result<Expired, Fault> {
        let now = self.connections.given_now();
        let mut link = self.connections.reserved_link().await?;
        let params: [Param<'_>; 3] = [
            (&now, Type::INT8),
            (&i64::from(self.mapping.tries_max), Type::INT8),
            (&i64::from(EXPIRE_MAX), Type::INT8),
        ];
        let rows = link.rows(&self.statements.expire, &params).await?;
        let ids = rows.iter().map(|row| Ok(job_id(&self.mapping.table, row.try_get(0)?)));
        let jobs = ids.collect::<Result<Vec<JobId>, Fault>>()?;
        let next = link.row(&self.statements.next_expiry, &params[..1]).await?;
        let next_in_ms = next.try_get::<_, Option<i64>>(0)?.map(|ms| ms.max(0) as u64);
        Ok(Expired { jobs, next_in_ms })
    }
}

async fn now(link: &mut Link, given: Option<i64>) -> Result<Time, Fault> {
    let row = link.row(include_str!("../../sql/adopted/now.sql"), &[(&given, Type::INT8)]).await?;
    Ok(Time::from_ms(row.try_get(0)?))
}

#[async_trait]
impl Source for AdoptedTable {
    async fn claim(&self, request: ClaimRequest) -> Result<ClaimAnswer, StoreError> {
        windlass_core::book::claim::check(&request)?;
        call!(self.connections, self.claim_once(&request))
    }

    async fn renew(&self, leases: Vec<LeaseRef>) -> Result<RenewAnswer, StoreError> {
        call!(self.connections, self.renew_once(&leases))
    }

    /// A row that somebody else ended is lost, which a renewal tells.
    async fn cancels(&self, _leases: Vec<LeaseRef>) -> Result<Vec<JobId>, StoreError> {
        Ok(Vec::new())
    }

    async fn store_steps(&self, steps: Vec<StepWrite>) -> Result<Vec<Written>, StoreError> {
        call!(self.connections, self.store_steps_once(&steps))
    }

    async fn progress(&self, _reports: Vec<ProgressWrite>) -> Result<Vec<Written>, StoreError> {
        Err(StoreError::Unsupported("keep progress: the table has no place for it"))
    }

    async fn settle(&self, settlements: Vec<Settlement>) -> Result<Vec<Written>, StoreError> {
        call!(self.connections, self.settle_once(&settlements))
    }

    async fn expire(&self) -> Result<Expired, StoreError> {
        call!(self.connections, self.expire_once())
    }

    async fn spend(&self, _budget: BudgetName, _amount: u32) -> Result<Spent, StoreError> {
        Err(StoreError::Unsupported("keep budgets"))
    }

    async fn cool_down(&self, _budget: BudgetName, _for_ms: u64) -> Result<(), StoreError> {
        Err(StoreError::Unsupported("keep budgets"))
    }

    /// Nobody tells of new rows: workers find them by asking.
    fn on_work(&self, _wake: WakeFn) {}
}
