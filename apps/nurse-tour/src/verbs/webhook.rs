//! `windlass nurse-tour webhook`

use windlass_app::door::{Guarded, bind};
use windlass_app::log::LogForm;
use windlass_app::{AppError, Exit, Host, Parts, Stop};

use super::{is_away, is_migrated, pool, start_logging};
use crate::webhook::{self, WebhookSettings};

/// Serves the endpoint that Twilio calls until SIGTERM or SIGINT.
pub(crate) async fn run(host: &Host, log: LogForm) -> Result<Exit, AppError> {
    let stop = Stop::on_signals()?;
    let settings = WebhookSettings::read(&host.environment)?;
    let pool = pool(host, &settings.database_url)?;
    // A database that is away is waited for with the door open: then each call is told to come again.
    let migrated = is_migrated(&pool).await;
    let is_away = migrated.as_ref().is_err_and(is_away);
    if !is_away {
        migrated?;
    }
    // Every call is signed.
    let guarded = Guarded { by_token: true, listen: "WEBHOOK_LISTEN", token: "TWILIO_AUTH_TOKEN" };
    let listener = bind(&settings.listen.to_string(), guarded).await?;
    start_logging(host, log, None);
    tracing::info!(address = %listener.local_addr()?, "Webhook listening");
    if is_away {
        tracing::error!("The database does not answer; calls are answered with 503 until it does");
    }
    let world = host.world.clone();
    let door = |stop: Stop| webhook::run(listener, stop.wait(), settings, pool, world);
    Parts::new(stop).with("webhook", door).run().await?;
    tracing::info!("Webhook stopped");
    Ok(Exit::DONE)
}
