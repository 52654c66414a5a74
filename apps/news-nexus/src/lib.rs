//! The job server of the News Nexus system.

#![deny(missing_docs)]
#![forbid(unsafe_code)]
