//! Models that answer in words, whoever runs them: asked for JSON of a schema, read with patience.
//!
//! A model that cannot keep to a schema answers in plain words; [`reading`] says what those mean. Nothing here
//! asks twice.

mod error;
pub mod reading;
mod reply;

use async_trait::async_trait;

pub use error::{ModelError, ModelFault};
pub use reply::Reply;

use crate::openai::{Chat, Message, OpenAi, Schema};

/// A question whose answer is to be JSON of a schema.
#[derive(Debug, Clone)]
pub struct Question {
    /// What is said to the model.
    pub messages: Vec<Message>,
    /// How long the answer may become, in tokens.
    pub tokens_max: u32,
    /// The form of the answer.
    pub schema: Schema,
}

/// A model that can be asked.
#[async_trait]
pub trait Model: Send + Sync {
    /// Asks once.
    async fn ask(&self, question: &Question) -> Result<Reply, ModelError>;
}

/// A model behind OpenAI's API, at OpenAI or anywhere else that speaks it.
#[derive(Debug, Clone)]
pub struct OpenAiModel {
    client: OpenAi,
    model: String,
}

impl OpenAiModel {
    /// The model with this name.
    pub fn new(client: OpenAi, model: impl Into<String>) -> Self {
        Self { client, model: model.into() }
    }
}

#[async_trait]
impl Model for OpenAiModel {
    async fn ask(&self, question: &Question) -> Result<Reply, ModelError> {
        let Question { messages, tokens_max, schema } = question.clone();
        let (tokens_max, schema) = (Some(tokens_max), Some(schema));
        let chat = Chat { model: self.model.clone(), messages, temperature: None, tokens_max, schema };
        let answer = self.client.say(&chat).await?;
        Ok(Reply::of_text(answer.content.expose()))
    }
}
