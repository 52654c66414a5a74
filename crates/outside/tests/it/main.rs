//! Every client against its stand-in, and every fault that a stand-in knows.

mod article;
mod canaries;
mod common;
mod etsy;
mod google_rss;
mod guard;
mod http;
mod models;
mod news;
mod objects;
mod openai;
mod tls;
mod twilio;
mod workbook;
mod workers_kv;
