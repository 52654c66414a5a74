//! Bitcoin News, first as its parts decide in a world whose time jumps, then as the program that people run.

mod bounds;
mod crashes;
mod defects;
mod dying;
mod house;
mod imports;
mod kv;
mod models;
mod outages;
mod program;
mod scale;
mod scene;
