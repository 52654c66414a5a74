//! The matrix product, which is where nearly all of the time goes.
//!
//! The left side is cut into blocks of six rows and the right side into panels of sixteen columns, both
//! laid out in the order in which they are read. Six by sixteen sums are what fits into the registers of
//! AVX2; a panel of `DEPTH` rows stays in the first cache while all blocks pass by it. Weights never
//! change, so their panels are made once, when the model is loaded.

use super::gelu::gelu;
use super::kernel::{Arithmetic, Kernel, Work};

/// Rows of a block.
pub(crate) const ROWS: usize = 6;
/// Columns of a panel.
pub(crate) const COLUMNS: usize = 16;
/// How much of the inner dimension is done in one go.
const DEPTH: usize = 384;

/// Rows of a matrix, six side by side, the last block filled up with zeros.
#[derive(Default)]
pub(crate) struct Blocks {
    rows: usize,
    inner: usize,
    cells: Vec<[f32; ROWS]>,
}

/// Columns of a matrix, sixteen side by side, the last panel filled up with zeros.
#[derive(Default)]
pub(crate) struct Panels {
    inner: usize,
    columns: usize,
    cells: Vec<[f32; COLUMNS]>,
}

/// A rectangle of a matrix that is stored row by row: `width` columns from `offset` on, of rows that are
/// `stride` long.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    pub(crate) offset: usize,
    pub(crate) width: usize,
    pub(crate) stride: usize,
}

impl Window {
    /// A whole matrix.
    pub(crate) fn whole(width: usize) -> Window {
        Window { offset: 0, width, stride: width }
    }
}

impl Blocks {
    /// Fills this with the first `rows` rows of a window of `from`.
    pub(crate) fn fill(&mut self, from: &[f32], rows: usize, window: Window) {
        let Window { offset, width, stride } = window;
        self.rows = rows;
        self.inner = width;
        self.cells.resize(rows.div_ceil(ROWS) * width, [0.0; ROWS]);
        for (block, cells) in self.cells.chunks_exact_mut(width).enumerate() {
            for row in 0..ROWS {
                let at = block * ROWS + row;
                if at < rows {
                    let source = &from[at * stride + offset..][..width];
                    cells.iter_mut().zip(source).for_each(|(cell, value)| cell[row] = *value);
                } else {
                    cells.iter_mut().for_each(|cell| cell[row] = 0.0);
                }
            }
        }
    }
}

impl Panels {
    /// How long a row of the left side has to be.
    pub(crate) fn inner(&self) -> usize {
        self.inner
    }

    /// Panels of a matrix whose columns are the rows of `from`: weights as models store them, and keys.
    pub(crate) fn fill_transposed(&mut self, from: &[f32], rows: usize, window: Window) {
        let Window { offset, width, stride } = window;
        self.shape(width, rows);
        for (panel, cells) in self.cells.chunks_exact_mut(width).enumerate() {
            for column in 0..COLUMNS.min(rows - panel * COLUMNS) {
                let source = &from[(panel * COLUMNS + column) * stride + offset..][..width];
                cells.iter_mut().zip(source).for_each(|(cell, value)| cell[column] = *value);
            }
        }
    }

    /// Panels of a matrix as it is: values of the attention.
    pub(crate) fn fill(&mut self, from: &[f32], rows: usize, window: Window) {
        let Window { offset, width, stride } = window;
        self.shape(rows, width);
        for (panel, cells) in self.cells.chunks_exact_mut(rows).enumerate() {
            let first = panel * COLUMNS;
            let columns = COLUMNS.min(width - first);
            for (row, cell) in cells.iter_mut().enumerate() {
                cell[..columns].copy_from_slice(&from[row * stride + offset + first..][..columns]);
            }
        }
    }

    fn shape(&mut self, inner: usize, columns: usize) {
        self.inner = inner;
        self.columns = columns;
        self.cells.clear();
        self.cells.resize(columns.div_ceil(COLUMNS) * inner, [0.0; COLUMNS]);
    }
}

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
