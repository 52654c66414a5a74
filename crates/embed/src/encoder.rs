//! The model itself: from tokens to a vector for each text.
//!
//! The tokens of all texts of a batch stand one below the other in one matrix, so nothing is padded and the
//! products are tall. Only the attention looks at each text by itself.

mod attention;
mod layer;

use crate::arith::{Blocks, Kernel, Norm};
use crate::config::Config;
use crate::error::LoadError;
use crate::weights::Weights;
use attention::Attention;
use layer::Layer;

/// The weights, laid out for the products.
pub(crate) struct Encoder {
    kernel: Kernel,
    hidden: usize,
    words: Vec<f32>,
    /// Where a token stands, with the type that all of them have.
    positions: Vec<f32>,
    norm: Norm,
    layers: Vec<Layer>,
}

/// What a batch is computed in; kept from batch to batch, one for each thread.
#[derive(Default)]
pub(crate) struct Scratch {
    x: Vec<f32>,
    more: Vec<f32>,
    wide: Vec<f32>,
    blocks: Blocks,
    attention: Attention,
}

impl Encoder {
    /// Reads all weights that `config` speaks of.
    pub(crate) fn read(weights: &mut Weights, config: &Config, kernel: Kernel) -> Result<Encoder, LoadError> {
        let Config { hidden, .. } = *config;
        let table =
            |name: &str, rows: usize| (format!("embeddings.{name}_embeddings.weight"), [rows, hidden]);
        let mut read = |(name, shape): (String, [usize; 2])| weights.tensor(&name, &shape);
        let words = read(table("word", config.vocabulary))?;
        let mut positions = read(table("position", config.positions))?;
        let types = read(table("token_type", config.types))?;
        positions.truncate(config.tokens_max * hidden);
        for row in positions.chunks_exact_mut(hidden) {
            row.iter_mut().zip(&types).for_each(|(position, kind)| *position += kind);
        }
        let norm = layer::norm(weights, "embeddings.LayerNorm", config)?;
        let layers = (0..config.layers).map(|index| Layer::read(weights, index, config));
        let layers = layers.collect::<Result<_, _>>()?;
        Ok(Encoder { kernel, hidden, words, positions, norm, layers })
    }

    /// One vector of length one for each text, or none where a number is none.
    pub(crate) fn encode(&self, texts: &[&[u32]], scratch: &mut Scratch) -> Vec<Option<Vec<f32>>> {
        self.look_up(texts, scratch);
        let lengths: Vec<usize> = texts.iter().map(|tokens| tokens.len()).collect();
        for layer in &self.layers {
            layer.apply(self.kernel, &lengths, scratch);
        }
        let mut from = 0;
        let pool = |length| {
            let rows = &scratch.x[from * self.hidden..][..length * self.hidden];
            from += length;
            mean_of_length_one(rows, self.hidden)
        };
        lengths.into_iter().map(pool).collect()
    }

    fn look_up(&self, texts: &[&[u32]], scratch: &mut Scratch) {
        scratch.x.clear();
        scratch.more.clear();
        for tokens in texts {
            for token in *tokens {
                scratch.x.extend_from_slice(&self.words[*token as usize * self.hidden..][..self.hidden]);
            }
            scratch.more.extend_from_slice(&self.positions[..tokens.len() * self.hidden]);
        }
        self.norm.add_and_normalize(self.kernel, &mut scratch.x, &scratch.more);
    }
}

fn mean_of_length_one(rows: &[f32], width: usize) -> Option<Vec<f32>> {
    let mut sum = vec![0.0f32; width];
    for row in rows.chunks_exact(width) {
        sum.iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
    }
    let length = sum.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
    // The mean and the sum point the same way. What has no direction stays without.
    let factor = if length > 0.0 { 1.0 / length } else { 0.0 };
    sum.iter_mut().for_each(|x| *x = (f64::from(*x) * factor) as f32);
    sum.iter().all(|x| x.is_finite()).then_some(sum)
}
