//! Sentence embeddings on the CPU, from a model on disk.

#![deny(missing_docs)]
