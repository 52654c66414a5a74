//! The live screen of `windlass top`: what is asked of the store each second,
//! what is kept of it, how it is drawn, and what the keys do.

mod ask;
mod draw;
mod keys;
mod model;

pub use ask::look;
pub use draw::draw;
pub use keys::{Wish, wish};
pub use model::Screen;
