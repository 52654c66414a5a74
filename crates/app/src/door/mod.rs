//! The door of an app: routes behind connections with limits, and who may come in.
//!
//! Callers who know the token may; where there is none, programs of this
//! machine may, but not the pages of other sites in its browsers. Without a
//! token nothing beyond this machine is listened to.

mod answer;
mod enter;
mod page;
mod refusal;
mod token;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::routing::get;
use futures::future::BoxFuture;
use http::{Method, Request};
use hyper::body::Incoming;
use tokio::net::TcpListener;
use tokio::sync::watch;
use windlass_engine::core::secret::Secret;
use windlass_engine::world::World;
use windlass_listen::{House, Refusals, Seats};

pub use windlass_listen::Limits;

pub use answer::{json, metrics_text, text};
pub use page::Page;
pub use refusal::{AnswerForm, Answered, JsonErrors, Refusal};
pub use token::Token;

/// How much of a body is taken, and how slowly.
#[derive(Debug, Clone, Copy)]
pub struct BodyLimits {
    /// The largest body.
    pub bytes_max: usize,
    /// The longest pause within a body.
    pub idle_ms: u64,
    /// The longest time that a body may take.
    pub total_ms: u64,
}

impl Default for BodyLimits {
    fn default() -> Self {
        Self { bytes_max: 100 * 1024, idle_ms: 10_000, total_ms: 60_000 }
    }
}

/// Routes, and who may come in.
pub struct Door {
    router: Router,
    world: Arc<dyn World>,
    token: Option<Token>,
    refusals: Refusals,
    form: Arc<dyn AnswerForm>,
    crowded: &'static [u8],
    limits: Limits,
    body: BodyLimits,
    open_to_all: Vec<&'static str>,
    open_where: fn(&Method, &str) -> bool,
    proves_itself: bool,
    any_host: bool,
    ignores_last_slash: bool,
    keeps_connections: bool,
}

/// Why a door cannot be opened. The names are those of the settings to change.
#[derive(Debug, thiserror::Error)]
pub enum DoorError {
    /// It would be open to the network.
    #[error(
        "refusing to listen on {address}: it can be reached from other machines and no token is set, so anybody could \
         use it. Set {token} to a long random text, or {listen} to 127.0.0.1"
    )]
    Exposed {
        /// Where.
        address: SocketAddr,
        /// The setting of the address.
        listen: &'static str,
        /// The setting of the token.
        token: &'static str,
    },
    /// The address cannot be had.
    #[error("cannot listen on {address}: {why}; choose an address that is free with {listen}")]
    Listen {
        /// Where, as it was said.
        address: String,
        /// Why not.
        why: io::Error,
        /// The setting of the address.
        listen: &'static str,
    },
}

impl Door {
    /// A door to these routes.
    pub fn new(router: Router, world: Arc<dyn World>) -> Self {
        Self {
            router,
            world,
            token: None,
            refusals: Refusals::default(),
            form: Arc::new(JsonErrors),
            crowded: refusal::CROWDED,
            limits: Limits::default(),
            body: BodyLimits::default(),
            open_to_all: Vec::new(),
            open_where: |_, _| false,
            proves_itself: false,
            any_host: false,
            ignores_last_slash: false,
            keeps_connections: true,
        }
    }

    /// Whoever comes in must know this.
    #[must_use]
    pub fn token(mut self, token: Option<&Secret<String>>) -> Self {
        self.token = token.map(Token::of);
        self
    }

    /// How answers look that the door gives by itself, and what those get for whom there is no
    /// connection left: a whole answer, head and body.
    #[must_use]
    pub fn form(mut self, form: impl AnswerForm, crowded: &'static [u8]) -> Self {
        (self.form, self.crowded) = (Arc::new(form), crowded);
        self
    }

    /// Other limits of connections.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Other limits of bodies.
    #[must_use]
    pub fn body(mut self, body: BodyLimits) -> Self {
        self.body = body;
        self
    }

    /// Answers this path to everybody, token or not: for a health check.
    #[must_use]
    pub fn open_to_all(mut self, path: &'static str) -> Self {
        self.open_to_all.push(path);
        self
    }

    /// Shows a page to everybody, token or not: what it asks for by itself is asked with the token.
    #[must_use]
    pub fn page(mut self, page: Page) -> Self {
        self.open_to_all.extend(page.paths());
        self.router = self.router.merge(page.routes());
        self
    }

    /// Answers whatever this says to everybody, token or not, and to the pages of all sites: for what is public.
    #[must_use]
    pub fn open_where(mut self, is_open: fn(&Method, &str) -> bool) -> Self {
        self.open_where = is_open;
        self
    }

    /// Callers prove who they are in a way that the routes check, such as a
    /// signature: the door asks nobody.
    #[must_use]
    pub fn proves_itself(mut self) -> Self {
        self.proves_itself = true;
        self
    }

    /// Answers programs of this machine by whatever name they ask for: for what a page of another site may read.
    #[must_use]
    pub fn any_host(mut self) -> Self {
        self.any_host = true;
        self
    }

    /// `/a/b/` is `/a/b`.
    #[must_use]
    pub fn ignores_last_slash(mut self) -> Self {
        self.ignores_last_slash = true;
        self
    }

    /// One request a connection.
    #[must_use]
    pub fn one_request_each(mut self) -> Self {
        self.keeps_connections = false;
        self
    }

    /// `GET /health`: whether the process does its work. Asked by whoever restarts it.
    #[must_use]
    pub fn health<F, A>(self, ask: F) -> Self
    where
        F: Fn() -> A + Clone + Send + Sync + 'static,
        A: Future<Output = Answered> + Send + 'static,
    {
        self.route("/health", ask)
    }

    /// `GET /readyz`: whether it should be sent work. Asked by whoever balances load.
    #[must_use]
    pub fn ready<F, A>(self, ask: F) -> Self
    where
        F: Fn() -> A + Clone + Send + Sync + 'static,
        A: Future<Output = Answered> + Send + 'static,
    {
        self.route("/readyz", ask)
    }

    /// `GET /metrics`: counts in the text form of Prometheus.
    #[must_use]
    pub fn metrics<F, A>(self, ask: F) -> Self
    where
        F: Fn() -> A + Clone + Send + Sync + 'static,
        A: Future<Output = Result<String, Refusal>> + Send + 'static,
    {
        self.route("/metrics", move || {
            let asked = ask();
            async move { asked.await.map(metrics_text) }
        })
    }

    fn route<F, A>(mut self, path: &str, ask: F) -> Self
    where
        F: Fn() -> A + Clone + Send + Sync + 'static,
        A: Future<Output = Answered> + Send + 'static,
    {
        self.router = self.router.route(path, get(ask));
        self
    }

    /// Serves until `shutdown` is done; then requests that are being worked on are given their time.
    pub fn serve<'s>(
        self,
        listener: TcpListener,
        shutdown: impl Future<Output = ()> + Send + 's,
    ) -> BoxFuture<'s, io::Result<()>> {
        self.served(listener, Box::pin(shutdown))
    }

    fn served(self, listener: TcpListener, shutdown: BoxFuture<'_, ()>) -> BoxFuture<'_, io::Result<()>> {
        Box::pin(self.serve_until(listener, shutdown))
    }

    async fn serve_until(self, listener: TcpListener, shutdown: BoxFuture<'_, ()>) -> io::Result<()> {
        let port = listener.local_addr()?.port();
        let house = House {
            world: self.world.clone(),
            limits: self.limits,
            seats: Seats::default(),
            stop: watch::Sender::new(false),
            crowded: self.crowded,
        };
        let door = Arc::new(self);
        let answer = move |request: Request<Incoming>| {
            let door = door.clone();
            async move { enter::answer(&door, port, request).await }
        };
        windlass_listen::serve(listener, shutdown, house, answer).await;
        Ok(())
    }
}

/// Who may come in at an address, for [`bind`].
#[derive(Debug, Clone, Copy)]
pub struct Guarded {
    /// Whether callers must know a token, or prove themselves in another way.
    pub by_token: bool,
    /// The setting of the address, for an error to name.
    pub listen: &'static str,
    /// The setting of the token, for an error to name.
    pub token: &'static str,
}

/// Listens; `address` is what people wrote, such as `127.0.0.1:3002`. Beyond this machine only where callers need a token.
pub async fn bind(address: &str, guarded: Guarded) -> Result<TcpListener, DoorError> {
    let Guarded { by_token, listen, token } = guarded;
    let refused = |why| DoorError::Listen { address: address.to_owned(), why, listen };
    let listener = TcpListener::bind(address).await.map_err(refused)?;
    let address = listener.local_addr().map_err(refused)?;
    if is_exposed(address) && !by_token {
        return Err(DoorError::Exposed { address, listen, token });
    }
    Ok(listener)
}

/// Whether anybody but this machine could connect.
pub fn is_exposed(address: SocketAddr) -> bool {
    !address.ip().to_canonical().is_loopback()
}
