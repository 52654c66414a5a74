//! Matrices, laid out in the order in which a product reads them.

/// Rows of a block.
pub(super) const ROWS: usize = 6;
/// Columns of a panel.
pub(super) const COLUMNS: usize = 16;

/// Rows of a matrix, six side by side, the last block filled up with zeros.
#[derive(Default)]
pub(crate) struct Blocks {
    pub(super) rows: usize,
    pub(super) inner: usize,
    pub(super) cells: Vec<[f32; ROWS]>,
}

/// Columns of a matrix, sixteen side by side, the last panel filled up with zeros.
#[derive(Default)]
pub(crate) struct Panels {
    pub(super) inner: usize,
    pub(super) columns: usize,
    pub(super) cells: Vec<[f32; COLUMNS]>,
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
