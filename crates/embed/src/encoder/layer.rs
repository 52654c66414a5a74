//! One of the layers that all do the same with other weights.

use super::Scratch;
use crate::arith::{Blocks, Kernel, Multiply, Norm, Panels, Then, Window};
use crate::config::Config;
use crate::error::LoadError;
use crate::weights::Weights;

/// Attention, and two products with the activation between them; each added to what came in.
pub(super) struct Layer {
    heads: usize,
    query_key_value: Linear,
    attended: Linear,
    attended_norm: Norm,
    widen: Linear,
    narrow: Linear,
    norm: Norm,
}

/// A product with fixed weights.
struct Linear {
    weight: Panels,
    bias: Vec<f32>,
}

impl Layer {
    pub(super) fn read(weights: &mut Weights, index: usize, config: &Config) -> Result<Layer, LoadError> {
        let Config { hidden, intermediate, heads, .. } = *config;
        let name = |part: &str| format!("encoder.layer.{index}.{part}");
        let parts = ["query", "key", "value"].map(|part| name(&format!("attention.self.{part}")));
        Ok(Layer {
            heads,
            query_key_value: Linear::read(weights, &parts, hidden, hidden)?,
            attended: Linear::read(weights, &[name("attention.output.dense")], hidden, hidden)?,
            attended_norm: norm(weights, &name("attention.output.LayerNorm"), config)?,
            widen: Linear::read(weights, &[name("intermediate.dense")], intermediate, hidden)?,
            narrow: Linear::read(weights, &[name("output.dense")], hidden, intermediate)?,
            norm: norm(weights, &name("output.LayerNorm"), config)?,
        })
    }

    /// Changes `scratch.x`, which has a row for each token of texts of these lengths.
    pub(super) fn apply(&self, kernel: Kernel, lengths: &[usize], scratch: &mut Scratch) {
        let Scratch { x, more, wide, blocks, attention } = scratch;
        self.query_key_value.apply(kernel, Then::Store, x, blocks, wide);
        attention.apply(kernel, self.heads, lengths, wide, more);
        self.attended.apply_in_place(kernel, blocks, more);
        self.attended_norm.add_and_normalize(kernel, x, more);
        self.widen.apply(kernel, Then::Gelu, x, blocks, wide);
        self.narrow.apply(kernel, Then::Store, wide, blocks, more);
        self.norm.add_and_normalize(kernel, x, more);
    }
}

impl Linear {
    /// Reads one weight of `to` × `from`, or several that share their input and become one.
    fn read(weights: &mut Weights, names: &[String], to: usize, from: usize) -> Result<Linear, LoadError> {
        let (mut rows, mut bias) = (Vec::new(), Vec::new());
        for name in names {
            rows.append(&mut weights.tensor(&format!("{name}.weight"), &[to, from])?);
            bias.append(&mut weights.tensor(&format!("{name}.bias"), &[to])?);
        }
        let mut weight = Panels::default();
        weight.fill_transposed(&rows, to * names.len(), Window::whole(from));
        Ok(Linear { weight, bias })
    }

    fn apply(&self, kernel: Kernel, then: Then, x: &[f32], blocks: &mut Blocks, out: &mut Vec<f32>) {
        let from = self.weight.inner();
        let rows = x.len() / from;
        blocks.fill(x, rows, Window::whole(from));
        self.multiply(kernel, then, blocks, rows, out);
    }

    /// For as many outputs as inputs.
    fn apply_in_place(&self, kernel: Kernel, blocks: &mut Blocks, x: &mut Vec<f32>) {
        let from = self.weight.inner();
        let rows = x.len() / from;
        blocks.fill(x, rows, Window::whole(from));
        self.multiply(kernel, Then::Store, blocks, rows, x);
    }

    fn multiply(&self, kernel: Kernel, then: Then, left: &Blocks, rows: usize, out: &mut Vec<f32>) {
        let to = self.bias.len();
        out.resize(rows * to, 0.0);
        Multiply { left, right: &self.weight, bias: &self.bias, then, out, window: Window::whole(to) }
            .on(kernel);
    }
}

pub(super) fn norm(weights: &mut Weights, name: &str, config: &Config) -> Result<Norm, LoadError> {
    Ok(Norm {
        weight: weights.tensor(&format!("{name}.weight"), &[config.hidden])?,
        bias: weights.tensor(&format!("{name}.bias"), &[config.hidden])?,
        epsilon: config.epsilon,
    })
}
