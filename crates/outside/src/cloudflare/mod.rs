//! What all of Cloudflare's services share: an account, a token, an envelope, and codes of errors.

mod error;

use http::header::CONTENT_TYPE;
use serde_json::Value;
use url::Url;

pub use error::CloudflareError;

use crate::beginning::beginning;
use crate::safe_http::{Base, Body, Credentials, Http, HttpError, Limits, Refusal, Request, Response};
use crate::secret::Secret;

/// Where the API is.
pub const URL: &str = "https://api.cloudflare.com/client/v4";

/// The API of one account.
#[derive(Debug, Clone)]
pub(crate) struct Account {
    http: Http,
    base: Base,
    /// What comes after the base: `accounts/ID`, or nothing where a local server plays one account.
    account: Option<String>,
    credentials: Credentials,
    limits: Limits,
}

impl Account {
    pub(crate) fn new(
        http: Http,
        base: Url,
        account: Option<String>,
        token: &Secret<String>,
        limits: Limits,
    ) -> Result<Self, Refusal> {
        let credentials = Credentials::bearer(&base, token)?;
        Ok(Self { http, base: Base(base), account, credentials, limits })
    }

    /// The address of something in the account. Each part is one segment, whatever is in it.
    pub(crate) fn place(&self, parts: &[&str]) -> Result<Url, CloudflareError> {
        let mut url = self.base.0.clone();
        let mut path = url.path_segments_mut().map_err(|()| HttpError::from(Refusal::NotAUrl))?;
        path.pop_if_empty();
        if let Some(account) = &self.account {
            path.extend(["accounts", account]);
        }
        path.extend(parts);
        drop(path);
        Ok(url)
    }

    /// An answer whose status is a success.
    pub(crate) async fn send(&self, request: Request) -> Result<Response, CloudflareError> {
        let request = request.limits(self.limits).credentials(self.credentials.clone());
        let answer = self.http.send(request).await?;
        if (200..300).contains(&answer.status()) {
            return Ok(answer);
        }
        let (status, retry_after) = (answer.status(), answer.status_error().retry_after());
        Err(CloudflareError::of(status, retry_after, &beginning(answer).await))
    }

    /// What an answer's envelope holds, and what it says about the result.
    pub(crate) async fn call(&self, request: Request) -> Result<(Value, Value), CloudflareError> {
        let answer = self.send(request).await?;
        let status = answer.status();
        let body = answer.bytes().await?;
        let mut envelope: Value =
            serde_json::from_slice(&body).map_err(|_| CloudflareError::Malformed("it is not JSON"))?;
        if envelope["success"] == false {
            return Err(CloudflareError::of(status, None, &body));
        }
        if !envelope.is_object() {
            return Err(CloudflareError::Malformed("it is not an envelope"));
        }
        Ok((envelope["result"].take(), envelope["result_info"].take()))
    }
}

/// A request with a body in JSON.
pub(crate) fn with_json(method: http::Method, url: Url, body: String) -> Result<Request, CloudflareError> {
    let request = Request::new(method, url, Body::bytes(body));
    Ok(request.header(CONTENT_TYPE, "application/json").map_err(HttpError::from)?)
}
