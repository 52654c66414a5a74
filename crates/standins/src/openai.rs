//! OpenAI: chat completions and audio transcriptions.

use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::ask::{Answer, Ask};
use crate::multipart;
use crate::schema::fit;
use crate::server::{Server, Service};

const KEY: &str = "sk-standin-0123456789";
const AUDIO_BYTES_MAX: usize = 26_214_400;
const EXTENSIONS: [&str; 9] = ["flac", "mp3", "mp4", "mpeg", "mpga", "m4a", "ogg", "wav", "webm"];

/// What the model says next.
#[derive(Debug, Clone)]
pub enum Reply {
    /// A finished message.
    Text(String),
    /// The model declines.
    Refusal(String),
    /// The message ends at the token limit.
    Truncated(String),
    /// The message ends at the content filter.
    Filtered,
}

/// Chat completions and transcriptions. Without a script, what it answers
/// follows from the request: an object that fits the schema, a transcript
/// that names the digest of the audio.
pub struct OpenAi {
    server: Server,
    replies: Arc<Mutex<VecDeque<Reply>>>,
    said: Arc<Mutex<VecDeque<String>>>,
    tells_states: Arc<AtomicBool>,
}

impl OpenAi {
    /// Starts it.
    pub async fn start() -> Self {
        let (replies, said) =
            (Arc::<Mutex<VecDeque<Reply>>>::default(), Arc::<Mutex<VecDeque<String>>>::default());
        let tells_states = Arc::<AtomicBool>::default();
        let rules =
            Rules { replies: replies.clone(), said: said.clone(), tells_states: tells_states.clone() };
        Self { server: Server::start(rules).await, replies, said, tells_states }
    }

    /// From now on whoever asks without a schema is told in which state of the US something happened, as News Nexus wants
    /// to know.
    pub fn tell_states(&self) {
        self.tells_states.store(true, Ordering::Relaxed);
    }

    /// What is heard in one of the next recordings.
    pub fn hear(&self, text: &str) {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).push_back(text.to_owned());
    }

    /// What goes into `OPENAI_BASE_URL`.
    pub fn url(&self) -> String {
        format!("{}/v1", self.server.url())
    }

    /// The key that it accepts.
    pub fn key(&self) -> String {
        KEY.to_owned()
    }

    /// What the model says to one of the next chat requests.
    pub fn reply(&self, reply: Reply) {
        self.replies.lock().unwrap_or_else(PoisonError::into_inner).push_back(reply);
    }

    /// An error as OpenAI writes it, for [`crate::Fault::Answer`].
    pub fn error(status: u16, kind: &str, code: Option<&str>) -> Answer {
        let message = "canary-provider-message: nobody should repeat this";
        let error = json!({"error": {"message": message, "type": kind, "param": null, "code": code}});
        Answer::json(status, &error).with("x-request-id", "req_standin")
    }
}

impl Deref for OpenAi {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

struct Rules {
    replies: Arc<Mutex<VecDeque<Reply>>>,
    said: Arc<Mutex<VecDeque<String>>>,
    tells_states: Arc<AtomicBool>,
}

impl Service for Rules {
    fn is_aside(&self, ask: &Ask) -> bool {
        ask.method == http::Method::GET
    }

    fn answer(&self, ask: &Ask) -> Answer {
        if ask.header("authorization") != Some(&format!("Bearer {KEY}")) {
            return OpenAi::error(401, "invalid_request_error", Some("invalid_api_key"));
        }
        let answer = match (ask.method.as_str(), ask.path.as_str()) {
            ("POST", "/v1/chat/completions") => self.chat(ask),
            ("POST", "/v1/audio/transcriptions") => self.transcribe(ask),
            ("GET", path) if path.starts_with("/v1/models/") => known(path.trim_start_matches("/v1/models/"))
                .map(|()| Answer::json(200, &json!({"id": "model", "object": "model"}))),
            _ => Err(Box::new(OpenAi::error(404, "invalid_request_error", None))),
        };
        answer.unwrap_or_else(|error| *error).with("x-request-id", "req_standin")
    }
}

fn invalid() -> Box<Answer> {
    Box::new(OpenAi::error(400, "invalid_request_error", None))
}

impl Rules {
    fn chat(&self, ask: &Ask) -> Result<Answer, Box<Answer>> {
        let request: Value = serde_json::from_slice(&ask.body).map_err(|_| invalid())?;
        let model = request["model"].as_str().ok_or_else(invalid)?;
        let messages = request["messages"].as_array().filter(|list| !list.is_empty()).ok_or_else(invalid)?;
        known(model)?;
        let schema = match &request["response_format"]["json_schema"] {
            Value::Null => None,
            format => Some(check_format(format)?),
        };
        let reply = self.replies.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let tells_state = self.tells_states.load(Ordering::Relaxed) && schema.is_none();
        let reply = reply.unwrap_or_else(|| {
            Reply::Text(if tells_state { state(messages) } else { made_up(schema, messages) })
        });
        let (content, refusal, reason) = match reply {
            Reply::Text(text) => (json!(text), Value::Null, "stop"),
            Reply::Refusal(text) => (Value::Null, json!(text), "stop"),
            Reply::Truncated(text) => (json!(text), Value::Null, "length"),
            Reply::Filtered => (Value::Null, Value::Null, "content_filter"),
        };
        Ok(Answer::json(
            200,
            &json!({
                "id": format!("chatcmpl-{}", digest(&ask.body)),
                "object": "chat.completion",
                "model": format!("{model}-2026-01-01"),
                "choices": [{
                    "index": 0,
                    "message": {"role": "assistant", "content": content, "refusal": refusal},
                    "finish_reason": reason,
                }],
                "usage": {"prompt_tokens": 10, "completion_tokens": 20, "total_tokens": 30},
            }),
        ))
    }
}

/// The rules of strict mode: a name, and every object closed with all of its properties required.
fn check_format(format: &Value) -> Result<&Value, Box<Answer>> {
    let name = format["name"].as_str().unwrap_or_default();
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if name.is_empty() || name.len() > 64 || !name.bytes().all(fits) || format["strict"] != true {
        return Err(invalid());
    }
    if is_strict(&format["schema"]) { Ok(&format["schema"]) } else { Err(invalid()) }
}

fn is_strict(schema: &Value) -> bool {
    let Some(properties) = schema["properties"].as_object() else {
        return schema["items"].is_null() || is_strict(&schema["items"]);
    };
    let required = schema["required"].as_array();
    let all = required.is_some_and(|list| properties.keys().all(|key| list.iter().any(|name| name == key)));
    all && schema["additionalProperties"] == false && properties.values().all(is_strict)
}

/// Where something happened; the same for the same question.
fn state(messages: &[Value]) -> String {
    const STATES: [&str; 5] = ["Texas", "Ohio", "California", "New York", "Florida"];
    let seed = digest(Value::from(messages).to_string().as_bytes());
    let state = STATES[seed.bytes().map(usize::from).sum::<usize>() % STATES.len()];
    json!({ "occuredInTheUS": true, "reasoning": format!("The article names {state}."), "state": state })
        .to_string()
}

fn made_up(schema: Option<&Value>, messages: &[Value]) -> String {
    let seed = digest(Value::from(messages).to_string().as_bytes());
    match schema {
        Some(schema) => fit(schema, &seed).to_string(),
        None => format!("An answer to {seed}."),
    }
}

impl Rules {
    /// What a recording says: what was scripted, else something that follows from its bytes.
    fn transcribe(&self, ask: &Ask) -> Result<Answer, Box<Answer>> {
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        transcribe(ask, said)
    }
}

/// A model whose name begins with `unknown` is not there.
fn known(model: &str) -> Result<(), Box<Answer>> {
    match model.starts_with("unknown") {
        true => Err(Box::new(OpenAi::error(404, "invalid_request_error", Some("model_not_found")))),
        false => Ok(()),
    }
}

fn transcribe(ask: &Ask, said: Option<String>) -> Result<Answer, Box<Answer>> {
    if ask.body_bytes > AUDIO_BYTES_MAX {
        return Err(Box::new(OpenAi::error(413, "server_error", None)));
    }
    let parts = ask.header("content-type").and_then(|kind| multipart::parse(kind, &ask.body));
    let parts = parts.ok_or_else(invalid)?;
    let part = |name: &str| parts.iter().find(|part| part.name == name);
    let (file, model) = (part("file").ok_or_else(invalid)?, part("model").ok_or_else(invalid)?);
    known(&String::from_utf8_lossy(&model.content))?;
    let name = file.file_name.as_deref().unwrap_or_default();
    let extension = name.rsplit_once('.').map(|(_, extension)| extension).unwrap_or_default();
    if !EXTENSIONS.contains(&extension) || file.content.is_empty() {
        return Err(invalid());
    }
    let heard = || format!("A note of {} bytes, {}.", file.content.len(), digest(&file.content));
    let text = said.unwrap_or_else(heard);
    let language = part("language").map_or("german".into(), |part| String::from_utf8_lossy(&part.content));
    match part("response_format").map(|part| &part.content[..]) {
        Some(b"verbose_json") => Ok(Answer::json(
            200,
            &json!({"task": "transcribe", "language": language, "duration": 3.5, "text": text}),
        )),
        _ => Ok(Answer::json(200, &json!({"text": text}))),
    }
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes)[..6].iter().map(|byte| format!("{byte:02x}")).collect()
}
