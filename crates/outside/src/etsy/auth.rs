//! OAuth 2: consent with PKCE, the tokens that follow from it, and how they are renewed.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;
use sha2::{Digest, Sha256};
use url::Url;

use super::error::EtsyError;
use super::{AppKey, Etsy};
use crate::secret::Secret;

/// What a sync may do: read and write listings, read the shop, write its sections.
pub const SCOPES: &str = "listings_r listings_w shops_r shops_w";

/// What Etsy gave a seller's app.
#[derive(Debug, Clone)]
pub struct Tokens {
    /// Goes with every call, for an hour.
    pub access: Secret<String>,
    /// Good for one refresh within 90 days.
    pub refresh: Secret<String>,
    /// For how many seconds the access token is good.
    pub expires_in: u64,
}

impl Tokens {
    fn read(answer: &Value) -> Result<Self, EtsyError> {
        let text = |name: &str| answer[name].as_str().filter(|text| !text.is_empty());
        let (access, refresh) = (text("access_token"), text("refresh_token"));
        let (Some(access), Some(refresh)) = (access, refresh) else {
            return Err(EtsyError::Malformed("it has no tokens"));
        };
        let expires_in = answer["expires_in"].as_u64().unwrap_or(3600);
        Ok(Self {
            access: Secret::new(access.to_owned()),
            refresh: Secret::new(refresh.to_owned()),
            expires_in,
        })
    }
}

/// The user whose token this is: tokens begin with their user's number and a dot.
pub fn user_of(token: &Secret<String>) -> Option<u64> {
    token.expose().split_once('.')?.0.parse().ok()
}

/// A consent that is asked for: where the seller goes, and what must be kept until they come back.
#[derive(Debug, Clone)]
pub struct Consent {
    /// Comes back with the code: whoever brings another one was not sent by us.
    pub state: String,
    verifier: Secret<String>,
    redirect: Url,
}

impl Consent {
    /// A consent with 64 bytes that nobody can guess.
    pub fn new(redirect: Url, chance: &[u8; 64]) -> Self {
        let (verifier, state) = chance.split_at(48);
        Self {
            state: URL_SAFE_NO_PAD.encode(state),
            verifier: Secret::new(URL_SAFE_NO_PAD.encode(verifier)),
            redirect,
        }
    }

    /// Where the seller consents.
    pub fn link(&self, connect: &Url, key: &AppKey) -> Url {
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(self.verifier.expose().as_bytes()));
        let mut url = connect.clone();
        url.query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &key.keystring)
            .append_pair("redirect_uri", self.redirect.as_str())
            .append_pair("scope", SCOPES)
            .append_pair("state", &self.state)
            .append_pair("code_challenge", &challenge)
            .append_pair("code_challenge_method", "S256");
        url
    }

    /// The code of the address that the seller was sent back to; why not, in words, when it has none of ours.
    pub fn code(&self, came_back: &Url) -> Result<Secret<String>, &'static str> {
        let of = |name: &str| {
            came_back.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
        };
        if of("error").is_some() {
            return Err("the seller did not consent");
        }
        if of("state").as_deref() != Some(&self.state) {
            return Err("its state is not the one of this link: use the newest link");
        }
        of("code").map(Secret::new).ok_or("it has no code")
    }
}

impl Etsy {
    /// Tokens for a code.
    pub async fn exchange(&self, consent: &Consent, code: &Secret<String>) -> Result<Tokens, EtsyError> {
        let form = [
            ("grant_type", "authorization_code"),
            ("client_id", self.key.keystring.as_str()),
            ("redirect_uri", consent.redirect.as_str()),
            ("code", code.expose()),
            ("code_verifier", consent.verifier.expose()),
        ];
        Tokens::read(&self.token(&form).await?)
    }

    /// New tokens for a refresh token, which is dead from then on, whether or not the answer arrives.
    pub async fn refresh(&self, refresh: &Secret<String>) -> Result<Tokens, EtsyError> {
        let form = [
            ("grant_type", "refresh_token"),
            ("client_id", self.key.keystring.as_str()),
            ("refresh_token", refresh.expose()),
        ];
        Tokens::read(&self.token(&form).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_consent_knows_its_own() {
        let redirect = Url::parse("https://shop.example/back").unwrap();
        let consent = Consent::new(redirect, &[7; 64]);
        let key = AppKey { keystring: "k1".into(), shared_secret: Secret::new("canary".into()) };
        let link = consent.link(&Url::parse(super::super::CONNECT_URL).unwrap(), &key).to_string();
        assert!(link.starts_with("https://www.etsy.com/oauth/connect?response_type=code&client_id=k1&"));
        assert!(link.contains("code_challenge_method=S256") && !link.contains("canary"), "{link}");
        assert!((43..=128).contains(&consent.verifier.expose().len()));
        let back = |query: &str| Url::parse(&format!("https://shop.example/back?{query}")).unwrap();
        let good = back(&format!("code=c1&state={}", consent.state));
        assert_eq!(consent.code(&good).unwrap().expose(), "c1");
        assert!(consent.code(&back("code=c1&state=other")).is_err());
        assert!(consent.code(&back(&format!("error=access_denied&state={}", consent.state))).is_err());
        assert!(!format!("{consent:?}").contains(consent.verifier.expose().as_str()));
    }

    #[test]
    fn a_token_begins_with_its_user() {
        assert_eq!(user_of(&Secret::new("12345.abc".into())), Some(12_345));
        assert_eq!(user_of(&Secret::new("abc".into())), None);
    }
}
