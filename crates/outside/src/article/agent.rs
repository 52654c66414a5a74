//! Who we say we are.

use crate::safe_http::Refusal;

/// The name of a program that fetches pages, its version, and whom to write to about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    product: String,
    header: String,
}

impl Agent {
    /// `windlass-news/0.1 (+https://example.org/bot)`. The product is one word of letters, `-` and `_`, for it
    /// is what a `robots.txt` calls us by; the contact is an address of the web or of mail.
    pub fn new(product: &str, version: &str, contact: &str) -> Result<Self, Refusal> {
        let fits = |byte: u8| byte.is_ascii_alphabetic() || matches!(byte, b'-' | b'_');
        if product.is_empty() || product.len() > 64 || !product.bytes().all(fits) {
            return Err(Refusal::Header("the product is one word of letters, - and _"));
        }
        let odd = |letter: char| letter.is_control() || !letter.is_ascii() || matches!(letter, '(' | ')');
        if contact.is_empty()
            || contact.len() > 200
            || version.len() > 64
            || format!("{version}{contact}").contains(odd)
        {
            return Err(Refusal::Header("the contact is an address of the web or of mail"));
        }
        Ok(Self {
            product: product.to_ascii_lowercase(),
            header: format!("{product}/{version} (+{contact})"),
        })
    }

    /// The word that a `robots.txt` calls us by, in lower case.
    pub fn product(&self) -> &str {
        &self.product
    }

    /// The value of `User-Agent`.
    pub fn header(&self) -> &str {
        &self.header
    }
}
