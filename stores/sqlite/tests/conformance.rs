//! The promises of a store, on SQLite.

#[path = "support/audit.rs"]
mod audit;
#[path = "support/subject.rs"]
mod subject;

windlass_testkit::conformance!(subject::SqliteSubject);
