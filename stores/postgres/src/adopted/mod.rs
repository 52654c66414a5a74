//! Adopted tables.
