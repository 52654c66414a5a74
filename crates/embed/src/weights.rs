//! Reads tensors out of `model.safetensors`.
//!
//! The file says of itself how long its header is, and the header says where each tensor lies. None of it is
//! believed: a tensor is read only when its type and shape are those of the config and its place lies
//! inside the file, so no more memory is asked for than the file has bytes.

use std::collections::HashMap;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use serde::Deserialize;

use crate::error::LoadError;
use crate::file::{ModelFile, not_expected};

/// All MiniLM models have less than a tenth of this.
const MODEL_BYTES_MAX: u64 = 2 << 30;
const HEADER_BYTES_MAX: u64 = 8 << 20;
/// The length of the header, before it.
const LENGTH_BYTES: u64 = 8;
const FLOAT_BYTES: u64 = 4;
/// What some programs put before every name.
const PREFIX: &str = "bert.";

/// The open file and its table of contents.
#[derive(Debug)]
pub(crate) struct Weights {
    file: ModelFile,
    data_from: u64,
    entries: HashMap<String, Entry>,
}

/// A tensor, or the metadata, which has none of these.
#[derive(Debug, Deserialize)]
struct Entry {
    #[serde(default)]
    dtype: Option<String>,
    #[serde(default)]
    shape: Option<Vec<u64>>,
    #[serde(default)]
    data_offsets: Option<(u64, u64)>,
}

impl Weights {
    /// Opens the file and reads its header.
    pub(crate) fn open(folder: &Path) -> Result<Weights, LoadError> {
        let mut file = ModelFile::open(folder, "model.safetensors", MODEL_BYTES_MAX)?;
        if file.bytes < LENGTH_BYTES {
            return Err(file.unusable("it is too short for a safetensors file"));
        }
        let mut length = [0; LENGTH_BYTES as usize];
        read(&mut file, &mut length)?;
        let length = u64::from_le_bytes(length);
        if length > HEADER_BYTES_MAX || length > file.bytes - LENGTH_BYTES {
            return Err(file.unusable("its header is longer than it can be: the file is cut off or damaged"));
        }
        let mut header = vec![0; length as usize];
        read(&mut file, &mut header)?;
        let entries = serde_json::from_slice(&header)
            .map_err(|error| file.unusable(not_expected("its header", &error)))?;
        Ok(Weights { file, data_from: LENGTH_BYTES + length, entries })
    }

    /// The tensor of this name, which must have this shape.
    pub(crate) fn tensor(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>, LoadError> {
        let (from, floats) = self.place(name, shape).map_err(|reason| self.file.unusable(reason))?;
        let failed = |source, file: &ModelFile| LoadError::Unreadable { path: file.path.clone(), source };
        self.file.file.seek(SeekFrom::Start(from)).map_err(|error| failed(error, &self.file))?;
        let mut bytes = vec![0; floats * FLOAT_BYTES as usize];
        read(&mut self.file, &mut bytes)?;
        let (chunks, _) = bytes.as_chunks::<{ FLOAT_BYTES as usize }>();
        let numbers: Vec<f32> = chunks.iter().map(|chunk| f32::from_le_bytes(*chunk)).collect();
        if numbers.iter().any(|number| !number.is_finite()) {
            return Err(self.file.unusable(format!("{name} has numbers that are none: the file is damaged")));
        }
        Ok(numbers)
    }

    /// Where a tensor begins in the file, and how many numbers it has.
    fn place(&self, name: &str, shape: &[usize]) -> Result<(u64, usize), String> {
        let entry = self.entries.get(name).or_else(|| self.entries.get(&format!("{PREFIX}{name}")));
        let Some(Entry { dtype: Some(dtype), shape: Some(found), data_offsets: Some((from, to)) }) = entry
        else {
            return Err(format!("it has no tensor {name}"));
        };
        if dtype != "F32" {
            return Err(format!("{name} is not of type F32"));
        }
        if !found.iter().copied().eq(shape.iter().map(|size| *size as u64)) {
            return Err(format!("{name} is not of the shape {shape:?} that config.json asks for"));
        }
        // The limits of the config keep this product far below overflow; it is checked all the same.
        let bytes = shape.iter().try_fold(FLOAT_BYTES, |product, size| product.checked_mul(*size as u64));
        let data_bytes = self.file.bytes - self.data_from;
        if *to > data_bytes || from.checked_add(bytes.unwrap_or(u64::MAX)) != Some(*to) {
            return Err(format!("{name} does not lie inside the file: it is cut off or damaged"));
        }
        Ok((self.data_from + from, shape.iter().product()))
    }
}

fn read(file: &mut ModelFile, into: &mut [u8]) -> Result<(), LoadError> {
    file.file.read_exact(into).map_err(|source| LoadError::Unreadable { path: file.path.clone(), source })
}
