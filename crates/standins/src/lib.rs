//! Local servers that play other people's services, with their rules and
//! their faults, for tests and the demo.
//!
//! They are real HTTP servers on free loopback ports: what a client does with
//! its sockets, deadlines and redirects is really done. What they answer
//! follows from the request alone, so a run can be repeated. They keep a log
//! of what they were asked, and misbehave when they are told to.
//!
//! They know nothing of Windlass, and are no reference for a provider's whole
//! API: only for the calls that our clients make.

mod apitube;
mod ask;
mod etsy;
mod fault;
mod feed;
mod gcs;
mod google_rss;
mod multipart;
mod news;
mod newsdata;
mod openai;
mod proxy;
mod raw;
mod schema;
mod server;
mod sites;
mod twilio;
mod workers_ai;
mod workers_kv;
pub mod xlsx;

pub use apitube::{Apitube, ApitubeShape};
pub use ask::{Answer, Ask};
pub use etsy::{Etsy, EtsyCall, EtsyClock, EtsyShopkeeper, EtsyTokens, NewListing, TooMany};
pub use fault::{Fault, Faults};
pub use feed::{FeedItem, feed};
pub use gcs::Gcs;
pub use google_rss::GoogleRss;
pub use news::Story;
pub use newsdata::Newsdata;
pub use openai::{OpenAi, Reply};
pub use proxy::Proxy;
pub use raw::Raw;
pub use server::{Server, Service};
pub use sites::{Packing, Sites};
pub use twilio::Twilio;
pub use workers_ai::WorkersAi;
pub use workers_kv::{Kept, WorkersKv};
