//! Google Cloud Storage, by its XML API.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use crate::ask::{Answer, Ask};
use crate::server::{Server, Service};

const TOKEN: &str = "standin-gcs-token";

type Objects = Arc<Mutex<BTreeMap<String, Bytes>>>;
/// The bucket that is not there.
type Missing = Arc<Mutex<Option<String>>>;

/// Buckets and their objects: put (also only if absent), get, head, delete.
pub struct Gcs {
    server: Server,
    objects: Objects,
    missing: Missing,
}

impl Gcs {
    /// Starts it.
    pub async fn start() -> Self {
        let (objects, missing) = (Objects::default(), Missing::default());
        let rules = Rules { objects: objects.clone(), missing: missing.clone() };
        Self { server: Server::start(rules).await, objects, missing }
    }

    /// Says that there is no bucket of this name, or that there is any.
    pub fn without_bucket(&self, name: Option<&str>) {
        *self.missing.lock().unwrap_or_else(PoisonError::into_inner) = name.map(str::to_owned);
    }

    /// Puts an object where somebody else would have: `/bucket/key`.
    pub fn put(&self, path: &str, bytes: impl Into<Bytes>) {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned(), bytes.into());
    }

    /// Takes an object away: `/bucket/key`.
    pub fn remove(&self, path: &str) {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner).remove(path);
    }

    /// The bearer token that it accepts.
    pub fn token(&self) -> String {
        TOKEN.to_owned()
    }

    /// All objects by `/bucket/key`.
    pub fn objects(&self) -> BTreeMap<String, Bytes> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Deref for Gcs {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

struct Rules {
    objects: Objects,
    missing: Missing,
}

impl Service for Rules {
    fn answer(&self, ask: &Ask) -> Answer {
        let missing = self.missing.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match missing {
            Some(bucket) if ask.path.split('/').nth(1) == Some(&bucket) && is_known(ask) => {
                error(404, "NoSuchBucket")
            }
            _ => answer(ask, &self.objects),
        }
    }

    fn is_aside(&self, ask: &Ask) -> bool {
        ask.path.ends_with("/audio/probe")
    }
}

fn is_known(ask: &Ask) -> bool {
    ask.header("authorization") == Some(&format!("Bearer {TOKEN}"))
}

fn answer(ask: &Ask, objects: &Objects) -> Answer {
    if !is_known(ask) {
        return error(401, "AuthenticationRequired");
    }
    // Clients differ in what they encode; the name is what it means.
    let path = percent_encoding::percent_decode_str(&ask.path).decode_utf8_lossy().into_owned();
    let mut objects = objects.lock().unwrap_or_else(PoisonError::into_inner);
    let there = objects.get(&path).cloned();
    match (ask.method.as_str(), there) {
        ("PUT", Some(_)) if ask.header("x-goog-if-generation-match") == Some("0") => {
            error(412, "PreconditionFailed")
        }
        ("PUT", _) => {
            objects.insert(path, ask.body.clone());
            described(Answer::new(200, "text/html", ""))
        }
        ("GET", Some(bytes)) => described(Answer::new(200, "application/octet-stream", bytes)),
        ("HEAD", Some(bytes)) => {
            let length = bytes.len().to_string();
            described(Answer::new(200, "application/octet-stream", "").with("content-length", &length))
        }
        ("DELETE", Some(_)) => {
            objects.remove(&path);
            Answer::new(204, "text/html", "")
        }
        _ => error(404, "NoSuchKey"),
    }
}

fn described(answer: Answer) -> Answer {
    let answer = answer.with("etag", "\"0123456789abcdef\"").with("x-goog-generation", "1700000000000000");
    answer.with("last-modified", "Tue, 01 Sep 2026 12:00:00 GMT")
}

fn error(status: u16, code: &str) -> Answer {
    Answer::new(status, "application/xml", format!("<?xml version='1.0'?><Error><Code>{code}</Code></Error>"))
}
