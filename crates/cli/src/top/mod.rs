//! The live screen of `windlass top`: what is asked of the store each second,
//! what is kept of it, how it is drawn, and what the keys do. Without the
//! feature `top` there is one look, for programs, and no screen.

mod ask;
#[cfg(feature = "top")]
mod draw;
#[cfg(feature = "top")]
mod keys;
#[cfg(feature = "top")]
mod live;
mod model;
#[cfg(feature = "top")]
mod screen;

pub use ask::look;
#[cfg(feature = "top")]
pub use {
    draw::draw,
    keys::{Wish, wish},
    live::show,
    screen::Screen,
};
