//! Clients for other people's services, and the one guarded HTTP client that
//! they all use.
//!
//! Nothing here knows an app, a store or the engine, and nothing here retries:
//! a client makes one call within its deadline and says what became of it,
//! in types; when to ask again is the engine's business. Time comes in as an
//! argument, except for the deadline of a call, which is a timer.
//!
//! What comes from outside is hostile until it was read: feeds, web pages,
//! workbooks and answers all have limits on size, depth and number.

pub mod article;
pub mod etsy;
pub mod google_rss;
pub mod html;
pub mod models;
pub mod news;
pub mod objects;
pub mod openai;
pub mod retry_after;
pub mod safe_http;
pub mod twilio;
pub mod workbook;
pub mod workers_ai;
pub mod workers_kv;

/// Values that must never be printed.
pub use windlass_core::secret;

mod beginning;
mod charset;
mod cloudflare;
mod multipart;
mod pieces;
mod text;
mod time;
mod xml;
