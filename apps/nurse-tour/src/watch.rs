//! Health and metrics of a running worker, over HTTP.

use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::response::Response;
use deadpool_postgres::Pool;
use http::StatusCode;
use windlass_app::door::{Answered, Door, Refusal};
use windlass_engine::world::World;
use windlass_outside::secret::Secret;

use crate::answer::{Plain, plain, refusal};
use crate::gate::Gate;
use crate::meter::Meter;
use crate::status::Status;

/// The database is not asked more often than this, however many ask us.
const FRESH_MS: u64 = 10_000;

/// What is shown of a worker.
pub(crate) struct Watch {
    pub(crate) pool: Pool,
    pub(crate) gate: Arc<Gate>,
    pub(crate) meter: Arc<Meter>,
    pub(crate) world: Arc<dyn World>,
    pub(crate) token: Option<Secret<String>>,
    pub(crate) seen: Mutex<Option<(u64, String)>>,
}

impl Watch {
    /// Health for everybody, and metrics for those who know the token, if there is one.
    pub(crate) fn door(self) -> Door {
        let watch = Arc::new(self);
        let (for_health, for_ready, for_metrics) = (watch.clone(), watch.clone(), watch.clone());
        let health = move || {
            let watch = for_health.clone();
            async move { watch.health().await }
        };
        // Whether it claims: what holds claiming up is also what makes it unhealthy.
        let ready = move || {
            let watch = for_ready.clone();
            async move { watch.health().await }
        };
        let metrics = move || {
            let watch = for_metrics.clone();
            async move { watch.metrics().await }
        };
        let nowhere = || async { refusal(StatusCode::NOT_FOUND, "there are /health, /readyz and /metrics") };
        let door = Door::new(Router::new().fallback(nowhere), watch.world.clone());
        let door = door.health(health).open_to_all("/health").ready(ready).open_to_all("/readyz");
        let door = door.metrics(metrics).token(watch.token.as_ref());
        Plain::door(door).any_host()
    }

    async fn health(&self) -> Answered {
        if let Some(why) = self.gate.why_closed() {
            return Err(refusal(StatusCode::SERVICE_UNAVAILABLE, format!("claiming stopped: {why}")));
        }
        match self.pool.get().await {
            Ok(_) => Ok(self.working()),
            Err(_) => Err(refusal(StatusCode::SERVICE_UNAVAILABLE, "the database does not answer")),
        }
    }

    fn working(&self) -> Response {
        match self.gate.why_cooling() {
            // A provider that wants to be left alone is no fault of ours.
            Some(why) => plain(StatusCode::OK, &format!("ok; claiming rests: {why}")),
            None => plain(StatusCode::OK, "ok"),
        }
    }

    async fn metrics(&self) -> Result<String, Refusal> {
        let mut out = String::new();
        self.meter.write(&mut out);
        let stopped = u8::from(self.gate.why_closed().is_some());
        out.push_str(&format!(
            "# TYPE nurse_tour_claiming_stopped gauge\nnurse_tour_claiming_stopped {stopped}\n"
        ));
        match self.queue().await {
            Some(text) => out.push_str(&text),
            None => return Err(refusal(StatusCode::SERVICE_UNAVAILABLE, "the database does not answer")),
        }
        Ok(out)
    }

    async fn queue(&self) -> Option<String> {
        let now_ms = self.world.boot_ms();
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((at_ms, text)) = seen.filter(|(at_ms, _)| now_ms < at_ms + FRESH_MS) {
            debug_assert!(at_ms <= now_ms);
            return Some(text);
        }
        let mut text = String::new();
        Status::read(&self.pool, false).await.ok()?.write(&mut text);
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = Some((now_ms, text.clone()));
        Some(text)
    }
}
