//! The service: its parts, how they start, and the order in which they end.

use std::sync::Arc;

use tokio::sync::mpsc;
use windlass_app::door::{Guarded, bind};
use windlass_app::{AppError, Environment, Parts, Stop};
use windlass_engine::Handler;
use windlass_engine::world::{RealWorld, World};

use crate::context::{Context, Ends};
use crate::home::Home;
use crate::http;
use crate::keeper;
use crate::recovery;
use crate::runner::{self, Handlers, Jobs};
use crate::settings::{DoorSettings, JobsTarget, Place, Work};
use crate::status_writer;
use crate::stream::{catch_up, shared};
use crate::token::Token;

/// Lanes that may wait to join at once.
const WISHES_MAX: usize = 4;
/// How long parts may take to end, from the moment on at which that is asked for: all must be over in five seconds,
/// also when the server is away. Between the two the locks are released, within a second.
const PART_END_MS_MAX: u64 = 2_500;
const JOBS_END_MS_MAX: u64 = 4_500;

/// The service in a program of one's own, which runs jobs by functions.
///
/// ```no_run
/// # use windlass_engine::{Context, Failure, Handler, Json};
/// # use windlass_app::Environment;
/// struct Process;
///
/// #[async_trait::async_trait]
/// impl Handler for Process {
///     async fn run(&self, context: Context) -> Result<Option<Json>, Failure> {
///         let data: serde_json::Value = context.payload_as()?;
///         println!("{} was changed", data["documentId"]);
///         Ok(None)
///     }
/// }
///
/// # async fn run() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
/// let environment = Environment::of_process();
/// windlass_listener::Service::new(environment).handle("processBatchResults", Process).run().await?;
/// # Ok(())
/// # }
/// ```
#[must_use]
pub struct Service {
    environment: Environment,
    world: Arc<dyn World>,
    handlers: Handlers,
}

impl Service {
    /// With the settings of an environment ([`crate::settings::TABLE`]).
    pub fn new(environment: Environment) -> Self {
        Self { environment, world: Arc::new(RealWorld::new()), handlers: Handlers::default() }
    }

    /// In another world: another clock, other chances.
    pub fn in_world(mut self, world: Arc<dyn World>) -> Self {
        self.world = world;
        self
    }

    /// Runs the jobs of a kind by a handler.
    pub fn handle(mut self, kind: &str, handler: impl Handler) -> Self {
        self.handlers.add(kind, Arc::new(handler));
        self
    }

    /// Runs until the process is told to end (SIGTERM, SIGINT).
    pub async fn run(self) -> Result<(), AppError> {
        run(&self.environment, self.world, self.handlers).await
    }
}

/// Connects, takes a name, loads the listeners, opens the stream, and begins its rounds; ends in the order of rounds,
/// streams, locks, jobs, door.
async fn run(environment: &Environment, world: Arc<dyn World>, handlers: Handlers) -> Result<(), AppError> {
    let (place, work, door) =
        (Place::read(environment)?, Work::read(environment)?, DoorSettings::read(environment)?);
    let jobs = work.config.as_deref().map(Jobs::read).transpose()?;
    let guarded =
        Guarded { by_token: door.token.is_some(), listen: "LISTENER_LISTEN", token: "LISTENER_TOKEN" };
    let socket = bind(&door.listen, guarded).await?;
    let home = Home::open(&place, world).await?;
    home.ensure_indexes().await?;
    if home.target == JobsTarget::Windlass {
        home.store().await?;
    }
    let stop = Stop::on_signals()?;
    let start = Token::before(home.after_everything().await?);
    let (context, Ends { behind, statuses }) = Context::new(home, work, stop.clone());
    context.shared.send_replace(Some(start.clone()));
    keeper::beat(&context).await?;
    tracing::info!(instance = %context.instance, address = %socket.local_addr()?, "The listener has started");
    let rows = context.home.clone();
    let (wishes, granted) = mpsc::channel(WISHES_MAX);
    let [c1, c2, c3, c4, c5, c6, c7, c8] = std::array::from_fn(|_| context.clone());
    let life = Life { stop: stop.clone(), world: rows.world.clone(), end_ms_max: PART_END_MS_MAX };
    let parts = Parts::new(stop)
        .with("claims", |told| life.of("claims", told, keeper::claims(c1)))
        .with("recovery", |told| life.of("recovery", told, recovery::run(c2)))
        .with("stream", |told| life.of("stream", told, shared::run(c3, start, granted)))
        .with("catching up", |told| life.of("catching up", told, catch_up::run(c4, behind, wishes)))
        .with("status writer", |told| life.of("status writer", told, status_writer::run(c5, statuses)))
        .with("heartbeats", |told| life.of("heartbeats", told, keeper::heartbeats(c6)))
        .then("locks", |told| async move {
            told.wait().await;
            keeper::release_all(&c7).await;
            Ok::<(), AppError>(())
        })
        .then("jobs", |told| {
            let life = Life { end_ms_max: JOBS_END_MS_MAX, ..life.clone() };
            life.of("jobs", told.clone(), runner::run(rows, jobs, handlers, told))
        })
        .then("door", |told| http::serve(c8, door, socket, told));
    parts.run().await?;
    tracing::info!("The listener has ended");
    Ok(())
}

/// How long parts live.
#[derive(Clone)]
struct Life {
    stop: Stop,
    world: Arc<dyn World>,
    /// How long a part may take to end once that is asked for.
    end_ms_max: u64,
}

impl Life {
    /// A part that knows by the context that it is time to end has ended rightly once it is told, too. One that fails,
    /// or that ends although nobody asked for it, is said so at once. One that cannot end, since the server is away, is
    /// dropped in time: what it holds is fenced, and left to a successor.
    fn of<F: Future<Output = Result<(), AppError>>>(
        &self,
        name: &'static str,
        told: Stop,
        part: F,
    ) -> impl Future<Output = Result<(), AppError>> + use<F> {
        let Self { stop, world, end_ms_max } = self.clone();
        async move {
            let late = async {
                stop.wait().await;
                world.sleep_ms(end_ms_max).await;
            };
            tokio::select! {
                ended = part => ended?,
                () = late => tracing::warn!(part = name, "A part does not end in time, and is dropped"),
            }
            if stop.is_asked() {
                told.wait().await;
            }
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use windlass_engine::world::SimWorld;

    use super::*;

    fn life() -> (Life, SimWorld) {
        let world = SimWorld::new(1);
        let life =
            Life { stop: Stop::default(), world: Arc::new(world.clone()), end_ms_max: PART_END_MS_MAX };
        (life, world)
    }

    /// Whoever reads no more although nobody asked for it must not look alive: its heartbeats would keep its locks.
    #[tokio::test]
    async fn a_part_that_ends_by_itself_does_not_wait_to_be_told() {
        let (life, _world) = life();
        let parts =
            Parts::new(life.stop.clone()).with("stream", |told| life.of("stream", told, async { Ok(()) }));
        let why = parts.run().await.unwrap_err().to_string();
        assert!(why.contains("stream"), "{why}");
    }

    #[tokio::test]
    async fn a_part_that_cannot_end_is_dropped_in_time() {
        let (life, world) = life();
        let stuck = std::future::pending::<Result<(), AppError>>();
        let parts = Parts::new(life.stop.clone()).with("stream", |told| life.of("stream", told, stuck));
        life.stop.ask();
        let (ended, ()) = tokio::join!(parts.run(), async {
            for _ in 0..PART_END_MS_MAX {
                world.step(PART_END_MS_MAX).await;
            }
        });
        ended.unwrap();
    }
}
