//! Workers AI.

use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};

use crate::ask::{Answer, Ask};
use crate::schema::fit;
use crate::server::{Server, Service};

const ACCOUNT: &str = "standin-account";
const TOKEN: &str = "standin-token-0123456789";

/// The models of Cloudflare. Without a script, a model answers with an object that fits the schema.
pub struct WorkersAi {
    server: Server,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    replies: VecDeque<Value>,
    calls_left: Option<u64>,
}

impl WorkersAi {
    /// Starts it.
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

    /// The token that it accepts.
    pub fn token(&self) -> String {
        TOKEN.to_owned()
    }

    /// What the model says to one of the next calls, as the value of `response`: an object, or text.
    pub fn reply(&self, response: Value) {
        self.with(|state| state.replies.push_back(json!({"response": response, "usage": {}})));
    }

    /// A whole `result` for one of the next calls.
    pub fn result(&self, result: Value) {
        self.with(|state| state.replies.push_back(result));
    }

    /// How many calls the day's neurons are good for. Without this there is no end to them.
    pub fn quota(&self, calls: u64) {
        self.with(|state| state.calls_left = Some(calls));
    }

    /// An error as Cloudflare writes it, for [`crate::Fault::Answer`].
    pub fn error(status: u16, code: u64) -> Answer {
        error(status, code)
    }

    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        work(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// An error in Cloudflare's envelope.
pub(crate) fn error(status: u16, code: u64) -> Answer {
    let message = "canary-provider-message: nobody should repeat this";
    let errors = json!([{"code": code, "message": message}]);
    Answer::json(status, &json!({"success": false, "errors": errors, "messages": [], "result": null}))
}

impl Deref for WorkersAi {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

struct Rules(Arc<Mutex<State>>);

impl Service for Rules {
    fn answer(&self, ask: &Ask) -> Answer {
        if ask.header("authorization") != Some(&format!("Bearer {TOKEN}")) {
            return error(401, 10_000);
        }
        let model = ask.path.strip_prefix(&format!("/client/v4/accounts/{ACCOUNT}/ai/run/"));
        let Some(model) = model.filter(|_| ask.method == "POST") else { return error(404, 7003) };
        if !model.starts_with("@cf/") {
            return error(400, 5007);
        }
        let request: Value = serde_json::from_slice(&ask.body).unwrap_or_default();
        let has_messages = request["messages"].as_array().is_some_and(|list| !list.is_empty());
        if !has_messages || request["max_tokens"].as_u64().is_none() {
            return error(400, 5004);
        }
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut state.calls_left {
            Some(0) => return error(429, 3036),
            Some(left) => *left -= 1,
            None => {}
        }
        let schema = &request["response_format"]["json_schema"];
        let made_up = || json!({"response": fit(schema, "made up by the stand-in"), "usage": {}});
        let result = state.replies.pop_front().unwrap_or_else(made_up);
        Answer::json(200, &json!({"success": true, "errors": [], "messages": [], "result": result}))
    }
}
