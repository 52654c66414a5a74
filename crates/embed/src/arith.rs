//! Arithmetic on matrices of `f32`: what a BERT model needs, and no more.

mod gelu;
#[expect(unsafe_code, reason = "code for instructions that not every processor has")]
mod kernel;
mod matrix;
mod product;
mod rows;
#[cfg(test)]
mod tests;

pub(crate) use kernel::Kernel;
pub(crate) use matrix::{Blocks, Panels, Window};
pub(crate) use product::{Multiply, Then};
pub(crate) use rows::{Norm, shares};
