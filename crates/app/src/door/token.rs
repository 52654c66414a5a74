//! The token that callers need.

use http::HeaderMap;
use http::header::AUTHORIZATION;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use windlass_engine::core::secret::Secret;

/// The hash of the token: compared as a whole, in the same time for every answer.
#[derive(Clone)]
pub struct Token([u8; 32]);

impl Token {
    /// What is kept of a token.
    pub fn of(token: &Secret<String>) -> Self {
        Self(Sha256::digest(token.expose().as_bytes()).into())
    }

    /// Whether a request shows the token.
    pub fn admits(&self, headers: &HeaderMap) -> bool {
        let offered = headers.get(AUTHORIZATION).map(|value| value.as_bytes()).unwrap_or_default();
        let scheme = offered.get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"bearer "));
        let token: [u8; 32] = Sha256::digest(offered.get(7..).unwrap_or_default().trim_ascii()).into();
        scheme && bool::from(token.ct_eq(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn only_the_token_is_admitted() {
        let hash = Token::of(&Secret::new("secret".to_owned()));
        for (value, admitted) in [
            ("Bearer secret", true),
            ("bearer  secret ", true),
            ("Bearer secre", false),
            ("Basic secret", false),
            ("secret", false),
            ("Bearer ", false),
        ] {
            let headers = HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_static(value))]);
            assert_eq!(hash.admits(&headers), admitted, "{value}");
        }
        assert!(!hash.admits(&HeaderMap::new()));
    }
}
