//! Health and metrics of a running worker, over HTTP.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use deadpool_postgres::Pool;
use http::{Method, StatusCode};
use sha2::{Digest, Sha256};
use windlass_engine::world::World;
use windlass_outside::secret::Secret;

use crate::gate::Gate;
use crate::http::{Answer, Asked, Service};
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

#[async_trait]
impl Service for Watch {
    async fn answer(&self, asked: Asked) -> Answer {
        if asked.method != Method::GET {
            return Answer::text(StatusCode::METHOD_NOT_ALLOWED, "only GET");
        }
        match asked.uri.path() {
            "/health" => self.health().await,
            "/metrics" if !self.may(&asked) => Answer::text(
                StatusCode::UNAUTHORIZED,
                "send `Authorization: Bearer …` with WORKER_HTTP_TOKEN",
            ),
            "/metrics" => self.metrics().await,
            _ => Answer::text(StatusCode::NOT_FOUND, "there are /health and /metrics"),
        }
    }
}

impl Watch {
    /// Compared by digest, so that the time tells nothing of the token.
    fn may(&self, asked: &Asked) -> bool {
        let Some(token) = &self.token else { return true };
        let given = asked.header("authorization").and_then(|value| value.strip_prefix("Bearer "));
        let digest = |text: &str| Sha256::digest(text.as_bytes());
        given.is_some_and(|given| digest(given) == digest(token.expose()))
    }

    async fn health(&self) -> Answer {
        if let Some(why) = self.gate.why_closed() {
            return Answer::text(StatusCode::SERVICE_UNAVAILABLE, &format!("claiming stopped: {why}"));
        }
        match self.pool.get().await {
            Ok(_) => match self.gate.why_cooling() {
                // A provider that wants to be left alone is no fault of ours.
                Some(why) => Answer::text(StatusCode::OK, &format!("ok; claiming rests: {why}")),
                None => Answer::text(StatusCode::OK, "ok"),
            },
            Err(_) => Answer::text(StatusCode::SERVICE_UNAVAILABLE, "the database does not answer"),
        }
    }

    async fn metrics(&self) -> Answer {
        let mut out = String::new();
        self.meter.write(&mut out);
        let stopped = u8::from(self.gate.why_closed().is_some());
        out.push_str(&format!(
            "# TYPE nurse_tour_claiming_stopped gauge\nnurse_tour_claiming_stopped {stopped}\n"
        ));
        match self.queue().await {
            Some(text) => out.push_str(&text),
            None => return Answer::text(StatusCode::SERVICE_UNAVAILABLE, "the database does not answer"),
        }
        Answer::new(StatusCode::OK, "text/plain; version=0.0.4", out)
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
