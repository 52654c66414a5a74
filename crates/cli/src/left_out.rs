//! What was left out of this program when it was built, and how to get it.

/// Something that is asked for and is not in this program.
#[derive(Debug, thiserror::Error)]
#[error(
    "{what} is not in this program, which was built without the feature {feature:?}; get it with: {} \
     (the packages and the image have it)",
    build_with(feature)
)]
pub struct LeftOut {
    /// What is missed.
    pub what: String,
    /// The feature of this program that has it.
    pub feature: &'static str,
}

/// The command that builds this program with a feature more.
pub fn build_with(feature: &str) -> String {
    format!("cargo build --release --features {feature}")
}

/// The verbs of the product's own that this program was built without, each with the feature that has it.
pub const VERBS: &[(&str, &str)] = &[
    #[cfg(not(feature = "demo"))]
    ("demo", "demo"),
    #[cfg(not(feature = "serve"))]
    ("serve", "serve"),
    #[cfg(not(feature = "serve"))]
    ("init", "serve"),
    #[cfg(not(feature = "serve"))]
    ("config", "serve"),
];
