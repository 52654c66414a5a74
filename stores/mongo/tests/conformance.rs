//! The numbered promises of a store, on a real replica set.

#[path = "support/place.rs"]
mod place;

windlass_testkit::conformance!(place::Place);
