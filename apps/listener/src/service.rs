//! The service: its parts, how they start, and the order in which they end.

use tokio::sync::mpsc;
use windlass_app::door::{Guarded, bind};
use windlass_app::{AppError, Host, Parts, Stop};

use crate::context::{Context, Ends};
use crate::home::Home;
use crate::http;
use crate::keeper;
use crate::recovery;
use crate::runner::{self, Jobs};
use crate::settings::{DoorSettings, Place, Work};
use crate::status_writer;
use crate::stream::{catch_up, shared};
use crate::token::Token;

/// Lanes that may wait to join at once.
const WISHES_MAX: usize = 4;

/// Connects, takes a name, loads the listeners, opens the stream, and begins its rounds; ends in the order of rounds,
/// streams, locks, jobs, door.
pub(crate) async fn run(host: &Host) -> Result<(), AppError> {
    let (place, work, door) = (
        Place::read(&host.environment)?,
        Work::read(&host.environment)?,
        DoorSettings::read(&host.environment)?,
    );
    let jobs = work.config.as_deref().map(Jobs::read).transpose()?;
    let guarded =
        Guarded { by_token: door.token.is_some(), listen: "LISTENER_LISTEN", token: "LISTENER_TOKEN" };
    let socket = bind(&door.listen, guarded).await?;
    let home = Home::open(&place, host.world.clone()).await?;
    home.ensure_indexes().await?;
    let stop = Stop::on_signals()?;
    let start = Token::before(home.after_everything().await?);
    let (context, Ends { behind, statuses }) = Context::new(home, work, stop.clone());
    context.shared.send_replace(Some(start.clone()));
    keeper::beat(&context).await?;
    tracing::info!(instance = %context.instance, address = %socket.local_addr()?, "The listener has started");
    let rows = context.home.clone();
    let (wishes, granted) = mpsc::channel(WISHES_MAX);
    let [c1, c2, c3, c4, c5, c6, c7, c8] = std::array::from_fn(|_| context.clone());
    let parts = Parts::new(stop)
        .with("claims", |told| until(told, keeper::claims(c1)))
        .with("recovery", |told| until(told, recovery::run(c2)))
        .with("stream", |told| until(told, shared::run(c3, start, granted)))
        .with("catching up", |told| until(told, catch_up::run(c4, behind, wishes)))
        .with("status writer", |told| until(told, status_writer::run(c5, statuses)))
        .with("heartbeats", |told| until(told, keeper::heartbeats(c6)))
        .then("locks", |told| async move {
            told.wait().await;
            keeper::release_all(&c7).await
        })
        .then("jobs", |told| async move {
            match jobs {
                Some(jobs) => runner::run(rows, jobs, told).await,
                None => {
                    told.wait().await;
                    Ok(())
                }
            }
        })
        .then("door", |told| http::serve(c8, door, socket, told));
    parts.run().await?;
    tracing::info!("The listener has ended");
    Ok(())
}

/// A part that knows by the context that it is time to end has ended rightly once it is told, too. One that fails
/// says so at once.
async fn until(told: Stop, part: impl Future<Output = Result<(), AppError>>) -> Result<(), AppError> {
    part.await?;
    told.wait().await;
    Ok(())
}
