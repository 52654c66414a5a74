//! Twilio: media of messages, and the host that really delivers them.

use std::collections::{HashMap, HashSet};
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::json;
use sha1::Sha1;

use crate::ask::{Answer, Ask};
use crate::server::{Server, Service, noise};

const ACCOUNT: &str = "AC00000000000000000000000000000000";
const TOKEN: &str = "standin-auth-token";

type Forbidden = Arc<Mutex<HashSet<String>>>;
type Media = Arc<Mutex<HashMap<String, Option<(String, Bytes)>>>>;

/// The API host, which wants credentials and redirects, and the CDN host,
/// which delivers and turns away whoever brings credentials. Any media is
/// there unless it was said to be missing: a few kilobytes that follow from its id.
pub struct Twilio {
    api: Server,
    /// The host that delivers; it has faults and a log of its own.
    pub cdn: Server,
    media: Media,
    forbidden: Forbidden,
}

impl Twilio {
    /// Starts both hosts.
    pub async fn start() -> Self {
        let media = Media::default();
        let (for_api, for_cdn) = (media.clone(), media.clone());
        let forbidden = Forbidden::default();
        let cdn = Server::start(move |ask: &Ask| deliver(ask, &for_cdn)).await;
        let to = cdn.url();
        let api = Server::start(Api { media: for_api, forbidden: forbidden.clone(), cdn: to }).await;
        Self { api, cdn, media, forbidden }
    }

    /// What goes into `TWILIO_ACCOUNT_SID`.
    pub fn account(&self) -> String {
        ACCOUNT.to_owned()
    }

    /// What goes into `TWILIO_AUTH_TOKEN`.
    pub fn token(&self) -> String {
        TOKEN.to_owned()
    }

    /// The media URL of a message, as the webhook has it.
    pub fn media_url(&self, message: &str, media: &str) -> String {
        format!("{}/2010-04-01/Accounts/{ACCOUNT}/Messages/{message}/Media/{media}", self.url())
    }

    /// The signature that Twilio puts on a form which it posts to `url`.
    pub fn sign(&self, url: &str, form: &[(&str, &str)]) -> String {
        let mut sorted = form.to_vec();
        sorted.sort_unstable();
        let mac = Hmac::<Sha1>::new_from_slice(TOKEN.as_bytes());
        let mut mac = mac.expect("a key of any length will do");
        mac.update(url.as_bytes());
        for (name, value) in sorted {
            mac.update(name.as_bytes());
            mac.update(value.as_bytes());
        }
        STANDARD.encode(mac.finalize().into_bytes())
    }

    /// Says what a media is.
    pub fn put(&self, media: &str, content_type: &str, bytes: impl Into<Bytes>) {
        self.set(media, Some((content_type.to_owned(), bytes.into())));
    }

    /// Says that a media is not there.
    pub fn remove(&self, media: &str) {
        self.set(media, None);
    }

    /// Says that nobody is given a media, whoever asks.
    pub fn forbid(&self, media: &str) {
        self.forbidden.lock().unwrap_or_else(PoisonError::into_inner).insert(media.to_owned());
    }

    fn set(&self, media: &str, content: Option<(String, Bytes)>) {
        self.media.lock().unwrap_or_else(PoisonError::into_inner).insert(media.to_owned(), content);
    }
}

struct Api {
    media: Media,
    forbidden: Forbidden,
    cdn: String,
}

impl Service for Api {
    fn answer(&self, ask: &Ask) -> Answer {
        let id = ask.path.rsplit('/').next().unwrap_or_default();
        if self.forbidden.lock().unwrap_or_else(PoisonError::into_inner).contains(id) {
            return Answer::json(403, &json!({"code": 20403, "message": "Forbidden", "status": 403}));
        }
        point(ask, &self.media, &self.cdn)
    }

    fn is_aside(&self, ask: &Ask) -> bool {
        ask.path.ends_with(".json")
    }
}

impl Deref for Twilio {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.api
    }
}

fn content(media: &Media, id: &str) -> Option<(String, Bytes)> {
    let known = media.lock().unwrap_or_else(PoisonError::into_inner).get(id).cloned();
    known.unwrap_or_else(|| {
        let bytes = [b"OggS", id.as_bytes(), &noise(4000)].concat();
        Some(("audio/ogg; codecs=opus".to_owned(), bytes.into()))
    })
}

fn point(ask: &Ask, media: &Media, cdn: &str) -> Answer {
    let pair = STANDARD.encode(format!("{ACCOUNT}:{TOKEN}"));
    if ask.header("authorization") != Some(&format!("Basic {pair}")) {
        return Answer::json(401, &json!({"code": 20003, "message": "Authenticate", "status": 401}));
    }
    let parts: Vec<&str> = ask.path.split('/').skip(1).collect();
    let ["2010-04-01", "Accounts", ACCOUNT, "Messages", _, "Media", id] = parts[..] else {
        return missing();
    };
    if content(media, id).is_none() {
        return missing();
    }
    match ask.method.as_str() {
        "DELETE" => {
            media.lock().unwrap_or_else(PoisonError::into_inner).insert(id.to_owned(), None);
            Answer::new(204, "application/json", "")
        }
        _ => Answer::redirect(307, &format!("{cdn}/{ACCOUNT}/{id}?Expires=1&Signature=canary-signature")),
    }
}

fn missing() -> Answer {
    Answer::json(
        404,
        &json!({"code": 20404, "message": "The requested resource was not found", "status": 404}),
    )
}

fn deliver(ask: &Ask, media: &Media) -> Answer {
    if ask.has_credentials() {
        return Answer::new(400, "application/xml", "<Error><Code>InvalidArgument</Code></Error>");
    }
    let id = ask.path.rsplit('/').next().unwrap_or_default();
    match content(media, id).filter(|_| ask.param("Signature").as_deref() == Some("canary-signature")) {
        Some((content_type, bytes)) => Answer::new(200, &content_type, bytes),
        None => Answer::new(403, "application/xml", "<Error><Code>AccessDenied</Code></Error>"),
    }
}
