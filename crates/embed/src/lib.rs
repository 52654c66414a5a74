//! Sentence embeddings on the CPU, from a model on disk.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let model = windlass_embed::Model::load("models/all-MiniLM-L6-v2".as_ref())?;
//! let vectors = model.embed(&["a recall of toys", "toys are called back"])?;
//! let cosine: f32 = vectors[0].iter().zip(&vectors[1]).map(|(a, b)| a * b).sum();
//! # assert!(cosine > 0.5);
//! # Ok(())
//! # }
//! ```
//!
//! BERT models of the MiniLM kind: mean pooling, vectors of length one, `f32` throughout. The arithmetic is
//! our own (`docs/decisions/0008-own-arithmetic.md` says why). It downloads nothing, trains nothing, and
//! knows no other kind of model.

#![deny(missing_docs, unsafe_code)]

mod arith;
mod config;
mod encoder;
mod error;
mod file;
mod model;
mod pool;
mod tokens;
mod weights;

pub use error::{EmbedError, LoadError};
pub use model::Model;
