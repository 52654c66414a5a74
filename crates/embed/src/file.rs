//! The files of a model: opened with a limit, and judged with their names.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use crate::error::LoadError;

/// A file that was opened, is a plain file, and is not larger than it may be.
#[derive(Debug)]
pub(crate) struct ModelFile {
    pub(crate) path: PathBuf,
    pub(crate) file: File,
    pub(crate) bytes: u64,
}

impl ModelFile {
    /// Opens `name` in `folder`.
    pub(crate) fn open(folder: &Path, name: &'static str, bytes_max: u64) -> Result<ModelFile, LoadError> {
        let path = folder.join(name);
        // Asked before opening: to open a pipe is to wait for whoever writes into it.
        let about = match path.metadata() {
            Ok(about) => about,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Err(LoadError::Missing { file: name, folder: folder.to_owned() });
            }
            Err(source) => return Err(LoadError::Unreadable { path, source }),
        };
        if !about.is_file() {
            return Err(LoadError::Unusable { path, reason: "it is not a file".to_owned() });
        }
        let file =
            File::open(&path).map_err(|source| LoadError::Unreadable { path: path.clone(), source })?;
        let bytes = about.len();
        let opened = ModelFile { path, file, bytes };
        if bytes > bytes_max {
            return Err(
                opened.unusable(format!("it has {bytes} bytes, and {bytes_max} is the most that is read"))
            );
        }
        Ok(opened)
    }

    /// Opens `name` in `folder`, if it is there.
    pub(crate) fn open_optional(
        folder: &Path,
        name: &'static str,
        bytes_max: u64,
    ) -> Result<Option<ModelFile>, LoadError> {
        match ModelFile::open(folder, name, bytes_max) {
            Ok(file) => Ok(Some(file)),
            Err(LoadError::Missing { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// All of it, as JSON.
    pub(crate) fn json<T: DeserializeOwned>(mut self) -> Result<(T, PathBuf), LoadError> {
        let mut text = Vec::new();
        // The file may have grown since it was measured.
        let read = Read::by_ref(&mut self.file).take(self.bytes).read_to_end(&mut text);
        read.map_err(|source| LoadError::Unreadable { path: self.path.clone(), source })?;
        match serde_json::from_slice(&text) {
            Ok(value) => Ok((value, self.path)),
            Err(error) => Err(self.unusable(not_expected("its JSON", &error))),
        }
    }

    /// This file is damaged or of another kind.
    pub(crate) fn unusable(&self, reason: impl Into<String>) -> LoadError {
        LoadError::Unusable { path: self.path.clone(), reason: reason.into() }
    }
}

/// Where JSON went wrong. What stands there is not repeated: it may be long, and anything.
pub(crate) fn not_expected(what: &str, error: &serde_json::Error) -> String {
    format!("{what} is not what is expected (line {}, column {})", error.line(), error.column())
}
