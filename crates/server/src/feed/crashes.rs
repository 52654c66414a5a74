//! Keeps the last crashes of workers, so that a server which starts knows of them without the events.

use windlass_engine::core::error::StoreError;
use windlass_engine::core::record::{BatchAnswer, RecordBatch, Records};
use windlass_engine::world::new_id;
use windlass_report::crashes::record;

use crate::api::Api;

/// How often it is tried when another server writes the same.
const TRIES: usize = 3;

/// Writes down what has changed.
pub(super) async fn write(api: &Api) {
    let Ok(records) = api.store.records() else { return };
    if !api.feed.crashes(|crashes| crashes.is_due()) {
        return;
    }
    if let Err(error) = write_on(api, records).await {
        tracing::warn!(%error, "the last crashes of workers are not kept; trying again");
    }
}

async fn write_on(api: &Api, records: &dyn Records) -> Result<(), StoreError> {
    for _ in 0..TRIES {
        let there = record(records).await?;
        let (write, position) = api.feed.crashes(|crashes| crashes.to_keep(there.as_ref()))?;
        let mut batch = RecordBatch::new(new_id(&*api.world).0);
        batch.writes.push(write);
        let answer = records.write(batch).await;
        let done = matches!(answer, Ok(BatchAnswer::Done { .. }));
        api.feed.crashes(|crashes| match done {
            true => crashes.kept(position),
            false => crashes.not_kept(),
        });
        if answer.map(|_| done)? {
            return Ok(());
        }
    }
    // Others write at the same time: the next minute is soon enough.
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use windlass_engine::core::id::{Kind, QueueName, WorkerName};
    use windlass_engine::core::job::{JobSpec, NewJob, Start};
    use windlass_engine::core::json::Json;
    use windlass_engine::core::memory::MemoryStore;
    use windlass_engine::core::query::WorkerStatus;
    use windlass_engine::core::store::{ClaimRequest, Source, Store, WorkerBeat};
    use windlass_engine::core::time::Time;
    use windlass_engine::world::{SimWorld, World, new_id};
    use windlass_report::crashes::Crashes;

    use super::super::read_on;
    use super::*;
    use crate::settings::Settings;

    fn name(name: &str) -> WorkerName {
        WorkerName::new(name).unwrap()
    }

    fn worker(worker: &str, host: Option<&str>) -> WorkerStatus {
        WorkerStatus {
            name: name(worker),
            queues: Vec::new(),
            kinds: None,
            slots: 1,
            running: 0,
            version: None,
            host: host.map(str::to_owned),
            started_at: Time::from_ms(0),
            seen_at: Time::from_ms(0),
        }
    }

    struct House {
        world: SimWorld,
        store: Arc<MemoryStore>,
    }

    impl House {
        fn server(&self) -> Api {
            let world: Arc<dyn World> = Arc::new(self.world.clone());
            Api::new(self.store.clone(), Settings::default(), world)
        }

        /// A worker of a host takes a job, and is not heard of again.
        async fn crash(&self, worker: &str, host: &str) {
            let (queues, world) = (vec![QueueName::default()], &self.world);
            let (version, host) = (None, Some(host.to_owned()));
            let beat = WorkerBeat {
                name: name(worker),
                queues: queues.clone(),
                kinds: None,
                slots: 1,
                running: 1,
                version,
                host,
            };
            self.store.beat(beat).await.unwrap();
            let spec = JobSpec::new(Kind::new("k").unwrap(), QueueName::default(), Json::null());
            let job = NewJob { id: new_id(world), spec, start: Start::Now };
            self.store.enqueue(vec![job]).await.unwrap();
            let request_id = new_id(world).0;
            let request = ClaimRequest {
                request_id,
                worker: name(worker),
                queues,
                kinds: None,
                limit: 1,
                lease_ms: Some(1_000),
            };
            assert_eq!(self.store.claim(request).await.unwrap().leases.len(), 1);
            // It is marked first, and taken when it has run out.
            for _ in 0..2 {
                world.advance(2_000);
                self.store.expire().await.unwrap();
            }
        }
    }

    fn of(api: &Api, name: &str, host: &str) -> Option<WorkerName> {
        api.feed.crashes(|crashes| crashes.of(&worker(name, Some(host)))).map(|crash| crash.worker)
    }

    /// A server that was not there when a worker crashed knows of it: from the record, and from the events behind that.
    #[tokio::test]
    async fn crashes_outlive_a_restart_and_are_the_same_through_every_server() {
        let world = SimWorld::new(1);
        let house = House { store: Arc::new(MemoryStore::new(Arc::new(world.clone()))), world };
        house.crash("a-1", "a").await;
        let (first, mut at) = (house.server(), None);
        read_on(&first, &mut at).await.unwrap();
        assert_eq!(of(&first, "a-2", "a"), Some(name("a-1")), "before it was started");
        house.crash("b-1", "b").await;
        read_on(&first, &mut at).await.unwrap();
        write(&first).await;
        drop(first);
        // What is kept needs no events.
        house.store.book().keep_events(0);
        house.crash("c-1", "c").await;
        let (second, third) = (house.server(), house.server());
        for server in [&second, &third] {
            read_on(server, &mut None).await.unwrap();
            let found = ["a", "b", "c"].map(|host| of(server, "x", host));
            assert_eq!(found, ["a-1", "b-1", "c-1"].map(|worker| Some(name(worker))));
        }
        // Whoever asks without a server is told the same.
        let known = Crashes::of_store(&*house.store).await.unwrap();
        assert_eq!(known.of(&worker("x", Some("c"))).map(|crash| crash.worker), Some(name("c-1")));
        assert!(second.feed.crashes(|crashes| crashes.is_due()), "the third crash is not kept yet");
        write(&second).await;
        write(&third).await;
        let fourth = house.server();
        house.store.book().keep_events(0);
        read_on(&fourth, &mut None).await.unwrap();
        assert_eq!(of(&fourth, "x", "c"), Some(name("c-1")));
        assert!(!fourth.feed.crashes(|crashes| crashes.is_due()), "nothing is new");
    }
}
