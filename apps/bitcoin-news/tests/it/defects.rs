//! The 24 defects of the design before this one, each as it would be seen. Those that are pure decisions are
//! tested where they are decided (`moves.rs`, `scan.rs`, `feed.rs`, `questions.rs`); these are the rest.
