//! Tokens: given out, rotated, used up, revoked.

use std::collections::HashMap;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{EtsyTokens, KEYSTRING};
use crate::ask::{Answer, Ask};

pub(super) struct Tokens {
    access: HashMap<String, Access>,
    refresh: HashMap<String, Refresh>,
    codes: HashMap<String, Code>,
    pub(super) seconds: u64,
    pub(super) revokes_families: bool,
    /// The next refresh is lost: after the rotation, or before it.
    pub(super) lose: Option<bool>,
    pub(super) refreshes: usize,
    made: u64,
}

impl Default for Tokens {
    fn default() -> Self {
        Self {
            access: HashMap::new(),
            refresh: HashMap::new(),
            codes: HashMap::new(),
            seconds: 3600,
            revokes_families: false,
            lose: None,
            refreshes: 0,
            made: 0,
        }
    }
}

struct Access {
    user: u64,
    until_ms: u64,
}

struct Refresh {
    user: u64,
    is_used: bool,
}

struct Code {
    user: u64,
    challenge: String,
    redirect: String,
}

impl Tokens {
    pub(super) fn consent(&mut self, user: u64, now_ms: u64) -> EtsyTokens {
        self.made += 1;
        let (access, refresh) =
            (format!("{user}.canary-access-{}", self.made), format!("{user}.canary-refresh-{}", self.made));
        self.access.insert(access.clone(), Access { user, until_ms: now_ms + self.seconds * 1000 });
        self.refresh.insert(refresh.clone(), Refresh { user, is_used: false });
        EtsyTokens { access, refresh }
    }

    pub(super) fn code(&mut self, user: u64, challenge: &str, redirect: &str) -> String {
        self.made += 1;
        let code = format!("canary-code-{}", self.made);
        let kept = Code { user, challenge: challenge.to_owned(), redirect: redirect.to_owned() };
        self.codes.insert(code.clone(), kept);
        code
    }

    pub(super) fn revoke(&mut self, user: u64) {
        self.access.retain(|_, access| access.user != user);
        self.refresh.retain(|_, refresh| refresh.user != user);
    }

    /// The user of a bearer token, or what a caller without a good one gets.
    pub(super) fn user(&self, ask: &Ask, now_ms: u64) -> Result<u64, Box<Answer>> {
        let bearer = ask.header("authorization").and_then(|value| value.strip_prefix("Bearer "));
        let access = bearer.and_then(|bearer| self.access.get(bearer));
        match access {
            Some(access) if now_ms < access.until_ms => Ok(access.user),
            Some(_) => Err(Box::new(invalid_token("access token is expired"))),
            None => Err(Box::new(invalid_token("invalid access token"))),
        }
    }

    /// The token endpoint.
    pub(super) fn answer(&mut self, ask: &Ask, now_ms: u64) -> Answer {
        let form: HashMap<String, String> = url::form_urlencoded::parse(&ask.body).into_owned().collect();
        let of = |name: &str| form.get(name).map(String::as_str).unwrap_or_default();
        if of("client_id") != KEYSTRING {
            return refuse("invalid_client", "client_id is not known");
        }
        match of("grant_type") {
            "refresh_token" => self.rotate(of("refresh_token"), now_ms),
            "authorization_code" => self.exchange(&form, now_ms),
            _ => refuse("unsupported_grant_type", "grant_type is not supported"),
        }
    }

    fn exchange(&mut self, form: &HashMap<String, String>, now_ms: u64) -> Answer {
        let of = |name: &str| form.get(name).map(String::as_str).unwrap_or_default();
        let Some(code) = self.codes.remove(of("code")) else {
            return refuse("invalid_grant", "code is not known or was used");
        };
        let verifier = of("code_verifier");
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes()));
        let fits = (43..=128).contains(&verifier.len()) && challenge == code.challenge;
        if !fits || code.redirect != of("redirect_uri") {
            return refuse("invalid_grant", "code_verifier or redirect_uri does not fit");
        }
        self.give(code.user, now_ms)
    }

    fn rotate(&mut self, token: &str, now_ms: u64) -> Answer {
        if self.lose == Some(false) {
            self.lose = None;
            return Answer::json(500, &json!({"error": "server_error"}));
        }
        let Some(refresh) = self.refresh.get_mut(token) else {
            return refuse("invalid_grant", "refresh_token is revoked");
        };
        let user = refresh.user;
        if refresh.is_used {
            if self.revokes_families {
                self.revoke(user);
            }
            return refuse("invalid_grant", "refresh_token is revoked");
        }
        refresh.is_used = true;
        self.refreshes += 1;
        let given = self.give(user, now_ms);
        match self.lose.take() {
            Some(_) => Answer::json(500, &json!({"error": "server_error"})),
            None => given,
        }
    }

    fn give(&mut self, user: u64, now_ms: u64) -> Answer {
        let seconds = self.seconds;
        let EtsyTokens { access, refresh } = self.consent(user, now_ms);
        let given: Value = json!({
            "access_token": access,
            "token_type": "Bearer",
            "expires_in": seconds,
            "refresh_token": refresh,
        });
        Answer::json(200, &given)
    }
}

fn refuse(error: &str, description: &str) -> Answer {
    Answer::json(400, &json!({"error": error, "error_description": description}))
}

fn invalid_token(description: &str) -> Answer {
    Answer::json(401, &json!({"error": "invalid_token", "error_description": description}))
}
