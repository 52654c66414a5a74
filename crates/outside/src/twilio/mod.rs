//! Twilio: the media of a message, and the signature of a webhook.

mod signature;
mod sound;

use bytes::Bytes;
use url::Url;

pub use signature::{is_signed_body, is_signed_form};
pub use sound::{Sound, looked_at};

use crate::safe_http::{
    Base, Body, Credentials, Http, HttpError, Limits, Origin, Refusal, Request, Response, parse_url,
};
use crate::secret::Secret;

/// Where the API is.
pub const URL: &str = "https://api.twilio.com";

/// The largest media that a message can have.
pub const MEDIA_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Why a media was not delivered. No text holds an address: it names the patient's message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TwilioError {
    /// The address is not that of a media of this account. Nothing was sent.
    #[error("the media's address is not one of this Twilio account; nothing was asked for")]
    NotOurs,
    /// Twilio does not know the media: not yet, soon after its message came,
    /// or not any more.
    #[error("Twilio does not have this media, not yet or not any more")]
    Missing,
    /// The account or its token is wrong.
    #[error("Twilio did not accept the account and its token (status {status}); check both")]
    Configuration {
        /// The status code.
        status: u16,
    },
    /// The media is of a kind that was not asked for.
    #[error("the media is of another kind than was asked for")]
    WrongKind,
    /// The media has no content.
    #[error("the media is empty")]
    Empty,
    /// The call failed.
    #[error(transparent)]
    Http(#[from] HttpError),
}

impl TwilioError {
    /// A short code that never changes, for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotOurs => "not_ours",
            Self::Missing => "missing",
            Self::Configuration { .. } => "configuration",
            Self::WrongKind => "wrong_kind",
            Self::Empty => "empty",
            Self::Http(error) => error.code(),
        }
    }

    /// Whether the same call may succeed later without anything else changing.
    pub fn is_transient(&self) -> bool {
        match self {
            // Right after the webhook the media may not have arrived everywhere.
            Self::Missing => true,
            // The link to the CDN is made anew for each call.
            Self::Http(HttpError::Status { status: 403, .. }) => true,
            Self::Http(error) => error.is_transient(),
            Self::NotOurs | Self::Configuration { .. } | Self::WrongKind | Self::Empty => false,
        }
    }
}

/// The client of one account.
#[derive(Debug, Clone)]
pub struct Twilio {
    http: Http,
    base: Base,
    origin: Origin,
    account: String,
    credentials: Credentials,
    limits: Limits,
}

impl Twilio {
    /// A client for the API at `base`, which is [`URL`] unless it is set otherwise.
    pub fn new(
        http: Http,
        base: Url,
        account: impl Into<String>,
        token: &Secret<String>,
        limits: Limits,
    ) -> Result<Self, Refusal> {
        let account = account.into();
        let (origin, credentials) = (Origin::of(&base)?, Credentials::basic(&base, &account, token)?);
        let limits = Limits { bytes_max: limits.bytes_max.min(MEDIA_BYTES_MAX), ..limits };
        Ok(Self { http, base: Base(base), origin, account, credentials, limits })
    }

    /// Whether Twilio knows the account and its token, as far as a question that costs nothing can tell:
    /// only a refusal that leaves no doubt is an error.
    pub async fn probe(&self) -> Result<(), TwilioError> {
        let mut url = self.base.0.clone();
        url.path_segments_mut().map_err(|()| HttpError::from(Refusal::NotAUrl))?.pop_if_empty().extend([
            "2010-04-01",
            "Accounts",
            &format!("{}.json", self.account),
        ]);
        let request = Request::get(url).limits(self.limits).credentials(self.credentials.clone());
        match self.http.send(request).await?.status() {
            status @ 401 => Err(TwilioError::Configuration { status }),
            _ => Ok(()),
        }
    }

    /// Opens a media for reading. `kinds` are the content types that are
    /// wanted, such as `audio/ogg`, or beginnings of them such as `audio/`; one
    /// that is missing counts as `application/octet-stream`.
    ///
    /// The credentials go to Twilio's own host only, and only for an address
    /// within this account; the CDN gets none.
    pub async fn media(&self, address: &str, kinds: &[&str]) -> Result<Media, TwilioError> {
        let request = Request::get(self.check(address)?).identity().limits(self.limits);
        let answer = self.http.send(request.credentials(self.credentials.clone())).await?;
        let answer = self.accept(answer)?;
        let essence = answer.essence().unwrap_or_else(|| "application/octet-stream".to_owned());
        if !kinds.iter().any(|kind| essence == *kind || (kind.ends_with('/') && essence.starts_with(kind))) {
            return Err(TwilioError::WrongKind);
        }
        if answer.declared_bytes() == Some(0) {
            return Err(TwilioError::Empty);
        }
        Ok(Media { essence, answer })
    }

    /// Deletes a media at Twilio. One that is not there counts as deleted.
    pub async fn delete(&self, address: &str) -> Result<(), TwilioError> {
        let request = Request::new(http::Method::DELETE, self.check(address)?, Body::empty());
        let request = request.limits(self.limits).credentials(self.credentials.clone());
        match self.accept(self.http.send(request).await?) {
            Ok(_) | Err(TwilioError::Missing) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The address, if it is that of a media of this account. It came with a
    /// message, so anybody may have written it.
    fn check(&self, address: &str) -> Result<Url, TwilioError> {
        let url = parse_url(address).map_err(|_| TwilioError::NotOurs)?;
        if Origin::of(&url).ok().as_ref() != Some(&self.origin) || !url.username().is_empty() {
            return Err(TwilioError::NotOurs);
        }
        let prefix = self.base.0.path().trim_end_matches('/');
        let path = url.path().strip_prefix(prefix).ok_or(TwilioError::NotOurs)?;
        let parts: Vec<&str> = path.split('/').collect();
        let ["", "2010-04-01", "Accounts", account, "Messages", message, "Media", media] = parts[..] else {
            return Err(TwilioError::NotOurs);
        };
        let ours = account == self.account && is_id(message) && is_id(media);
        if ours && url.query().is_none() { Ok(url) } else { Err(TwilioError::NotOurs) }
    }

    fn accept(&self, answer: Response) -> Result<Response, TwilioError> {
        let at_home = *answer.origin() == self.origin;
        match answer.status() {
            404 => Err(TwilioError::Missing),
            status @ (401 | 403) if at_home => Err(TwilioError::Configuration { status }),
            _ => Ok(answer.ok()?),
        }
    }
}

fn is_id(part: &str) -> bool {
    !part.is_empty() && part.len() <= 64 && part.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// A media that is being read.
#[derive(Debug)]
pub struct Media {
    essence: String,
    answer: Response,
}

impl Media {
    /// Its content type without parameters: `audio/ogg`.
    pub fn essence(&self) -> &str {
        &self.essence
    }

    /// Its length, when it was declared.
    pub fn declared_bytes(&self) -> Option<u64> {
        self.answer.declared_bytes()
    }

    /// The next piece; `None` at its end.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, HttpError> {
        self.answer.chunk().await
    }

    /// All of it as a stream.
    pub fn into_stream(self) -> impl futures::Stream<Item = Result<Bytes, HttpError>> + Send {
        self.answer.into_stream()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::safe_http::Guard;

    /// Weakness 26: an address that anybody could have written does not get the token.
    #[test]
    fn only_addresses_of_the_account_are_asked() {
        let token = Secret::new("t".to_owned());
        let base = Url::parse(URL).unwrap();
        let twilio = Twilio::new(Http::new(Guard::new()), base, "AC1", &token, Limits::default()).unwrap();
        let good = "https://api.twilio.com/2010-04-01/Accounts/AC1/Messages/MM1/Media/ME1";
        assert!(twilio.check(good).is_ok());
        for bad in [
            "https://evil.example/2010-04-01/Accounts/AC1/Messages/MM1/Media/ME1",
            "http://api.twilio.com/2010-04-01/Accounts/AC1/Messages/MM1/Media/ME1",
            "https://api.twilio.com:8443/2010-04-01/Accounts/AC1/Messages/MM1/Media/ME1",
            "https://api.twilio.com@evil.example/2010-04-01/Accounts/AC1/Messages/MM1/Media/ME1",
            "https://user@api.twilio.com/2010-04-01/Accounts/AC1/Messages/MM1/Media/ME1",
            "https://api.twilio.com.evil.example/2010-04-01/Accounts/AC1/Messages/MM1/Media/ME1",
            "https://api.twilio.com/2010-04-01/Accounts/AC2/Messages/MM1/Media/ME1",
            "https://api.twilio.com/2010-04-01/Accounts/AC1/Messages/MM1/Media/../../Calls",
            "https://api.twilio.com/2010-04-01/Accounts/AC1/Messages/MM1/Media/ME1/",
            "https://api.twilio.com/2010-04-01/Accounts/AC1/Messages/MM1/Media/ME1?x=1",
            "https://api.twilio.com/2010-04-01/Accounts/AC1/Messages/MM1/Media/%2e%2e",
            "https://api.twilio.com/2010-04-01/Accounts/AC1/Recordings/RE1",
            "//api.twilio.com/2010-04-01/Accounts/AC1/Messages/MM1/Media/ME1",
            "",
        ] {
            assert_eq!(twilio.check(bad).unwrap_err(), TwilioError::NotOurs, "{bad}");
        }
    }
}
