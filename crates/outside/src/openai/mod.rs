//! OpenAI: chat completions and audio transcriptions, by plain HTTP.

mod chat;
mod error;
mod transcribe;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hmac::{Hmac, KeyInit, Mac};
use http::HeaderName;
use http::header::CONTENT_TYPE;
use serde::de::DeserializeOwned;
use sha2::Sha256;
use url::Url;

pub use chat::{Chat, ChatAnswer, Message, Role, Schema};
pub use error::OpenAiError;
pub use transcribe::{Audio, Transcript, Transcription, takes};

use crate::beginning::beginning;
use crate::safe_http::{Base, Body, Credentials, Http, HttpError, Limits, Refusal, Request, Response};
use crate::secret::Secret;
use crate::text::identifier;

/// Where the API is.
pub const URL: &str = "https://api.openai.com/v1";

/// OpenAI's code for a model that it does not know.
const MODEL_NOT_FOUND: &str = "model_not_found";

/// The client.
#[derive(Debug, Clone)]
pub struct OpenAi {
    http: Http,
    base: Base,
    credentials: Credentials,
    key: Secret<String>,
    limits: Limits,
    forms: Arc<AtomicU64>,
}

impl OpenAi {
    /// A client for the API at `base`, which is [`URL`] unless it is set otherwise.
    pub fn new(http: Http, base: Url, key: Secret<String>, limits: Limits) -> Result<Self, Refusal> {
        let credentials = Credentials::bearer(&base, &key)?;
        Ok(Self { http, base: Base(base), credentials, key, limits, forms: Arc::default() })
    }

    /// The same client with other limits.
    #[must_use]
    pub fn with_limits(&self, limits: Limits) -> Self {
        Self { limits, ..self.clone() }
    }

    /// Whether OpenAI knows the key and a model, as far as a question that costs nothing can tell. Only a
    /// refusal that leaves no doubt is an error: a key may be good for speech alone and not for this question,
    /// and what stands in for OpenAI may not know the question.
    pub async fn probe(&self, model: &str) -> Result<(), OpenAiError> {
        let url = self.place(["models", model])?;
        match self.send(Request::get(url)).await {
            Err(OpenAiError::Configuration { status: 401, code }) if code == "invalid_api_key" => {
                Err(OpenAiError::Configuration { status: 401, code })
            }
            Err(OpenAiError::NoSuchModel { status, code }) if code == MODEL_NOT_FOUND => {
                Err(OpenAiError::NoSuchModel { status, code })
            }
            Err(error @ OpenAiError::Http(_)) => Err(error),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    async fn post(&self, path: &str, content_type: &str, body: Body) -> Result<Response, OpenAiError> {
        let request = Request::post(self.place(path.split('/'))?, body);
        self.send(request.header(CONTENT_TYPE, content_type).map_err(HttpError::from)?).await
    }

    fn place<'a>(&self, parts: impl IntoIterator<Item = &'a str>) -> Result<Url, OpenAiError> {
        let mut url = self.base.0.clone();
        url.path_segments_mut().map_err(|()| HttpError::from(Refusal::NotAUrl))?.pop_if_empty().extend(parts);
        Ok(url)
    }

    async fn send(&self, request: Request) -> Result<Response, OpenAiError> {
        let request = request.limits(self.limits).credentials(self.credentials.clone());
        let answer = self.http.send(request).await?;
        if (200..300).contains(&answer.status()) {
            return Ok(answer);
        }
        let (status, retry_after) = (answer.status(), answer.status_error().retry_after());
        Err(OpenAiError::of(status, retry_after, &beginning(answer).await))
    }

    /// A boundary that follows from the key and a count: nobody outside can
    /// know it, and no randomness is needed.
    fn boundary(&self) -> String {
        let count = self.forms.fetch_add(1, Ordering::Relaxed);
        let mac = Hmac::<Sha256>::new_from_slice(self.key.expose().as_bytes());
        let mut mac = mac.expect("a key of any length will do");
        mac.update(b"multipart boundary");
        mac.update(&count.to_le_bytes());
        let code = mac.finalize().into_bytes();
        code[..20].iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// OpenAI's id of a call, for logs.
fn request_id(answer: &Response) -> Option<String> {
    let id = answer.header(HeaderName::from_static("x-request-id"))?;
    identifier(id).map(str::to_owned)
}

async fn read<T: DeserializeOwned>(answer: Response) -> Result<T, OpenAiError> {
    let body = answer.bytes().await?;
    serde_json::from_slice(&body).map_err(|_| OpenAiError::Malformed("it is not the JSON of such an answer"))
}
