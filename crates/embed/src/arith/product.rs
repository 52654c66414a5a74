//! The matrix product, which is where nearly all of the time goes.
//!
//! The left side is cut into blocks of six rows and the right side into panels of sixteen columns. Six by
//! sixteen sums are what fits into the registers of AVX2; a panel of `DEPTH` rows stays in the first cache
//! while all blocks pass by it. Weights never change, so their panels are made once, when the model is loaded.

use super::gelu::gelu;
use super::kernel::{Arithmetic, Kernel, Work};
use super::matrix::{Blocks, COLUMNS, Panels, ROWS, Window};

/// How much of the inner dimension is done in one go.
const DEPTH: usize = 384;

/// What is done with a finished sum before it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Then {
    /// Nothing.
    Store,
    /// The activation function.
    Gelu,
}

/// `out = then(left × right + bias)`, stored into a window of `out`.
pub(crate) struct Multiply<'a> {
    pub(crate) left: &'a Blocks,
    pub(crate) right: &'a Panels,
    /// As long as `right` has columns, or empty.
    pub(crate) bias: &'a [f32],
    pub(crate) then: Then,
    pub(crate) out: &'a mut [f32],
    pub(crate) window: Window,
}

impl Multiply<'_> {
    /// Does it.
    pub(crate) fn on(self, kernel: Kernel) {
        assert_eq!(self.left.inner, self.right.inner, "the inner dimensions agree");
        assert_eq!(self.window.width, self.right.columns, "the window is as wide as the product");
        kernel.run(self);
    }
}

impl Work for Multiply<'_> {
    #[inline(always)]
    fn run<A: Arithmetic>(mut self) {
        let inner = self.left.inner;
        if inner == 0 {
            return;
        }
        for from in (0..inner).step_by(DEPTH) {
            let depth = from..inner.min(from + DEPTH);
            for (panel, right) in self.right.cells.chunks_exact(inner).enumerate() {
                for (block, left) in self.left.cells.chunks_exact(inner).enumerate() {
                    let sums = tile::<A>(&left[depth.clone()], &right[depth.clone()]);
                    self.store::<A>(block, panel, sums, depth.start == 0, depth.end == inner);
                }
            }
        }
    }
}

impl Multiply<'_> {
    #[inline(always)]
    fn store<A: Arithmetic>(
        &mut self,
        block: usize,
        panel: usize,
        mut sums: [[f32; COLUMNS]; ROWS],
        first: bool,
        last: bool,
    ) {
        let column = panel * COLUMNS;
        let columns = COLUMNS.min(self.right.columns - column);
        let mut bias = [0.0; COLUMNS];
        if first && !self.bias.is_empty() {
            bias[..columns].copy_from_slice(&self.bias[column..][..columns]);
        }
        let rows = ROWS.min(self.left.rows - block * ROWS);
        for (row, sums) in sums.iter_mut().take(rows).enumerate() {
            let at = (block * ROWS + row) * self.window.stride + self.window.offset + column;
            let out = &mut self.out[at..][..columns];
            if first {
                add(sums, &bias);
            } else {
                sums.iter_mut().zip(out.iter()).for_each(|(sum, old)| *sum += old);
            }
            if last && self.then == Then::Gelu {
                sums.iter_mut().for_each(|sum| *sum = gelu::<A>(*sum));
            }
            match <&mut [f32; COLUMNS]>::try_from(&mut *out) {
                Ok(whole) => *whole = *sums,
                Err(_) => out.copy_from_slice(&sums[..columns]),
            }
        }
    }
}

#[inline(always)]
fn add(sums: &mut [f32; COLUMNS], more: &[f32; COLUMNS]) {
    for column in 0..COLUMNS {
        sums[column] += more[column];
    }
}

/// Six rows times sixteen columns; the sums stay in registers.
#[inline(always)]
fn tile<A: Arithmetic>(left: &[[f32; ROWS]], right: &[[f32; COLUMNS]]) -> [[f32; COLUMNS]; ROWS] {
    let mut sums = [[0.0f32; COLUMNS]; ROWS];
    for (left, right) in left.iter().zip(right) {
        for row in 0..ROWS {
            for column in 0..COLUMNS {
                sums[row][column] = A::mul_add(left[row], right[column], sums[row][column]);
            }
        }
    }
    sums
}
