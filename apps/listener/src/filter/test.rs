//! What a value must be like.

use std::cmp::Ordering;

use mongodb::bson::Bson;
use mongodb::bson::spec::ElementType;
use regex::Regex;

use super::Filter;
use super::compare::{order, same};

/// One operator with its argument.
#[derive(Debug, Clone)]
pub(crate) enum Test {
    Eq(Bson),
    Ne(Bson),
    Gt(Bson),
    Gte(Bson),
    Lt(Bson),
    Lte(Bson),
    In(Vec<Choice>),
    Nin(Vec<Choice>),
    Exists(bool),
    Type(Vec<ElementType>),
    All(Vec<Test>),
    Size(usize),
    Mod {
        divisor: i64,
        remainder: i64,
    },
    Regex(Regex),
    /// An element of an array that is a document, and matches.
    ElementIs(Box<Filter>),
    /// An element of an array that passes all of these.
    ElementPasses(Vec<Test>),
    Not(Vec<Test>),
}

/// One of several values that are asked for.
#[derive(Debug, Clone)]
pub(crate) enum Choice {
    Value(Bson),
    Pattern(Regex),
}

impl Choice {
    fn is(&self, value: &Bson) -> bool {
        match self {
            Self::Value(wanted) => same(wanted, value),
            Self::Pattern(pattern) => value.as_str().is_some_and(|text| pattern.is_match(text)),
        }
    }
}

impl Test {
    /// Whether what a path led to passes.
    pub(crate) fn passes(&self, found: &[&Bson]) -> bool {
        match self {
            Self::Eq(wanted) => equals(found, wanted),
            Self::Ne(wanted) => !equals(found, wanted),
            Self::Gt(bound) => any(found, |value| order(value, bound).is_some_and(Ordering::is_gt)),
            Self::Gte(bound) => any(found, |value| order(value, bound).is_some_and(Ordering::is_ge)),
            Self::Lt(bound) => any(found, |value| order(value, bound).is_some_and(Ordering::is_lt)),
            Self::Lte(bound) => any(found, |value| order(value, bound).is_some_and(Ordering::is_le)),
            Self::In(choices) => one_of(found, choices),
            Self::Nin(choices) => !one_of(found, choices),
            Self::Exists(wanted) => found.is_empty() != *wanted,
            Self::Type(types) => any(found, |value| types.contains(&value.element_type())),
            Self::All(tests) => !tests.is_empty() && tests.iter().all(|test| test.passes(found)),
            Self::Size(size) => {
                found.iter().any(|value| value.as_array().is_some_and(|items| items.len() == *size))
            }
            Self::Mod { divisor, remainder } => {
                any(found, |value| number(value).is_some_and(|n| n % divisor == *remainder))
            }
            Self::Regex(pattern) => {
                any(found, |value| value.as_str().is_some_and(|text| pattern.is_match(text)))
            }
            Self::ElementIs(filter) => {
                elements(found, |item| item.as_document().is_some_and(|item| filter.matches(item)))
            }
            Self::ElementPasses(tests) => {
                elements(found, |item| tests.iter().all(|test| test.passes(&[item])))
            }
            Self::Not(tests) => !tests.iter().all(|test| test.passes(found)),
        }
    }
}

/// Whether a value, or an element of one that is an array, is so.
fn any(found: &[&Bson], is: impl Fn(&Bson) -> bool) -> bool {
    found.iter().any(|value| is(value) || value.as_array().is_some_and(|items| items.iter().any(&is)))
}

fn elements(found: &[&Bson], is: impl Fn(&Bson) -> bool) -> bool {
    found.iter().any(|value| value.as_array().is_some_and(|items| items.iter().any(&is)))
}

/// Null is also what is not there.
fn equals(found: &[&Bson], wanted: &Bson) -> bool {
    (found.is_empty() && matches!(wanted, Bson::Null)) || any(found, |value| same(value, wanted))
}

fn one_of(found: &[&Bson], choices: &[Choice]) -> bool {
    let null = || choices.iter().any(|choice| matches!(choice, Choice::Value(Bson::Null)));
    (found.is_empty() && null()) || any(found, |value| choices.iter().any(|choice| choice.is(value)))
}

fn number(value: &Bson) -> Option<i64> {
    match value {
        Bson::Int32(number) => Some(i64::from(*number)),
        Bson::Int64(number) => Some(*number),
        Bson::Double(number) => Some(*number as i64),
        _ => None,
    }
}
