//! The worker: everything put together, until it is told to stop.

use std::future::Future;
use std::sync::{Arc, Mutex};

use deadpool_postgres::Pool;
use url::Url;
use windlass_app::door::{DoorError, Guarded, bind};
use windlass_app::{PartError, Parts, Stop};
use windlass_engine::core::store::Source;
use windlass_engine::world::World;
use windlass_engine::{Summary, Worker, WorkerError};
use windlass_outside::objects::{CloudSettings, Objects, ObjectsError};
use windlass_outside::openai::OpenAi;
use windlass_outside::safe_http::{Guard, Http, Limits, Refusal};
use windlass_outside::twilio::Twilio;

use crate::gate::Gate;
use crate::job::VoiceMessages;
use crate::mapping::{KIND, QUEUE};
use crate::meter::Meter;
pub use crate::names::Names;
use crate::people::People;
use crate::probe::Probe;
use crate::settings::{self, AudioStore, Settings};
use crate::stops::Stops;
use crate::together::Together;
use crate::watch::Watch;

/// How large an answer of OpenAI's may be.
const ANSWER_BYTES_MAX: u64 = 8_000_000;

/// What a worker is given by whoever starts it.
pub struct Wiring {
    /// Where the messages are claimed from: a table with [`crate::mapping::mapping`].
    pub source: Arc<dyn Source>,
    /// Connections to the same database, for questions of the app's own.
    pub pool: Pool,
    /// Clock and chance.
    pub world: Arc<dyn World>,
}

/// Why a worker could not start, or had to end.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The address of a provider cannot be used.
    #[error("{name} cannot be used: {why}")]
    Address {
        /// The setting.
        name: &'static str,
        /// Why not.
        why: Refusal,
    },
    /// The archive of audio cannot be used.
    #[error(
        "the audio store cannot be used: {0}; check AUDIO_STORE_URL, or the bucket and PRIVATE_OBJECT_DIR"
    )]
    Objects(ObjectsError),
    /// Health and metrics cannot be served.
    #[error(transparent)]
    Door(#[from] DoorError),
    /// A part of it failed.
    #[error(transparent)]
    Part(#[from] PartError),
}

// By hand: as its source it would be said twice.
impl From<ObjectsError> for RunError {
    fn from(error: ObjectsError) -> Self {
        Self::Objects(error)
    }
}

/// A worker that is ready to run.
pub struct NurseTour {
    worker: Worker,
    watch: Watch,
    gate: Arc<Gate>,
    names: Arc<Names>,
    name: String,
    settings: settings::Worker,
}

impl NurseTour {
    /// Puts a worker together. Nothing is asked of anybody yet.
    pub fn new(wiring: Wiring, settings: Settings) -> Result<Self, RunError> {
        let Wiring { source, pool, world } = wiring;
        let (meter, names) = (Arc::new(Meter::default()), Arc::new(Names::default()));
        let name = settings.worker.id.clone().unwrap_or_else(|| made_up_name(&*world));
        let http = Http::new(guard(&settings)?);
        let address = |name| move |why| RunError::Address { name, why };
        let probe = Probe {
            twilio: twilio(&http, &settings).map_err(address("TWILIO_BASE_URL"))?,
            openai: openai(&http, &settings).map_err(address("OPENAI_BASE_URL"))?,
            objects: objects(&settings.audio)?,
            settings: settings.openai.clone(),
        };
        let Probe { twilio, openai, objects, settings: models } = probe.clone();
        let stops = Stops::new(pool.clone(), name.clone());
        let gate = Gate::new(world.clone(), meter.clone(), stops, probe, names.clone());
        let handler = VoiceMessages {
            twilio,
            openai,
            objects,
            settings: models,
            cool_down_max: settings.worker.cool_down_max,
            people: People::new(pool.clone()),
            gate: gate.clone(),
            names: names.clone(),
            meter: meter.clone(),
            world: world.clone(),
        };
        let settings = settings.worker;
        let token = settings.listen_token.clone();
        let watch =
            Watch { pool, gate: gate.clone(), meter, world: world.clone(), token, seen: Mutex::default() };
        let worker = Worker::from_source(Together::new(source))
            .admission(gate.clone())
            .in_world(world)
            .name(&name)
            .queues([QUEUE])
            .handle_kind(KIND, handler)
            .slots(settings.concurrency)
            .claim_max(settings.batch_size)
            .lease(settings.lock)
            .grace(settings.grace)
            .poll(settings.poll);
        Ok(Self { worker, watch, gate, names, name, settings })
    }

    /// Which message a job of this worker is, for the log.
    pub fn names(&self) -> Arc<Names> {
        self.names.clone()
    }

    /// The worker's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Works until `shutdown` is done: then it claims no more, lets running
    /// stages finish within their grace, gives back the rest and returns.
    pub async fn run(self, shutdown: impl Future<Output = ()> + Send + 'static) -> Result<Summary, RunError> {
        let Self { worker, watch, gate, names: _, name, settings } = self;
        let listener = match settings.listen {
            Some(address) => Some(bind(&address.to_string(), guarded(&settings)).await?),
            None => None,
        };
        tracing::info!(
            workerId = name,
            pollIntervalMs = settings.poll.as_millis() as u64,
            batchSize = settings.batch_size,
            concurrency = settings.concurrency,
            lockMs = settings.lock.as_millis() as u64,
            maxRetries = settings.max_retries,
            "Worker starting"
        );
        let stop = Stop::default();
        let told_to_end = gate.clone();
        stop.after(async move {
            shutdown.await;
            tracing::info!("Shutdown requested: claiming stopped");
            told_to_end.ending();
        });
        let (tell, told) = tokio::sync::oneshot::channel();
        let mut parts = Parts::new(stop).with("worker", |stop| async move {
            gate.start().await;
            let summary = worker.run_until(stop.wait()).await;
            gate.end().await;
            // Should nobody wait for it, the work was done all the same.
            let _ = tell.send(summary?);
            Ok::<(), WorkerError>(())
        });
        // It tells how the worker is until the worker has ended.
        if let Some(listener) = listener {
            parts = parts.then("door", |stop| async move { watch.door().serve(listener, stop.wait()).await });
        }
        parts.run().await?;
        let Summary { claimed, settled, lost, stuck } = told.await.unwrap_or_default();
        tracing::info!(claimed, settled, lost, stuck, "Worker stopped");
        Ok(Summary { claimed, settled, lost, stuck })
    }
}

fn guarded(settings: &settings::Worker) -> Guarded {
    let by_token = settings.listen_token.is_some();
    Guarded { by_token, listen: "WORKER_HTTP_LISTEN", token: "WORKER_HTTP_TOKEN" }
}

/// Public hosts, the configured bases, and what the operator put on the list.
fn guard(settings: &Settings) -> Result<Guard, RunError> {
    let mut guard = Guard::new();
    let bases: [(&'static str, &Url); 2] =
        [("TWILIO_BASE_URL", &settings.twilio.base), ("OPENAI_BASE_URL", &settings.openai.base)];
    let listed = settings.allow_origins.iter().map(|url| ("WORKER_ALLOW_ORIGINS", url));
    for (name, url) in bases.into_iter().chain(listed) {
        guard = guard.allow(url).map_err(|why| RunError::Address { name, why })?;
    }
    Ok(guard)
}

fn twilio(http: &Http, settings: &Settings) -> Result<Twilio, Refusal> {
    let settings::Twilio { account, token, base, timeout } = &settings.twilio;
    let limits = Limits { total: *timeout, bytes_max: u64::MAX, ..Limits::default() };
    Twilio::new(http.clone(), base.clone(), account, token, limits)
}

fn openai(http: &Http, settings: &Settings) -> Result<OpenAi, Refusal> {
    let limits = Limits { total: settings.openai.timeout, bytes_max: ANSWER_BYTES_MAX, ..Limits::default() };
    OpenAi::new(http.clone(), settings.openai.base.clone(), settings.openai.key.clone(), limits)
}

fn objects(audio: &AudioStore) -> Result<Objects, ObjectsError> {
    let AudioStore { url, base, token } = audio.clone();
    Objects::open(&url, CloudSettings { base, token, ..CloudSettings::default() })
}

/// Process and time, as the seed has it, and chance: processes of containers all have the same number.
fn made_up_name(world: &dyn World) -> String {
    format!("worker_{}_{}_{:04x}", std::process::id(), world.wall().ms(), world.chance() as u16)
}
