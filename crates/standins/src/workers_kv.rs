//! Workers KV, by its REST API.

use std::collections::{BTreeMap, HashSet};
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};

use crate::ask::{Answer, Ask};
use crate::server::{Server, Service};
use crate::workers_ai::error;

const ACCOUNT: &str = "standin-account";
const NAMESPACE: &str = "standin-namespace";
const TOKEN: &str = "standin-token-0123456789";
const KEY_BYTES_MAX: usize = 512;
const VALUE_BYTES_MAX: usize = 25 * 1024 * 1024;
const BULK_PAIRS_MAX: usize = 10_000;
const BULK_BYTES_MAX: usize = 100_000_000;
const TTL_MIN: u64 = 60;
/// What the day's operations are counted by.
const NO_MORE_TODAY: u64 = 10_048;

/// One namespace. Time does not pass in it: what has a time to live keeps it as a number, to be looked at.
pub struct WorkersKv {
    server: Server,
    state: Arc<Mutex<State>>,
}

/// A value and for how long it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// The value.
    pub value: Bytes,
    /// For how many seconds, if not for ever.
    pub ttl_seconds: Option<u64>,
}

#[derive(Default)]
struct State {
    values: BTreeMap<String, Kept>,
    /// What readers see while writes are on their way.
    stale: Option<BTreeMap<String, Kept>>,
    /// Keys whose bulk write fails.
    unlucky: HashSet<String>,
    writes_left: Option<u64>,
    reads_left: Option<u64>,
    writes: u64,
    reads: u64,
}

impl WorkersKv {
    /// Starts it, without any key.
    pub async fn start() -> Self {
        let state = Arc::<Mutex<State>>::default();
        Self { server: Server::start(Rules(state.clone())).await, state }
    }

    /// What goes into `CLOUDFLARE_BASE_URL`.
    pub fn url(&self) -> String {
        format!("{}/client/v4", self.server.url())
    }

    /// The account that it knows.
    pub fn account(&self) -> String {
        ACCOUNT.to_owned()
    }

    /// The namespace that it knows.
    pub fn namespace(&self) -> String {
        NAMESPACE.to_owned()
    }

    /// The token that it accepts.
    pub fn token(&self) -> String {
        TOKEN.to_owned()
    }

    /// What is really kept under a key, whatever readers see.
    pub fn kept(&self, key: &str) -> Option<Kept> {
        self.with(|state| state.values.get(key).cloned())
    }

    /// Puts a value there, past all counting.
    pub fn keep(&self, key: &str, value: impl Into<Bytes>) {
        let kept = Kept { value: value.into(), ttl_seconds: None };
        self.with(|state| state.values.insert(key.to_owned(), kept));
    }

    /// From now on readers see everything as it is now, until [`WorkersKv::catch_up`].
    pub fn fall_behind(&self) {
        self.with(|state| state.stale = Some(state.values.clone()));
    }

    /// Readers see what was written again.
    pub fn catch_up(&self) {
        self.with(|state| state.stale = None);
    }

    /// Bulk writes and deletes of this key fail, beside others that do not.
    pub fn fail_key(&self, key: &str) {
        self.with(|state| state.unlucky.insert(key.to_owned()));
    }

    /// How many keys can be written, deleted or listed today.
    pub fn writes_left(&self, keys: u64) {
        self.with(|state| state.writes_left = Some(keys));
    }

    /// How many keys can be read today.
    pub fn reads_left(&self, keys: u64) {
        self.with(|state| state.reads_left = Some(keys));
    }

    /// How many keys were written or deleted, and how many were read: what Cloudflare would write on its bill.
    pub fn operations(&self) -> (u64, u64) {
        self.with(|state| (state.writes, state.reads))
    }

    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        work(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Deref for WorkersKv {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

struct Rules(Arc<Mutex<State>>);

type Answered = Result<Answer, Box<Answer>>;

impl Service for Rules {
    fn answer(&self, ask: &Ask) -> Answer {
        if ask.header("authorization") != Some(&format!("Bearer {TOKEN}")) {
            return error(401, 10_000);
        }
        let Some(rest) =
            ask.path.strip_prefix(&format!("/client/v4/accounts/{ACCOUNT}/storage/kv/namespaces/"))
        else {
            return error(404, 7003);
        };
        let Some(rest) = rest.strip_prefix(&format!("{NAMESPACE}/")) else { return error(404, 10_013) };
        let state = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = match (ask.method.as_str(), rest.split_once('/')) {
            ("GET", Some(("values", key))) => key_of(key).and_then(|key| state.get(&key)),
            ("PUT", Some(("values", key))) => key_of(key).and_then(|key| state.put(&key, ask)),
            ("DELETE", Some(("values", key))) => key_of(key).and_then(|key| state.delete(&[key])),
            ("POST", Some(("bulk", "delete"))) => {
                let keys = serde_json::from_slice::<Vec<String>>(&ask.body).map_err(|_| refuse(10_012));
                keys.and_then(|keys| state.delete(&keys))
            }
            ("PUT", None) if rest == "bulk" => state.put_all(ask),
            ("GET", None) if rest == "keys" => state.list(ask),
            _ => Err(Box::new(error(405, 10_405))),
        };
        answer.unwrap_or_else(|error| *error)
    }
}

fn refuse(code: u64) -> Box<Answer> {
    Box::new(error(400, code))
}

fn key_of(written: &str) -> Result<String, Box<Answer>> {
    let key = percent_decode_str(written).decode_utf8().map_err(|_| refuse(10_014))?.into_owned();
    checked(&key).map(|()| key)
}

fn checked(key: &str) -> Result<(), Box<Answer>> {
    let fits = !key.is_empty() && key.len() <= KEY_BYTES_MAX && key != "." && key != "..";
    if fits { Ok(()) } else { Err(refuse(10_014)) }
}

fn ttl(value: Option<u64>) -> Result<Option<u64>, Box<Answer>> {
    if value.is_some_and(|seconds| seconds < TTL_MIN) { Err(refuse(10_034)) } else { Ok(value) }
}

fn spend(left: &mut Option<u64>, count: u64) -> Result<(), Box<Answer>> {
    if let Some(left) = left {
        *left = left.checked_sub(count).ok_or_else(|| Box::new(error(429, NO_MORE_TODAY)))?;
    }
    Ok(())
}

fn done(result: Value, info: Value) -> Answer {
    Answer::json(
        200,
        &json!({"success": true, "errors": [], "messages": [], "result": result, "result_info": info}),
    )
}

impl State {
    fn seen(&self) -> &BTreeMap<String, Kept> {
        self.stale.as_ref().unwrap_or(&self.values)
    }

    fn get(&mut self, key: &str) -> Answered {
        spend(&mut self.reads_left, 1)?;
        self.reads += 1;
        match self.seen().get(key) {
            Some(kept) => Ok(Answer::new(200, "application/octet-stream", kept.value.clone())),
            None => Err(Box::new(error(404, 10_009))),
        }
    }

    fn put(&mut self, key: &str, ask: &Ask) -> Answered {
        let seconds = ask.param("expiration_ttl").map(|text| text.parse().map_err(|_| refuse(10_034)));
        let ttl_seconds = ttl(seconds.transpose()?)?;
        if ask.body_bytes > VALUE_BYTES_MAX {
            return Err(Box::new(error(413, 100_100)));
        }
        spend(&mut self.writes_left, 1)?;
        self.writes += 1;
        self.values.insert(key.to_owned(), Kept { value: ask.body.clone(), ttl_seconds });
        Ok(done(json!({}), Value::Null))
    }

    fn put_all(&mut self, ask: &Ask) -> Answered {
        if ask.body_bytes > BULK_BYTES_MAX {
            return Err(Box::new(error(413, 100_100)));
        }
        let pairs: Vec<Value> = serde_json::from_slice(&ask.body).map_err(|_| refuse(10_012))?;
        if pairs.len() > BULK_PAIRS_MAX {
            return Err(refuse(10_012));
        }
        let read = |pair: &Value| {
            let (key, value) = (pair["key"].as_str(), pair["value"].as_str());
            let (key, value) = key.zip(value).ok_or_else(|| refuse(10_012))?;
            checked(key)?;
            let kept = Kept {
                value: Bytes::copy_from_slice(value.as_bytes()),
                ttl_seconds: ttl(pair["expiration_ttl"].as_u64())?,
            };
            if kept.value.len() > VALUE_BYTES_MAX { Err(refuse(10_012)) } else { Ok((key.to_owned(), kept)) }
        };
        let pairs: Vec<(String, Kept)> = pairs.iter().map(read).collect::<Result<_, _>>()?;
        spend(&mut self.writes_left, pairs.len() as u64)?;
        self.writes += pairs.len() as u64;
        let (unlucky, lucky): (Vec<_>, Vec<_>) =
            pairs.into_iter().partition(|(key, _)| self.unlucky.contains(key));
        let written = lucky.len();
        self.values.extend(lucky);
        let failed: Vec<String> = unlucky.into_iter().map(|(key, _)| key).collect();
        Ok(done(json!({"successful_key_count": written, "unsuccessful_keys": failed}), Value::Null))
    }

    fn delete(&mut self, keys: &[String]) -> Answered {
        if keys.len() > BULK_PAIRS_MAX {
            return Err(refuse(10_012));
        }
        spend(&mut self.writes_left, keys.len() as u64)?;
        self.writes += keys.len() as u64;
        let (failed, rest): (Vec<_>, Vec<_>) = keys.iter().partition(|key| self.unlucky.contains(*key));
        rest.iter().for_each(|key| drop(self.values.remove(*key)));
        Ok(done(json!({"successful_key_count": rest.len(), "unsuccessful_keys": failed}), Value::Null))
    }

    fn list(&mut self, ask: &Ask) -> Answered {
        spend(&mut self.writes_left, 1)?;
        let (prefix, after) =
            (ask.param("prefix").unwrap_or_default(), ask.param("cursor").unwrap_or_default());
        let limit = ask.param("limit").map_or(Some(1000), |text| text.parse::<usize>().ok());
        let limit = limit.filter(|limit| (10..=1000).contains(limit)).ok_or_else(|| refuse(10_001))?;
        let mut found = self.seen().iter().filter(|(key, _)| key.starts_with(&prefix) && **key > after);
        let page: Vec<_> = found.by_ref().take(limit).collect();
        let cursor = match (found.next(), page.last()) {
            (Some(_), Some((key, _))) => key.as_str(),
            _ => "",
        };
        let keys: Vec<Value> = page.iter().map(|(key, _)| json!({"name": key})).collect();
        Ok(done(json!(keys), json!({"count": keys.len(), "cursor": cursor})))
    }
}
