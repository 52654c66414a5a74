//! Whether a webhook was really called by Twilio.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;
use sha2::{Digest, Sha256};
use url::Url;

use crate::secret::Secret;

/// Whether `signature` (the header `X-Twilio-Signature`) is that of a form
/// which was posted to `url`, as Twilio called it, query and all.
///
/// Proxies hide the port that Twilio saw, so the URL counts with it and
/// without. The comparison takes as long for every wrong signature.
pub fn is_signed_form(token: &Secret<String>, url: &str, form: &[(String, String)], signature: &str) -> bool {
    let mut sorted: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, value) in form {
        sorted.entry(name).or_default().push(value);
    }
    let mut tail = String::new();
    for (name, mut values) in sorted {
        values.sort_unstable();
        values.dedup();
        for value in values {
            tail.push_str(name);
            tail.push_str(value);
        }
    }
    is_signed(token, url, &tail, signature)
}

/// Whether `signature` is that of a body of another kind, such as JSON: then
/// only the URL is signed, and names the body's SHA-256 in its query.
pub fn is_signed_body(token: &Secret<String>, url: &str, body: &[u8], signature: &str) -> bool {
    let digest: String = Sha256::digest(body).iter().map(|byte| format!("{byte:02x}")).collect();
    let Ok(parsed) = Url::parse(url) else { return false };
    let named = parsed.query_pairs().find(|(name, _)| name == "bodySHA256");
    named.is_some_and(|(_, value)| value.eq_ignore_ascii_case(&digest))
        && is_signed(token, url, "", signature)
}

fn is_signed(token: &Secret<String>, url: &str, tail: &str, signature: &str) -> bool {
    let Ok(code) = STANDARD.decode(signature.trim()) else { return false };
    let spellings = spellings(url);
    // All spellings are tried, so that the time does not tell which one fits.
    spellings.iter().fold(false, |found, url| {
        let mac = Hmac::<Sha1>::new_from_slice(token.expose().as_bytes());
        let mut mac = mac.expect("a key of any length will do");
        mac.update(url.as_bytes());
        mac.update(tail.as_bytes());
        mac.verify_slice(&code).is_ok() | found
    })
}

/// The URL as it is, with its port and without.
fn spellings(url: &str) -> Vec<String> {
    let mut all = vec![url.to_owned()];
    let Some((scheme, rest)) = url.split_once("://") else { return all };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let bare = match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    };
    let port = if scheme == "https" { 443 } else { 80 };
    all.push(format!("{scheme}://{bare}{path}"));
    all.push(format!("{scheme}://{bare}:{port}{path}"));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const URL: &str = "https://mycompany.com/myapp.php?foo=1&bar=2";
    const SIGNATURE: &str = "0/KCTR6DLpKmkAf8muzZqo1nDgQ=";

    fn form() -> Vec<(String, String)> {
        let pairs = [
            ("CallSid", "CA1234567890ABCDE"),
            ("From", "+12349013030"),
            ("To", "+18005551212"),
            ("Caller", "+12349013030"),
            ("Digits", "1234"),
        ];
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
    }

    fn check(url: &str, form: &[(String, String)], signature: &str) -> bool {
        is_signed_form(&Secret::new("12345".to_owned()), url, form, signature)
    }

    #[test]
    fn the_vector_of_the_documentation() {
        assert!(check(URL, &form(), SIGNATURE));
        assert!(check("https://mycompany.com:443/myapp.php?foo=1&bar=2", &form(), SIGNATURE));
        let mut turned = form();
        turned.reverse();
        turned.push(turned[0].clone());
        assert!(check(URL, &turned, SIGNATURE), "neither order nor a repeated pair matters");
    }

    #[test]
    fn forgeries() {
        assert!(!check("https://mycompany.com/myapp.php?foo=1&bar=3", &form(), SIGNATURE));
        assert!(!check("http://mycompany.com/myapp.php?foo=1&bar=2", &form(), SIGNATURE));
        let mut changed = form();
        changed[4].1.push('5');
        assert!(!check(URL, &changed, SIGNATURE));
        for signature in ["", "0/KC", "not base64!", "AAAAAAAAAAAAAAAAAAAAAAAAAAA=", &SIGNATURE[..27]] {
            assert!(!check(URL, &form(), signature), "{signature}");
        }
        assert!(!is_signed_form(&Secret::new("12346".to_owned()), URL, &form(), SIGNATURE));
    }

    #[test]
    fn a_json_body_is_named_in_the_url() {
        let token = Secret::new("12345".to_owned());
        let body = br#"{"a":1}"#;
        let digest: String = Sha256::digest(body).iter().map(|byte| format!("{byte:02x}")).collect();
        let url = format!("https://example.com/hook?bodySHA256={digest}");
        let mut mac = Hmac::<Sha1>::new_from_slice(b"12345").unwrap();
        mac.update(url.as_bytes());
        let signature = STANDARD.encode(mac.finalize().into_bytes());
        assert!(is_signed_body(&token, &url, body, &signature));
        assert!(!is_signed_body(&token, &url, br#"{"a":2}"#, &signature));
        assert!(!is_signed_body(&token, "https://example.com/hook", body, &signature));
    }
}
