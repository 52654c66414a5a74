//! Workers AI: Cloudflare's models, by plain HTTP.

use async_trait::async_trait;
use http::Method;
use serde_json::{Value, json};
use url::Url;

pub use crate::cloudflare::{CloudflareError, URL};

use crate::cloudflare::{Account, with_json};
use crate::models::{Model, ModelError, Question, Reply};
use crate::safe_http::{Http, Limits, Refusal};
use crate::secret::Secret;

/// One model of an account.
#[derive(Debug, Clone)]
pub struct WorkersAi {
    account: Account,
    model: String,
}

impl WorkersAi {
    /// The model with this name, `@cf/meta/llama-3.1-8b-instruct`, at `base`, which is [`URL`] unless it is set
    /// otherwise.
    pub fn new(
        http: Http,
        base: Url,
        account: impl Into<String>,
        token: &Secret<String>,
        model: impl Into<String>,
        limits: Limits,
    ) -> Result<Self, Refusal> {
        let account = Account::new(http, base, Some(account.into()), token, limits)?;
        Ok(Self { account, model: model.into() })
    }
}

#[async_trait]
impl Model for WorkersAi {
    async fn ask(&self, question: &Question) -> Result<Reply, ModelError> {
        let parts: Vec<&str> = ["ai", "run"].into_iter().chain(self.model.split('/')).collect();
        let url = self.account.place(&parts)?;
        let messages: Vec<Value> = question
            .messages
            .iter()
            .map(|one| json!({"role": one.role, "content": one.content.expose()}))
            .collect();
        let form = json!({"type": "json_schema", "json_schema": question.schema.schema});
        let body = json!({"messages": messages, "max_tokens": question.tokens_max, "response_format": form});
        let (result, _) = self.account.call(with_json(Method::POST, url, body.to_string())?).await?;
        reply(result)
    }
}

/// The answer is in `response`, as an object or as text; older models answer with bare text, newer ones in
/// OpenAI's form.
fn reply(mut result: Value) -> Result<Reply, ModelError> {
    let said = match &mut result {
        Value::String(_) => result,
        Value::Object(result) => match result.remove("response") {
            Some(response) if !response.is_null() => response,
            _ => match result.get_mut("choices").map(|choices| &mut choices[0]) {
                Some(choice) if choice["finish_reason"] == "length" => {
                    return Err(ModelError::Unreadable("it was cut off at its token limit"));
                }
                Some(choice) => choice["message"]["content"].take(),
                None => Value::Null,
            },
        },
        _ => Value::Null,
    };
    Reply::of_value(said).ok_or(ModelError::Unreadable("it has no response"))
}
