//! Group commit: stages that end at the same moment are stored together. Whoever comes
//! first writes for all who have gathered, and nobody waits for company.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use tokio::sync::{Semaphore, oneshot};
use windlass_engine::core::decorate::SourceDecorator;
use windlass_engine::core::error::StoreError;
use windlass_engine::core::store::{Capabilities, Source, StepWrite, Written};

/// How many writes are under way at once. While one is, the next gather: that is
/// fewer statements for the database, which has more to do than the worker.
const TURNS: usize = 1;
/// How many stages one write carries.
const BATCH_MAX: usize = 256;

type Answer = Result<Written, StoreError>;

/// The table, and the stages that wait to be stored in it.
pub(crate) struct Together {
    source: Arc<dyn Source>,
    waiting: Mutex<Vec<(StepWrite, oneshot::Sender<Answer>)>>,
    turns: Semaphore,
}

impl Together {
    pub(crate) fn new(source: Arc<dyn Source>) -> Arc<Self> {
        Arc::new(Self { source, waiting: Mutex::default(), turns: Semaphore::new(TURNS) })
    }

    /// Stores a stage.
    async fn store(&self, step: StepWrite) -> Answer {
        loop {
            let (tell, told) = oneshot::channel();
            self.waiting().push((step.clone(), tell));
            // Who wrote for us may have been stopped half-way: a guarded write may be repeated.
            if let Ok(answer) = self.answer(told).await {
                return answer;
            }
        }
    }

    /// Waits for the answer, and writes for all when it is our turn.
    async fn answer(&self, mut told: oneshot::Receiver<Answer>) -> Result<Answer, oneshot::error::RecvError> {
        loop {
            let turn = tokio::select! {
                biased;
                answer = &mut told => return answer,
                turn = self.turns.acquire() => turn,
            };
            let gathered = self.gather();
            if gathered.is_empty() {
                // Ours is being written by another.
                drop(turn);
                return told.await;
            }
            self.write(gathered).await;
        }
    }

    fn gather(&self) -> Vec<(StepWrite, oneshot::Sender<Answer>)> {
        let mut waiting = self.waiting();
        let count = waiting.len().min(BATCH_MAX);
        waiting.drain(..count).collect()
    }

    async fn write(&self, gathered: Vec<(StepWrite, oneshot::Sender<Answer>)>) {
        let (steps, tell): (Vec<_>, Vec<_>) = gathered.into_iter().unzip();
        let answers = match self.source.store_steps(steps.clone()).await {
            Ok(answers) => answers.into_iter().map(Ok).collect(),
            // One of them will never be taken. Each by itself: the others are not at fault.
            Err(error) if !error.is_transient() && steps.len() > 1 => self.write_each(steps).await,
            Err(error) => vec![Err(error); tell.len()],
        };
        for (tell, answer) in tell.into_iter().zip(answers) {
            // Who was stopped meanwhile does not ask any more.
            let _ = tell.send(answer);
        }
    }

    async fn write_each(&self, steps: Vec<StepWrite>) -> Vec<Answer> {
        let mut answers = Vec::with_capacity(steps.len());
        for step in steps {
            let answer = self.source.store_steps(vec![step]).await;
            answers.push(answer.map(|written| written.first().copied().unwrap_or(Written::Lost)));
        }
        answers
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, Vec<(StepWrite, oneshot::Sender<Answer>)>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl SourceDecorator for Together {
    fn source(&self) -> &dyn Source {
        &*self.source
    }

    /// How often the table is asked is a setting of its operators, whoever tells of new rows.
    fn capabilities(&self) -> Capabilities {
        let Capabilities { tells: _, claims_at_once, shares_commits } = self.source.capabilities();
        Capabilities { tells: false, claims_at_once, shares_commits }
    }

    async fn store_steps(&self, steps: Vec<StepWrite>) -> Result<Vec<Written>, StoreError> {
        futures::future::try_join_all(steps.into_iter().map(|step| self.store(step))).await
    }
}
