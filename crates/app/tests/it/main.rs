//! The kit as an app uses it: a real door, and the example as a program.

mod ask;
mod door;
mod example;
