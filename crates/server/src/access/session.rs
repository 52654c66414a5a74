//! Sessions of the dashboard: a cookie stands for a token that was shown once.
//! They live in memory; after a restart one signs in again.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use windlass_engine::core::time::Time;

use super::Caller;
use crate::secret::SecretHash;

/// How long a session lasts.
const COOKIE_MS: i64 = 12 * 3_600_000;
/// How many there may be; the oldest goes.
const SESSIONS_MAX: usize = 1_000;
const NAME: &str = "windlass_session";
const NAME_HTTPS: &str = "__Host-windlass_session";

/// The sessions, by the hash of their id: a look at the memory shows no id.
#[derive(Default)]
pub(crate) struct Sessions(Mutex<HashMap<[u8; 32], Session>>);

struct Session {
    caller: Caller,
    ends_at: Time,
}

impl Sessions {
    /// Begins a session and answers its id: 256 bits from the system, since a
    /// guessed id would be a token.
    pub(crate) fn begin(&self, caller: Caller, now: Time) -> Result<String, getrandom::Error> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes)?;
        let id: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut sessions = self.lock();
        sessions.retain(|_, session| now < session.ends_at);
        if sessions.len() >= SESSIONS_MAX
            && let Some(oldest) =
                sessions.iter().min_by_key(|(_, session)| session.ends_at).map(|(id, _)| *id)
        {
            sessions.remove(&oldest);
        }
        sessions.insert(key(&id), Session { caller, ends_at: now.plus_ms(COOKIE_MS) });
        Ok(id)
    }

    pub(crate) fn get(&self, id: &str, now: Time) -> Option<Caller> {
        let sessions = self.lock();
        sessions.get(&key(id)).filter(|session| now < session.ends_at).map(|session| session.caller.clone())
    }

    /// Ends the session of these cookies.
    pub(crate) fn end<'a>(&self, cookies: impl Iterator<Item = &'a str>) {
        if let Some(id) = cookie_of(cookies) {
            self.lock().remove(&key(id));
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<[u8; 32], Session>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(id: &str) -> [u8; 32] {
    SecretHash::of(id.as_bytes()).bytes()
}

/// The session id among cookies.
pub(super) fn cookie_of<'a>(mut headers: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    headers.find_map(|header| {
        header.split(';').find_map(|pair| {
            let (name, value) = pair.trim().split_once('=')?;
            (name == NAME || name == NAME_HTTPS).then_some(value)
        })
    })
}

/// What sets the cookie. `__Host-` only by https: browsers refuse it elsewhere.
pub(crate) fn cookie_set(id: &str, https: bool) -> String {
    let seconds = COOKIE_MS / 1_000;
    if https {
        format!("{NAME_HTTPS}={id}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict; Secure")
    } else {
        format!("{NAME}={id}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict")
    }
}

/// What takes the cookie away.
pub(crate) fn cookie_cleared(https: bool) -> String {
    let (name, secure) = if https { (NAME_HTTPS, "; Secure") } else { (NAME, "") };
    format!("{name}=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict{secure}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Role;

    #[test]
    fn sessions_end() {
        let sessions = Sessions::default();
        let caller = Caller { name: "a".into(), role: Role::Read };
        let now = Time::from_ms(1_000);
        let id = sessions.begin(caller.clone(), now).unwrap();
        assert_ne!(id, sessions.begin(caller, now).unwrap());
        assert!(sessions.get(&id, now.plus_ms(COOKIE_MS - 1)).is_some());
        assert!(sessions.get(&id, now.plus_ms(COOKIE_MS)).is_none());
        assert!(sessions.get("", now).is_none());
        sessions.end(["x=1; windlass_session=".to_owned() + &id].iter().map(String::as_str));
        assert!(sessions.get(&id, now).is_none());
    }

    #[test]
    fn sessions_are_bounded() {
        let sessions = Sessions::default();
        for at in 0..SESSIONS_MAX as i64 + 5 {
            sessions.begin(Caller::nobody(), Time::from_ms(at)).unwrap();
        }
        assert_eq!(sessions.lock().len(), SESSIONS_MAX);
    }
}
