//! What is done row by row: normalising, and turning scores into shares.

use super::gelu::exp;
use super::kernel::{Arithmetic, Kernel, Work};

/// Sums run in so many lanes: the compiler may not reorder additions, so we do.
const LANES: usize = 16;

/// The learned scale and shift of a normalisation.
pub(crate) struct Norm {
    pub(crate) weight: Vec<f32>,
    pub(crate) bias: Vec<f32>,
    pub(crate) epsilon: f32,
}

/// Each row of `x`, plus its row of `more`, normalised.
struct Normalize<'a> {
    norm: &'a Norm,
    x: &'a mut [f32],
    more: &'a [f32],
}

/// Each row of `scores`, times `scale`, as shares of one.
struct Shares<'a> {
    scores: &'a mut [f32],
    width: usize,
    scale: f32,
}

impl Norm {
    /// `x = normalised(x + more)`, row by row.
    pub(crate) fn add_and_normalize(&self, kernel: Kernel, x: &mut [f32], more: &[f32]) {
        assert_eq!(x.len(), more.len(), "as many rows to add as there are");
        kernel.run(Normalize { norm: self, x, more });
    }
}

/// The softmax of each row of `scores`.
pub(crate) fn shares(kernel: Kernel, scores: &mut [f32], width: usize, scale: f32) {
    kernel.run(Shares { scores, width, scale });
}

impl Work for Normalize<'_> {
    #[inline(always)]
    fn run<A: Arithmetic>(self) {
        let Norm { weight, bias, epsilon } = self.norm;
        let width = weight.len();
        for (x, more) in self.x.chunks_exact_mut(width).zip(self.more.chunks_exact(width)) {
            x.iter_mut().zip(more).for_each(|(x, more)| *x += more);
            let mean = sum(x, |x| x) / width as f32;
            x.iter_mut().for_each(|x| *x -= mean);
            let variance = sum(x, |x| x * x) / width as f32;
            let factor = 1.0 / (variance + epsilon).sqrt();
            for ((x, weight), bias) in x.iter_mut().zip(weight).zip(bias) {
                *x = A::mul_add(*x * factor, *weight, *bias);
            }
        }
    }
}

impl Work for Shares<'_> {
    #[inline(always)]
    fn run<A: Arithmetic>(self) {
        for row in self.scores.chunks_exact_mut(self.width) {
            let highest = row
                .iter()
                .fold(f32::NEG_INFINITY, |highest, score| if *score > highest { *score } else { highest });
            row.iter_mut().for_each(|score| *score = exp::<A>((*score - highest) * self.scale));
            let factor = 1.0 / sum(row, |share| share);
            row.iter_mut().for_each(|share| *share *= factor);
        }
    }
}

#[inline(always)]
fn sum(of: &[f32], what: impl Fn(f32) -> f32) -> f32 {
    let (chunks, rest) = of.as_chunks::<LANES>();
    let mut lanes = [0.0f32; LANES];
    for chunk in chunks {
        for lane in 0..LANES {
            lanes[lane] += what(chunk[lane]);
        }
    }
    for (lane, x) in lanes.iter_mut().zip(rest) {
        *lane += what(*x);
    }
    lanes.iter().sum()
}
