//! Group commit for batches of records: those that come while one is being written go together in the next
//! transaction, on one connection. Writes of one shelf go one after the other up to their commit (`records.sql`), so
//! each by itself would wait for the disk of all before it, and take a connection while it waits.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::join_all;
use tokio::sync::oneshot;
use tokio_postgres::types::Type;
use uuid::Uuid;
use windlass_core::error::StoreError;
use windlass_core::record::{BatchAnswer, RecordBatch};

use crate::connect::Connections;
use crate::enqueue::Batch;
use crate::error::{Fault, late};
use crate::link::Param;
use crate::records::{self, Columns};
use crate::store::call;

/// So many batches go together.
const TOGETHER_MAX: usize = 64;
/// With so many writes and jobs: larger ones gain nothing by company.
const TOGETHER_ROWS_MAX: usize = 1_000;
/// So many batches wait at most.
const WAITING_MAX: usize = 10_000;

type Answer = Result<BatchAnswer, StoreError>;

/// Writes batches of records, together where they come together.
pub(crate) struct Scribe(Arc<Shared>);

struct Shared {
    waiting: Mutex<Waiting>,
    connections: Arc<Connections>,
}

#[derive(Default)]
struct Waiting {
    calls: VecDeque<Call>,
    /// Whether somebody writes them.
    served: bool,
}

struct Call {
    batch: RecordBatch,
    answer: oneshot::Sender<Answer>,
}

impl Call {
    fn rows(&self) -> usize {
        self.batch.writes.len() + self.batch.jobs.len()
    }

    /// Whether it may be written with others. Keys of jobs are locked before the runs of leases: in a transaction
    /// that has those of others already, they would come too late.
    fn is_sociable(&self) -> bool {
        self.rows() <= TOGETHER_ROWS_MAX && self.batch.jobs.iter().all(|job| job.spec.key.is_none())
    }
}

impl Scribe {
    pub(crate) fn new(connections: Arc<Connections>) -> Self {
        Self(Arc::new(Shared { waiting: Mutex::default(), connections }))
    }

    /// Writes a batch that was checked.
    pub(crate) async fn write(&self, batch: RecordBatch) -> Answer {
        let answered = Shared::enter(&self.0, batch)?;
        match tokio::time::timeout(self.0.connections.pulse().call_time(), answered).await {
            Ok(answer) => answer.unwrap_or_else(|_| Err(gone())),
            Err(_) => Err(late()),
        }
    }
}

impl Shared {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a batch to those that wait, and begins to write unless somebody does.
    fn enter(shared: &Arc<Self>, batch: RecordBatch) -> Result<oneshot::Receiver<Answer>, StoreError> {
        let runtime = shared.connections.handle()?;
        let mut waiting = shared.waiting();
        if waiting.calls.len() >= WAITING_MAX {
            return Err(StoreError::Busy(format!(
                "{WAITING_MAX} batches of records are waiting to be written. Nothing was changed; ask again later"
            )));
        }
        let (answer, answered) = oneshot::channel();
        waiting.calls.push_back(Call { batch, answer });
        if !std::mem::replace(&mut waiting.served, true) {
            drop(waiting);
            runtime.spawn(Serving { shared: Arc::clone(shared), done: false }.serve());
        }
        Ok(answered)
    }

    /// Those that go together now; none ends the serving.
    fn take(&self) -> Vec<Call> {
        let mut waiting = self.waiting();
        let (mut calls, mut rows): (Vec<Call>, usize) = (Vec::new(), 0);
        while calls.len() < TOGETHER_MAX
            && let Some(call) = waiting.calls.pop_front_if(|call| {
                calls.is_empty() || call.is_sociable() && rows + call.rows() <= TOGETHER_ROWS_MAX
            })
        {
            // Who no longer waits for an answer is not written.
            if call.answer.is_closed() {
                continue;
            }
            rows += call.rows();
            let alone = !call.is_sociable();
            calls.push(call);
            if alone {
                break;
            }
        }
        waiting.served = !calls.is_empty();
        calls
    }

    /// Writes calls in one commit, or one by one when one of them would spoil it for the others.
    async fn write(&self, calls: Vec<Call>) {
        if calls.len() > 1 {
            let batches: Vec<&RecordBatch> = calls.iter().map(|call| &call.batch).collect();
            match self.together(&batches).await {
                Ok(answers) => {
                    for (call, answer) in calls.into_iter().zip(answers) {
                        let _ = call.answer.send(answer);
                    }
                    return;
                }
                Err(
                    error @ (StoreError::Unavailable(_)
                    | StoreError::Busy(_)
                    | StoreError::Full(_)
                    | StoreError::CannotWrite(_)),
                ) => {
                    for call in calls {
                        let _ = call.answer.send(Err(error.clone()));
                    }
                    return;
                }
                // One of them is refused: each hears of its own.
                Err(_) => {}
            }
        }
        for call in calls {
            let answer = self.alone(&call.batch).await;
            let _ = call.answer.send(answer);
        }
    }

    async fn alone(&self, batch: &RecordBatch) -> Answer {
        let connections = &self.connections;
        call!(connections, async {
            let link = connections.link().await?;
            let jobs = Batch::of(&batch.jobs);
            let columns = Columns::of(batch, &jobs, connections.given_now());
            let row = link.row(records::WRITE, &columns.params()).await?;
            records::answer_of(batch, &row)
        })
    }

    /// One transaction: what all of them lock is locked first, in the order in which others do.
    async fn together(&self, batches: &[&RecordBatch]) -> Result<Vec<Answer>, StoreError> {
        let connections = &self.connections;
        let shelves: Vec<&str> =
            batches.iter().flat_map(|batch| batch.writes.iter().map(|write| write.shelf.as_str())).collect();
        let leases: Vec<Uuid> =
            batches.iter().filter_map(|batch| batch.lease).map(|lease| lease.job_id.0).collect();
        let rows = call!(connections, async {
            let (link, now) = (connections.link().await?, connections.given_now());
            let jobs: Vec<Batch<'_>> = batches.iter().map(|batch| Batch::of(&batch.jobs)).collect();
            let columns: Vec<Columns<'_>> =
                batches.iter().zip(&jobs).map(|(batch, jobs)| Columns::of(batch, jobs, now)).collect();
            let params: Vec<Vec<Param<'_>>> = columns.iter().map(Columns::params).collect();
            let types: Vec<Type> = params[0].iter().map(|(_, kind)| kind.clone()).collect();
            link.prepare(records::LOCK, &[Type::TEXT_ARRAY, Type::UUID_ARRAY]).await?;
            link.prepare(records::WRITE, &types).await?;
            let lock: [Param<'_>; 2] = [(&shelves, Type::TEXT_ARRAY), (&leases, Type::UUID_ARRAY)];
            // Sent together, in this order: one round trip.
            let writes = join_all(params.iter().map(|params| link.row(records::WRITE, params)));
            let (begun, locked, rows, committed) =
                tokio::join!(link.begin(), link.rows(records::LOCK, &lock), writes, link.commit());
            begun?;
            locked?;
            let rows = rows.into_iter().collect::<Result<Vec<_>, Fault>>()?;
            committed?;
            Ok::<_, Fault>(rows)
        })?;
        let answers = batches.iter().zip(&rows);
        Ok(answers
            .map(|(batch, row)| records::answer_of(batch, row).map_err(crate::connect::settled))
            .collect())
    }
}

/// Writes what waits until there is nothing.
struct Serving {
    shared: Arc<Shared>,
    done: bool,
}

impl Serving {
    async fn serve(mut self) {
        loop {
            let calls = self.shared.take();
            if calls.is_empty() {
                self.done = true;
                return;
            }
            self.shared.write(calls).await;
        }
    }
}

impl Drop for Serving {
    /// Ended half-way, with the runtime: those that wait hear that nobody comes.
    fn drop(&mut self) {
        if !self.done {
            let mut waiting = self.shared.waiting();
            waiting.served = false;
            waiting.calls.clear();
        }
    }
}

fn gone() -> StoreError {
    StoreError::Unavailable("the store was closed before the records were written".to_owned())
}
