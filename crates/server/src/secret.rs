//! A secret text that cannot be printed by mistake, and the hash by which it
//! is compared.

use std::fmt;

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// A token in clear text. It is shown to nobody: `Debug` hides it, and there
/// is no `Display`.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// Takes a secret.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Its hash: all that the server keeps of it.
    pub fn hash(&self) -> SecretHash {
        SecretHash::of(self.0.as_bytes())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.trim().is_empty()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(hidden)")
    }
}

/// The SHA-256 of a secret.
#[derive(Clone, Copy)]
pub struct SecretHash([u8; 32]);

impl SecretHash {
    /// The hash of what somebody offered.
    pub fn of(text: &[u8]) -> Self {
        Self(Sha256::digest(text).into())
    }

    /// Reads a hash that is written in 64 hexadecimal digits.
    pub fn from_hex(text: &str) -> Option<Self> {
        let mut hash = [0; 32];
        if text.len() != 64 || !text.is_ascii() {
            return None;
        }
        for (at, byte) in hash.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
        }
        Some(Self(hash))
    }

    pub(crate) fn bytes(self) -> [u8; 32] {
        self.0
    }

    /// Whether both are of the same secret. Takes as long for every answer:
    /// neither the length nor the beginning of a secret can be told from it.
    pub fn is(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl fmt::Debug for SecretHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretHash(hidden)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fault 73: a token is compared by its hash, and as a whole.
    #[test]
    fn fault_73_hashes_are_compared() {
        let secret = Secret::new("correct horse");
        assert!(secret.hash().is(&SecretHash::of(b"correct horse")));
        for wrong in ["", "correct", "correct horse ", "Correct horse"] {
            assert!(!secret.hash().is(&SecretHash::of(wrong.as_bytes())), "{wrong:?}");
        }
        let hex = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
        assert!(SecretHash::from_hex(hex).unwrap().is(&SecretHash::of(b"test")));
        assert!(SecretHash::from_hex("9f86").is_none());
        assert!(SecretHash::from_hex(&"ü".repeat(32)).is_none());
    }

    /// Fault 71: printing a secret shows nothing of it.
    #[test]
    fn fault_71_a_secret_is_not_printed() {
        let printed = format!("{:?} {:?}", Secret::new("canary"), Secret::new("canary").hash());
        assert_eq!(printed, "Secret(hidden) SecretHash(hidden)");
    }
}
