//! Without a verb: work.

use windlass_app::log::LogForm;
use windlass_app::{AppError, Exit, Host, Stop};

use super::{is_migrated, knows_our_words, pool, start_logging};
use crate::mapping::mapping;
use crate::schema::Types;
use crate::settings::Settings;
use crate::worker::{NurseTour, Wiring};

/// Works until SIGTERM or SIGINT.
pub(crate) async fn run(host: &Host, log: LogForm) -> Result<Exit, AppError> {
    let stop = Stop::on_signals()?;
    let settings = Settings::read(&host.environment)?;
    let pool = pool(host, &settings.database_url)?;
    is_migrated(&pool).await?;
    knows_our_words(&pool).await?;
    let mapping = mapping(&settings.worker, &Types::read(&pool).await?);
    let source = host.stores.adopt(&settings.database_url, mapping).await?;
    let worker = NurseTour::new(Wiring { source, pool, world: host.world.clone() }, settings)?;
    start_logging(host, log, Some((worker.name().to_owned(), worker.names())));
    worker.run(stop.wait()).await?;
    Ok(Exit::DONE)
}
