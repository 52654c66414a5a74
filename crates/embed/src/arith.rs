//! Arithmetic on matrices of `f32`: what a BERT model needs, and no more.

mod gelu;
mod kernel;
mod matrix;
mod rows;
#[cfg(test)]
mod tests;

pub(crate) use kernel::Kernel;
pub(crate) use matrix::{Blocks, Multiply, Panels, Then, Window};
pub(crate) use rows::{Norm, shares};
