//! The stages of a message, a file each. Each gives what its columns keep, and
//! what the audit says of it; none of them writes into the database.

pub(crate) mod analysis;
pub(crate) mod audio;
mod contradiction;
pub(crate) mod document;
pub(crate) mod transcript;

use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

/// What the audit says of a stage. It is stored with the stage, and not given back later.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Audit {
    pub(crate) provider: Option<&'static str>,
    pub(crate) model: Option<String>,
    /// The SHA-256 of the prompt.
    pub(crate) prompt: Option<String>,
    /// The SHA-256 of what went in.
    #[serde(rename = "in")]
    pub(crate) input: Option<String>,
    /// The SHA-256 of what came out.
    #[serde(rename = "out")]
    pub(crate) output: Option<String>,
    pub(crate) bytes: Option<u64>,
    pub(crate) ms: Option<u64>,
}

/// The result of a stage.
pub(crate) trait Staged: Serialize + DeserializeOwned {
    /// What the audit says of it.
    fn audit(&mut self) -> &mut Audit;
}

macro_rules! staged {
    ($($name:ty),*) => {$(
        impl Staged for $name {
            fn audit(&mut self) -> &mut Audit {
                &mut self.audit
            }
        }
    )*};
}

staged!(audio::Stored, transcript::Transcript, analysis::Analyzed, document::Document);

/// The SHA-256 in hexadecimal digits.
pub(crate) fn sha256_hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
