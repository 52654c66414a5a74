//! Attention: for each token of a text, a mixture of all tokens of that text.

use crate::arith::{Blocks, Kernel, Multiply, Panels, Then, Window, shares};

/// What one head of one text is computed in.
#[derive(Default)]
pub(super) struct Attention {
    left: Blocks,
    right: Panels,
    scores: Vec<f32>,
}

impl Attention {
    /// Takes rows of query, key and value, side by side, and gives a row of the mixture for each.
    pub(super) fn apply(
        &mut self,
        kernel: Kernel,
        heads: usize,
        lengths: &[usize],
        query_key_value: &[f32],
        out: &mut Vec<f32>,
    ) {
        let tokens: usize = lengths.iter().sum();
        let stride = query_key_value.len() / tokens;
        let hidden = stride / 3;
        out.resize(tokens * hidden, 0.0);
        let mut from = 0;
        for length in lengths {
            let rows = &query_key_value[from * stride..][..length * stride];
            let out = &mut out[from * hidden..][..length * hidden];
            for head in 0..heads {
                let width = hidden / heads;
                self.head(kernel, *length, rows, out, Window { offset: head * width, width, stride: hidden });
            }
            from += length;
        }
    }

    /// One head, into its window of `out`.
    fn head(&mut self, kernel: Kernel, length: usize, rows: &[f32], out: &mut [f32], window: Window) {
        let Window { offset, width, stride } = window;
        let part = |index| Window { offset: index * stride + offset, width, stride: 3 * stride };
        self.scores.resize(length * length, 0.0);
        self.left.fill(rows, length, part(0));
        self.right.fill_transposed(rows, length, part(1));
        self.multiply_into_scores(kernel, length);
        shares(kernel, &mut self.scores, length, 1.0 / (width as f32).sqrt());
        self.left.fill(&self.scores, length, Window::whole(length));
        self.right.fill(rows, length, part(2));
        Multiply { left: &self.left, right: &self.right, bias: &[], then: Then::Store, out, window }
            .on(kernel);
    }

    fn multiply_into_scores(&mut self, kernel: Kernel, length: usize) {
        let Attention { left, right, scores } = self;
        Multiply { left, right, bias: &[], then: Then::Store, out: scores, window: Window::whole(length) }
            .on(kernel);
    }
}
