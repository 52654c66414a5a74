//! A model on disk, ready to embed texts.

use std::fmt;
use std::num::NonZero;
use std::ops::ControlFlow;
use std::path::Path;
use std::thread;

use crate::arith::Kernel;
use crate::config::Config;
use crate::encoder::Encoder;
use crate::error::{EmbedError, LoadError};
use crate::pool;
use crate::tokens::Tokenizer;
use crate::weights::Weights;

/// A sentence-embedding model of the BERT kind, in memory.
///
/// It never changes and may be used from many threads at once.
pub struct Model {
    tokenizer: Tokenizer,
    encoder: Encoder,
    dims: usize,
    tokens_max: usize,
    threads: NonZero<usize>,
}

impl Model {
    /// Reads `config.json`, `tokenizer.json` and `model.safetensors` from a folder.
    ///
    /// Files that sentence-transformers keeps beside them are heeded where they are there:
    /// `sentence_bert_config.json` for the longest text (256 tokens without it), and `1_Pooling/config.json`,
    /// which must not ask for another pooling than the mean.
    pub fn load(folder: &Path) -> Result<Model, LoadError> {
        Model::load_for(folder, Kernel::detect())
    }

    pub(crate) fn load_for(folder: &Path, kernel: Kernel) -> Result<Model, LoadError> {
        let config = Config::read(folder)?;
        let tokenizer = Tokenizer::read(folder, config.vocabulary)?;
        let encoder = Encoder::read(&mut Weights::open(folder)?, &config, kernel)?;
        let threads = thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN);
        Ok(Model { tokenizer, encoder, dims: config.hidden, tokens_max: config.tokens_max, threads })
    }

    /// Works on so many threads, instead of one for each core.
    ///
    /// The calling thread is one of them. To leave a share of every core to others, lower the priority of
    /// the process; to leave a whole core, ask for a thread less.
    #[must_use]
    pub fn with_threads(self, threads: NonZero<usize>) -> Model {
        Model { threads, ..self }
    }

    /// How many numbers a vector has.
    pub fn dims(&self) -> usize {
        self.dims
    }

    /// The longest text in tokens; what is longer is cut off there.
    pub fn tokens_max(&self) -> usize {
        self.tokens_max
    }

    /// A vector of length one for each text, in the same order: the mean over its tokens.
    ///
    /// Computes until it is done; inside of an async program, call it on a blocking thread.
    pub fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        self.embed_with(texts, |_| ControlFlow::Continue(()))
    }

    /// The same, and between batches `check` is asked, with the number of texts that are done, whether to go on.
    ///
    /// It is asked on the calling thread, first when the texts are cut into tokens and nothing is computed yet,
    /// then several times a second; after a break, threads finish the batch that they are at, and nothing is
    /// returned.
    pub fn embed_with(
        &self,
        texts: &[&str],
        check: impl FnMut(usize) -> ControlFlow<()>,
    ) -> Result<Vec<Vec<f32>>, EmbedError> {
        let tokens = pool::spread(self.threads, texts, |text| self.tokenizer.tokens(text, self.tokens_max));
        pool::encode(&self.encoder, self.threads, &tokens, check)
    }
}

/// Without the millions of numbers.
impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Model { tokenizer: _, encoder: _, dims, tokens_max, threads } = self;
        let mut debug = f.debug_struct("Model");
        debug
            .field("dims", dims)
            .field("tokens_max", tokens_max)
            .field("threads", threads)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::{Kernel, Model};

    /// On a processor that has less, the vectors are the same.
    #[test]
    fn every_kernel_gives_the_same_vectors() {
        let folder = windlass_testkit::model::folder();
        let texts = [
            "A recall of toys",
            "",
            "The quick brown fox jumps over the lazy dog, again and again and again.",
        ];
        let fastest = Model::load(&folder).unwrap().embed(&texts).unwrap();
        for kernel in Kernel::all() {
            let vectors = Model::load_for(&folder, kernel).unwrap().embed(&texts).unwrap();
            for (a, b) in vectors.iter().flatten().zip(fastest.iter().flatten()) {
                assert!((a - b).abs() < 2e-6, "{kernel:?}: {a} for {b}");
            }
        }
    }
}
