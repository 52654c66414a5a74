//! Clients for other people's services, and the one guarded HTTP client that
//! they all use.
//!
//! Nothing here knows an app, a store or the engine, and nothing here retries:
//! a client makes one call within its deadline and says what became of it,
//! in types; when to ask again is the engine's business. Time comes in as an
//! argument, except for the deadline of a call, which is a timer.

pub mod retry_after;
pub mod safe_http;
pub mod secret;
