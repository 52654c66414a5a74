//! What can go wrong, and what to do about it. Texts that are embedded are never part of a message.

use std::io;
use std::path::PathBuf;

/// The files of a model, by their own names.
pub(crate) const FILES: &str = "config.json, tokenizer.json and model.safetensors";

/// Why a model could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// A file of the model is not there.
    #[error(
        "the embedding model has no {file}: put {FILES} of a BERT-type sentence-embedding model \
         (such as sentence-transformers/paraphrase-MiniLM-L6-v2) into {}",
        folder.display()
    )]
    Missing {
        /// The file's own name.
        file: &'static str,
        /// Where it was looked for.
        folder: PathBuf,
    },
    /// A file is there and cannot be read.
    #[error("{} cannot be read ({source}): check its permissions and the disk", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file is damaged, or describes a model of another kind.
    #[error("{} is of no use here: {reason}; fetch {FILES} again, all of one and the same model", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

impl LoadError {
    /// A word for programs.
    pub fn code(&self) -> &'static str {
        match self {
            LoadError::Missing { .. } => "model_missing",
            LoadError::Unreadable { .. } => "model_unreadable",
            LoadError::Unusable { .. } => "model_unusable",
        }
    }

    /// Whether trying again, with nothing changed, might help.
    pub fn is_transient(&self) -> bool {
        matches!(self, LoadError::Unreadable { source, .. } if source.kind() != io::ErrorKind::PermissionDenied)
    }
}

/// Why texts were not embedded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EmbedError {
    /// The caller's check said to stop.
    #[error("embedding was stopped after {done} of {total} texts, as asked")]
    Stopped {
        /// How many were finished; none of them is returned.
        done: usize,
        /// How many were asked for.
        total: usize,
    },
    /// The model gave a number that is none.
    #[error(
        "the model has no vector for text {index} (counted from 0): its weights are damaged; fetch {FILES} again"
    )]
    NotFinite {
        /// Which of the texts.
        index: usize,
    },
}

impl EmbedError {
    /// A word for programs.
    pub fn code(&self) -> &'static str {
        match self {
            EmbedError::Stopped { .. } => "stopped",
            EmbedError::NotFinite { .. } => "not_finite",
        }
    }

    /// Whether trying again, with nothing changed, might help.
    pub fn is_transient(&self) -> bool {
        matches!(self, EmbedError::Stopped { .. })
    }
}
