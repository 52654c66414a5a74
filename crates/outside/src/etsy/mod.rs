//! Etsy's Open API v3: one call at a time, as its own document has it.
//!
//! A call is data ([`Call`]); the client sends it with the two-part key and,
//! where there is one, the seller's token, and gives back what was said and
//! what the answer's head told of the limits ([`Told`]). It does not wait for a
//! limit, refresh a token or try again: whoever asks has the ledger, the lock
//! and the ladder.

mod auth;
mod call;
mod error;
mod quota;

use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderName, Method};
use serde_json::Value;
use url::Url;

pub use auth::{Consent, SCOPES, Tokens, user_of};
pub use call::{BATCH_MAX, Call, LISTING_STATES, OFFSET_MAX, PAGE_MAX, Place, Sort};
pub use error::{EtsyError, Window};
pub use quota::Quota;

use crate::beginning::beginning;
use crate::retry_after::RetryAfter;
use crate::safe_http::{Base, Body, Credentials, Http, HttpError, Limits, Refusal, Request, Response};
use crate::secret::Secret;

/// Where the API is.
pub const URL: &str = "https://openapi.etsy.com";
/// Where tokens are given out and refreshed.
pub const TOKEN_URL: &str = "https://api.etsy.com/v3/public/oauth/token";
/// Where a seller consents.
pub const CONNECT_URL: &str = "https://www.etsy.com/oauth/connect";

/// A page of a hundred listings with inventory, images and translations.
const ANSWER_BYTES_MAX: u64 = 64_000_000;
const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// What an answer said, and what its head told of the limits.
#[derive(Debug)]
pub struct Told<T> {
    /// What is left, as far as it was told.
    pub quota: Quota,
    /// What was said.
    pub said: Result<T, EtsyError>,
}

/// The app's own credentials.
#[derive(Debug, Clone)]
pub struct AppKey {
    /// The public part, which is also the client id.
    pub keystring: String,
    /// The secret part.
    pub shared_secret: Secret<String>,
}

/// The client of one app.
#[derive(Debug, Clone)]
pub struct Etsy {
    http: Http,
    base: Base,
    token_url: Base,
    key: AppKey,
    limits: Limits,
}

impl Etsy {
    /// A client for the API at `base` and the token endpoint at `token_url`: [`URL`] and [`TOKEN_URL`] unless
    /// they are set otherwise.
    pub fn new(http: Http, base: Url, token_url: Url, key: AppKey, limits: Limits) -> Self {
        let limits = Limits { bytes_max: ANSWER_BYTES_MAX, hops_max: 0, ..limits };
        Self { http, base: Base(base), token_url: Base(token_url), key, limits }
    }

    /// How long a call may take.
    pub fn total(&self) -> std::time::Duration {
        self.limits.total
    }

    /// Makes a call, as the seller whose token this is.
    pub async fn send(&self, call: &Call, token: &Secret<String>) -> Told<Value> {
        self.told(call, Some(token)).await
    }

    /// Asks whether the app's key is taken, which needs no seller.
    pub async fn ping(&self) -> Told<Value> {
        self.told(&Call::ping(), None).await
    }

    async fn told(&self, call: &Call, token: Option<&Secret<String>>) -> Told<Value> {
        let answer = match self.ask(call, token).await {
            Ok(answer) => answer,
            Err(error) => return Told { quota: Quota::default(), said: Err(error) },
        };
        let quota = Quota::of(answer.headers());
        let said = self.read(answer, quota).await.and_then(|said| match call.expected() {
            Some(name) if said[name].is_null() => {
                Err(EtsyError::Malformed("it lacks what such an answer has"))
            }
            _ => Ok(said),
        });
        Told { quota, said }
    }

    async fn ask(&self, call: &Call, token: Option<&Secret<String>>) -> Result<Response, EtsyError> {
        let url = self.place(call)?;
        let (body, content_type) = call.body();
        let mut request = Request::new(call.method.clone(), url, Body::bytes(body));
        if let Some(content_type) = content_type {
            request = request.header(CONTENT_TYPE, content_type).map_err(HttpError::from)?;
        }
        let key = format!("{}:{}", self.key.keystring, self.key.shared_secret.expose());
        let mut request = request
            .header(API_KEY, &key)
            .and_then(|request| request.header(ACCEPT, "application/json"))
            .map_err(HttpError::from)?;
        if let Some(token) = token {
            let bearer = Credentials::bearer(&self.base.0, token).map_err(HttpError::from)?;
            request = request.credentials(bearer);
        }
        // The key is in a header that would go along: a redirect is an answer, and one that nobody expects.
        Ok(self.http.send(request.limits(self.limits).unfollowed()).await?)
    }

    fn place(&self, call: &Call) -> Result<Url, EtsyError> {
        let mut url = self.base.0.clone();
        let mut path = url.path_segments_mut().map_err(|()| HttpError::from(Refusal::NotAUrl))?;
        path.pop_if_empty().extend(["v3", "application"]).extend(&call.path);
        drop(path);
        if !call.query.is_empty() {
            url.query_pairs_mut().extend_pairs(&call.query);
        }
        Ok(url)
    }

    async fn read(&self, answer: Response, quota: Quota) -> Result<Value, EtsyError> {
        let status = answer.status();
        if (200..300).contains(&status) {
            let body = answer.bytes().await?;
            if body.is_empty() {
                return Ok(Value::Null);
            }
            return serde_json::from_slice(&body).map_err(|_| EtsyError::Malformed("it is not JSON"));
        }
        let retry_after = answer.header(http::header::RETRY_AFTER).and_then(RetryAfter::parse);
        Err(EtsyError::of(status, retry_after, quota, &beginning(answer).await))
    }

    /// Posts a form to the token endpoint.
    async fn token(&self, form: &[(&str, &str)]) -> Result<Value, EtsyError> {
        let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
        let request = Request::new(Method::POST, self.token_url.0.clone(), Body::bytes(body))
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .map_err(HttpError::from)?;
        let answer = self.http.send(request.limits(self.limits).unfollowed()).await?;
        self.read(answer, Quota::default()).await
    }
}
