//! Statements, by noun and name: `sql/NOUN.sql` holds all about one noun, each below a line `-- name: …`.

/// The statement of this name in the file of this noun. One that is not there does not compile.
macro_rules! sql {
    ($noun:literal, $name:literal) => {
        const {
            windlass_core::named::named(
                include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/sql/", $noun, ".sql")),
                $name,
            )
        }
    };
}
