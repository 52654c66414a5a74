//! Windlass as a user has it: a client, a worker, a store. `--limit N` sets a
//! limit on the queue, `--keys N` spreads the jobs over so many keys,
//! `--budget N` makes every job spend of a budget with so many slots.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use peer::{Ask, Fault, Peer, Work};
use windlass::prelude::*;
use windlass::{BudgetName, BudgetPolicy, QueueName, QueuePolicy};

#[derive(Serialize, Deserialize)]
#[serde(transparent)]
struct Bench(Work);

impl Job for Bench {
    const KIND: &'static str = "bench";
    type Output = ();
}

struct Windlass {
    store: Arc<dyn Store>,
    client: Client,
    slots: usize,
    keys: u64,
    budget: bool,
    made: AtomicU64,
}

impl Peer for Windlass {
    async fn connect(ask: &Ask) -> Result<Self, Fault> {
        let store = windlass::open(&ask.url).await?;
        if let Some(limit) = ask.text("limit") {
            let policy = QueuePolicy { limit: Some(limit.parse()?), ..QueuePolicy::default() };
            store.put_queue(QueueName::default(), policy).await?;
        }
        if let Some(slots) = ask.text("budget") {
            let policy = BudgetPolicy { slots: Some(slots.parse()?), ..BudgetPolicy::default() };
            store.put_budget(BudgetName::new("bench")?, policy).await?;
        }
        Ok(Self {
            client: Client::new(store.clone()),
            store,
            slots: ask.number("slots", 2_000) as usize,
            keys: ask.number("keys", 0),
            budget: ask.text("budget").is_some(),
            made: AtomicU64::new(0),
        })
    }

    async fn enqueue(&self, work: Work) -> Result<(), Fault> {
        self.client.enqueue(self.job(work)).await?;
        Ok(())
    }

    async fn enqueue_many(&self, work: Vec<Work>) -> Result<(), Fault> {
        self.client.enqueue_many(work.into_iter().map(|work| self.job(work))).await?;
        Ok(())
    }

    async fn work(&self) -> Result<(), Fault> {
        let worker =
            Worker::new(self.store.clone()).slots(self.slots).handle(async |Bench(work): Bench, _: Context| {
                peer::ran(&work);
                Ok(())
            });
        tokio::spawn(worker.run_until_signal());
        Ok(())
    }
}

impl Windlass {
    fn job(&self, work: Work) -> JobRequest<()> {
        let mut job = JobRequest::of(&Bench(work));
        if self.keys > 0 {
            let key = self.made.fetch_add(1, Ordering::Relaxed) % self.keys;
            job = job.key(format!("key-{key}"));
        }
        if self.budget {
            job = job.budget("bench");
        }
        job
    }
}

fn main() {
    peer::contest::<Windlass>();
}
