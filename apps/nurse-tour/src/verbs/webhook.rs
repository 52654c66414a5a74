//! `windlass nurse-tour webhook`

use windlass_app::door::{Guarded, bind};
use windlass_app::log::LogForm;
use windlass_app::{AppError, Exit, Host, Parts, Stop};

use super::{is_migrated, pool, start_logging};
use crate::webhook::{self, WebhookSettings};

/// Serves the endpoint that Twilio calls until SIGTERM or SIGINT.
pub(crate) async fn run(host: &Host, log: LogForm) -> Result<Exit, AppError> {
    let stop = Stop::on_signals()?;
    let settings = WebhookSettings::read(&host.environment)?;
    let pool = pool(host, &settings.database_url)?;
    is_migrated(&pool).await?;
    // Every call is signed.
    let guarded = Guarded { by_token: true, listen: "WEBHOOK_LISTEN", token: "TWILIO_AUTH_TOKEN" };
    let listener = bind(&settings.listen.to_string(), guarded).await?;
    start_logging(host, log, None);
    tracing::info!(address = %listener.local_addr()?, "Webhook listening");
    let world = host.world.clone();
    let door = |stop: Stop| webhook::run(listener, stop.wait(), settings, pool, world);
    Parts::new(stop).with("webhook", door).run().await?;
    tracing::info!("Webhook stopped");
    Ok(Exit::DONE)
}
