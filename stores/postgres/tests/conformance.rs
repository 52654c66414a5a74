//! The numbered promises of a store, on a real Postgres.

mod place;

windlass_testkit::conformance!(place::Place);
