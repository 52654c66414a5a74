//! `windlass news-nexus` as its operator meets it: the built program in a
//! folder of its own, asked over HTTP, with stand-ins for Google and OpenAI.

mod ask;
mod house;
mod tables;

mod cancel;
mod check;
mod hostile;
mod init;
mod proxy;
mod queue;
mod replaced;
mod requirements;
mod restart;
mod routes;
mod rss;
mod scale;
mod scorer;
mod start;
mod states;
