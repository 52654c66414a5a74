//! Chat completions, free or in the form of a schema.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{OpenAi, OpenAiError, read, request_id};
use crate::safe_http::Body;
use crate::secret::Phi;

/// Who says something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Whoever wrote the program.
    System,
    /// Whoever asks.
    User,
    /// The model.
    Assistant,
}

/// Something that was said.
#[derive(Debug, Clone)]
pub struct Message {
    /// By whom.
    pub role: Role,
    /// What.
    pub content: Phi<String>,
}

impl Message {
    /// Something that the user says.
    pub fn user(content: impl Into<String>) -> Self {
        Self { role: Role::User, content: Phi::new(content.into()) }
    }

    /// Something that the program says.
    pub fn system(content: impl Into<String>) -> Self {
        Self { role: Role::System, content: Phi::new(content.into()) }
    }
}

/// The form that an answer must have. In strict mode every object is closed
/// and all of its properties are required; what may be missing is nullable.
#[derive(Debug, Clone)]
pub struct Schema {
    /// A name of at most 64 letters, digits, `_` and `-`.
    pub name: String,
    /// The JSON schema.
    pub schema: Value,
}

/// A question.
#[derive(Debug, Clone)]
pub struct Chat {
    /// The model's name.
    pub model: String,
    /// What was said so far.
    pub messages: Vec<Message>,
    /// How freely the model chooses its words.
    pub temperature: Option<f64>,
    /// How long the answer may become, in tokens.
    pub tokens_max: Option<u32>,
    /// The form of the answer, if it must have one.
    pub schema: Option<Schema>,
}

/// A finished answer.
#[derive(Debug, Clone)]
pub struct ChatAnswer {
    /// The text; with a schema, JSON that fits it.
    pub content: Phi<String>,
    /// The model that answered, in its exact version.
    pub model: Option<String>,
    /// OpenAI's id of the call.
    pub request_id: Option<String>,
}

impl Chat {
    /// A question with one message and nothing else.
    pub fn new(model: impl Into<String>, message: Message) -> Self {
        let messages = vec![message];
        Self { model: model.into(), messages, temperature: None, tokens_max: None, schema: None }
    }

    fn body(&self) -> Value {
        let Self { model, messages, temperature, tokens_max, schema } = self;
        let message = |one: &Message| json!({"role": one.role, "content": one.content.expose()});
        let mut body = json!({"model": model, "messages": messages.iter().map(message).collect::<Vec<_>>()});
        if let Some(temperature) = temperature {
            body["temperature"] = json!(temperature);
        }
        if let Some(tokens) = tokens_max {
            body["max_completion_tokens"] = json!(tokens);
        }
        if let Some(Schema { name, schema }) = schema {
            let schema = json!({"name": name, "strict": true, "schema": schema});
            body["response_format"] = json!({"type": "json_schema", "json_schema": schema});
        }
        body
    }
}

impl OpenAi {
    /// Asks the model. An answer that is not finished is an error that says why.
    pub async fn chat(&self, chat: &Chat) -> Result<ChatAnswer, OpenAiError> {
        let answer = self.say(chat).await?;
        let is_json = |text: &str| serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
        if chat.schema.is_some() && !is_json(answer.content.expose()) {
            return Err(OpenAiError::Malformed("its content is not JSON, though a schema was given"));
        }
        Ok(answer)
    }

    /// Asks the model, and takes plain words also where a schema was given: not every server that speaks
    /// OpenAI's language keeps to one.
    pub(crate) async fn say(&self, chat: &Chat) -> Result<ChatAnswer, OpenAiError> {
        let body = Body::bytes(chat.body().to_string());
        let answer = self.post("chat/completions", "application/json", body).await?;
        let request_id = request_id(&answer);
        let completion: Completion = read(answer).await?;
        let model = completion.model.filter(|model| crate::text::identifier(model).is_some());
        let choice = completion.choices.into_iter().next();
        let choice = choice.ok_or(OpenAiError::Malformed("it has no choice"))?;
        if choice.message.refusal.is_some_and(|text| !text.is_empty()) {
            return Err(OpenAiError::Refusal);
        }
        match choice.finish_reason.as_deref() {
            Some("length") => return Err(OpenAiError::Truncated),
            Some("content_filter") => return Err(OpenAiError::Filtered),
            _ => {}
        }
        let content = choice.message.content.ok_or(OpenAiError::Malformed("its message has no content"))?;
        Ok(ChatAnswer { content: Phi::new(content), model, request_id })
    }
}

#[derive(Deserialize)]
struct Completion {
    #[serde(default)]
    model: Option<String>,
    choices: Vec<Choice>,
}

#[derive(Deserialize)]
struct Choice {
    message: Said,
    #[serde(default)]
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Said {
    #[serde(default)]
    content: Option<String>,
    #[serde(default)]
    refusal: Option<String>,
}
