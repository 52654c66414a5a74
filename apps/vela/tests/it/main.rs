//! Vela as its users meet it: the program, its REST side, and Etsy's stand-in
//! behind it. What cannot be seen from outside is tested beside its code.

mod cli;
mod crash;
mod defects;
mod downloads;
mod faults;
mod page;
mod quotas;
mod scene;
mod sql;
mod tasks;
mod tokens;
mod uploads;
