//! Who is asking, and whether they may: the outer door of the whole router.
//!
//! Nothing behind it is reached without passing here; what may be had without
//! a token is listed in the table of calls and nowhere else.

mod headers;
mod origin;
mod session;

use http::header::{AUTHORIZATION, COOKIE, HOST};
use http::{HeaderMap, Method, StatusCode};
use windlass_engine::core::id::QueueName;
use windlass_engine::core::time::Time;
use windlass_listen::{Refusals, TooMany};

use crate::answer::Refusal;
use crate::secret::SecretHash;
use crate::settings::{Role, Settings};

pub(crate) use headers::secure;
pub(crate) use origin::Hosts;
pub(crate) use session::{Sessions, cookie_cleared, cookie_set};

/// The header that a write by cookie needs: another site cannot set it.
pub(crate) const CSRF_HEADER: &str = "x-windlass-csrf";

/// Who is asking.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    /// The name of the token, for the log and for the names of workers.
    pub name: String,
    /// What they may do.
    pub role: Role,
}

impl Caller {
    fn admin(name: &str) -> Self {
        Self { name: name.to_owned(), role: Role::Admin }
    }

    /// Whoever asks for what needs no token.
    pub(crate) fn nobody() -> Self {
        Self { name: String::new(), role: Role::Work(Vec::new()) }
    }

    /// The queues that this caller is held to; nothing means all.
    pub(crate) fn queues(&self) -> Option<&[QueueName]> {
        match &self.role {
            Role::Work(queues) => Some(queues),
            Role::Admin | Role::Read | Role::Submit => None,
        }
    }

    /// Whether a worker of this name may be this caller's.
    pub(crate) fn owns_worker(&self, worker: &str) -> bool {
        match &self.role {
            Role::Work(_) => worker
                .strip_prefix(self.name.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/')),
            Role::Admin | Role::Read | Role::Submit => true,
        }
    }
}

/// What a call needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// No token.
    Nothing,
    /// Any token.
    Token,
    /// To look at everything.
    Read,
    /// To look at one job.
    ReadOne,
    /// To enqueue.
    Submit,
    /// To work.
    Work,
    /// To change things.
    Admin,
}

impl Need {
    /// Refuses a role that may not.
    pub(crate) fn admits(self, role: &Role) -> Result<(), Refusal> {
        let admitted = match (self, role) {
            (Self::Nothing | Self::Token, _) | (_, Role::Admin) => true,
            (Self::Read, Role::Read) => true,
            (Self::ReadOne, Role::Read | Role::Submit) => true,
            (Self::Submit, Role::Submit) => true,
            (Self::Work, Role::Work(_)) => true,
            (Self::Read | Self::ReadOne | Self::Submit | Self::Work | Self::Admin, _) => false,
        };
        if admitted {
            return Ok(());
        }
        let message = "this token may not do that; ask with one whose role allows it";
        Err(Refusal::new(StatusCode::FORBIDDEN, "forbidden", message))
    }
}

/// The door.
pub(crate) struct Door {
    tokens: Vec<Known>,
    open: bool,
    hosts: Hosts,
    pub sessions: Sessions,
}

struct Known {
    hash: SecretHash,
    caller: Caller,
    expires_at: Option<Time>,
}

impl Door {
    pub(crate) fn new(settings: &Settings) -> Self {
        let admin = settings.token.as_ref().map(|secret| Known {
            hash: secret.hash(),
            caller: Caller::admin("admin"),
            expires_at: None,
        });
        let others = settings.tokens.iter().map(|token| Known {
            hash: token.hash,
            caller: Caller { name: token.name.clone(), role: token.role.clone() },
            expires_at: token.expires_at,
        });
        Self {
            tokens: admin.into_iter().chain(others).collect(),
            open: settings.is_open(),
            hosts: Hosts::new(settings),
            sessions: Sessions::default(),
        }
    }

    /// Refuses requests that a page of another site made a browser send, and
    /// names that are not this server's (DNS rebinding).
    pub(crate) fn check_origin(
        &self,
        method: &Method,
        headers: &HeaderMap,
        port: u16,
    ) -> Result<(), Refusal> {
        self.hosts.check(headers.get(HOST), port)?;
        origin::check(method, headers)
    }

    /// Who is asking; nothing when they showed nothing that is worth something.
    pub(crate) fn who(
        &self,
        method: &Method,
        headers: &HeaderMap,
        now: Time,
    ) -> Result<Option<Caller>, Refusal> {
        if self.open {
            return Ok(Some(Caller::admin("local")));
        }
        if let Some(value) = headers.get(AUTHORIZATION) {
            let offered = value.as_bytes();
            let token = offered.get(..7).filter(|scheme| scheme.eq_ignore_ascii_case(b"bearer "));
            return Ok(token.and_then(|_| self.by_token(&offered[7..], now)));
        }
        let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let Some(caller) = session::cookie_of(cookies).and_then(|id| self.sessions.get(id, now)) else {
            return Ok(None);
        };
        let reads = matches!(*method, Method::GET | Method::HEAD);
        if !reads && headers.get(CSRF_HEADER).is_none_or(|value| value.is_empty()) {
            let message = format!("a write by cookie needs the header {CSRF_HEADER}: 1");
            return Err(Refusal::new(StatusCode::FORBIDDEN, "csrf", message));
        }
        Ok(Some(caller))
    }

    /// The caller of a token. All tokens are compared, whichever fits.
    pub(crate) fn by_token(&self, offered: &[u8], now: Time) -> Option<Caller> {
        let offered = SecretHash::of(offered.trim_ascii());
        let mut found = None;
        for known in &self.tokens {
            let fits = known.hash.is(&offered) && known.expires_at.is_none_or(|end| now < end);
            if fits {
                found = Some(known.caller.clone());
            }
        }
        found
    }
}

/// 429.
impl From<TooMany> for Refusal {
    fn from(_: TooMany) -> Self {
        let message = "too many refused tokens at once; come again later";
        Self::new(StatusCode::TOO_MANY_REQUESTS, "too_many_refusals", message).retry_after(Refusals::AGAIN_S)
    }
}

/// 401.
pub(crate) fn unknown_caller() -> Refusal {
    let message = "a token is needed: send the header `authorization: Bearer …`, or sign in";
    Refusal::new(StatusCode::UNAUTHORIZED, "unauthorized", message)
}
