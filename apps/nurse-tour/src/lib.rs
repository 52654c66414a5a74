//! The voice-message worker of Nurse Tour.

#![deny(missing_docs)]
#![forbid(unsafe_code)]
