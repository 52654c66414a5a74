//! Google Cloud Storage, by its XML API.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use crate::ask::{Answer, Ask};
use crate::server::Server;

const TOKEN: &str = "standin-gcs-token";

type Objects = Arc<Mutex<BTreeMap<String, Bytes>>>;

/// Buckets and their objects: put (also only if absent), get, head, delete.
pub struct Gcs {
    server: Server,
    objects: Objects,
}

impl Gcs {
    /// Starts it.
    pub async fn start() -> Self {
        let objects = Objects::default();
        let inside = objects.clone();
        Self { server: Server::start(move |ask: &Ask| answer(ask, &inside)).await, objects }
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

fn answer(ask: &Ask, objects: &Objects) -> Answer {
    if ask.header("authorization") != Some(&format!("Bearer {TOKEN}")) {
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
