//! The promises of a store, on SQLite.

mod support;

windlass_testkit::conformance!(support::SqliteSubject);
