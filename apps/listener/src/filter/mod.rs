//! Filters: MongoDB's query language, matched in process.
//!
//! One stream serves a hundred listeners, so that the server matches only names of collections; what a listener
//! wants of a document is decided here. Operators that are not here are refused by name when a listener is made.

mod compare;
mod parse;
mod test;

use mongodb::bson::Document;

pub(crate) use parse::Unfit;
pub(crate) use test::Test;

use crate::path;

/// What a document must be like.
#[derive(Debug, Clone)]
pub(crate) enum Filter {
    /// All of these.
    All(Vec<Filter>),
    /// At least one of these.
    Any(Vec<Filter>),
    /// None of these.
    Neither(Vec<Filter>),
    /// What a path leads to passes these tests.
    Field { path: String, tests: Vec<Test> },
}

impl Filter {
    /// Reads a query. What is not understood is said with its name.
    pub(crate) fn parse(query: &Document) -> Result<Self, Unfit> {
        parse::filter(query, 0)
    }

    pub(crate) fn matches(&self, document: &Document) -> bool {
        match self {
            Self::All(parts) => parts.iter().all(|part| part.matches(document)),
            Self::Any(parts) => parts.iter().any(|part| part.matches(document)),
            Self::Neither(parts) => !parts.iter().any(|part| part.matches(document)),
            Self::Field { path, tests } => {
                let found = path::values(document, path);
                tests.iter().all(|test| test.passes(&found))
            }
        }
    }

    /// Whether everything matches.
    pub(crate) fn is_empty(&self) -> bool {
        matches!(self, Self::All(parts) if parts.iter().all(Self::is_empty))
    }

    /// Calls `see` with every path and its tests.
    pub(crate) fn each_field(&self, see: &mut dyn FnMut(&str, &[Test])) {
        match self {
            Self::All(parts) | Self::Any(parts) | Self::Neither(parts) => {
                parts.iter().for_each(|part| part.each_field(see));
            }
            Self::Field { path, tests } => see(path, tests),
        }
    }

    /// All paths that it names.
    pub(crate) fn paths(&self) -> Vec<String> {
        let mut found = Vec::new();
        self.each_field(&mut |path, _| found.push(path.to_owned()));
        found
    }
}
