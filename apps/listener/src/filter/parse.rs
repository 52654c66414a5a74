//! Reading a query, and refusing what can never match or is not understood.

use mongodb::bson::spec::ElementType;
use mongodb::bson::{Bson, Document};
use regex::{Regex, RegexBuilder};

use super::test::Choice;
use super::{Filter, Test};

/// How deep a filter may be.
const DEPTH_MAX: usize = 20;
/// How large the machine of a pattern may be: it is written by people, and runs for every event.
const PATTERN_BYTES_MAX: usize = 1 << 20;

/// Why a filter is refused; for people.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Unfit(pub(crate) String);

fn unfit<T>(text: impl Into<String>) -> Result<T, Unfit> {
    Err(Unfit(text.into()))
}

pub(super) fn filter(query: &Document, depth: usize) -> Result<Filter, Unfit> {
    if depth > DEPTH_MAX {
        return unfit(format!("the filter is more than {DEPTH_MAX} deep"));
    }
    let mut parts = Vec::new();
    for (name, value) in query {
        parts.push(match name.as_str() {
            "$and" => Filter::All(branches(name, value, depth)?),
            "$or" => Filter::Any(branches(name, value, depth)?),
            "$nor" => Filter::Neither(branches(name, value, depth)?),
            "$comment" => continue,
            operator if operator.starts_with('$') => {
                return unfit(format!(
                    "{operator} is not understood here; a filter may have $and, $or, $nor and paths with operators"
                ));
            }
            path => Filter::Field { path: path.to_owned(), tests: tests(path, value, depth)? },
        });
    }
    Ok(Filter::All(parts))
}

fn branches(name: &str, value: &Bson, depth: usize) -> Result<Vec<Filter>, Unfit> {
    let Some(items) = value.as_array().filter(|items| !items.is_empty()) else {
        return unfit(format!("{name} needs a list of filters that is not empty"));
    };
    let read = items.iter().map(|item| match item.as_document() {
        Some(item) => filter(item, depth + 1),
        None => unfit(format!("{name} needs a list of filters")),
    });
    read.collect()
}

/// `{a: 1}` is `{a: {$eq: 1}}`; a document whose first name begins with `$` is operators.
fn tests(path: &str, value: &Bson, depth: usize) -> Result<Vec<Test>, Unfit> {
    if path.is_empty() || path.split('.').any(str::is_empty) {
        return unfit(format!("{path:?} is no path: it has an empty part"));
    }
    match value {
        Bson::Document(inner) if inner.keys().next().is_some_and(|name| name.starts_with('$')) => {
            operators(path, inner, depth + 1)
        }
        Bson::RegularExpression(pattern) => {
            Ok(vec![Test::Regex(regex(path, pattern.pattern.as_str(), pattern.options.as_str())?)])
        }
        plain => Ok(vec![Test::Eq(plain.clone())]),
    }
}

fn operators(path: &str, inner: &Document, depth: usize) -> Result<Vec<Test>, Unfit> {
    if depth > DEPTH_MAX {
        return unfit(format!("the filter is more than {DEPTH_MAX} deep"));
    }
    let mut found = Vec::new();
    for (name, value) in inner {
        if name != "$options" {
            found.push(operator(path, name, value, inner, depth)?);
        }
    }
    bounds_fit(path, &found)?;
    Ok(found)
}

fn operator(path: &str, name: &str, value: &Bson, all: &Document, depth: usize) -> Result<Test, Unfit> {
    Ok(match name {
        "$eq" => Test::Eq(value.clone()),
        "$ne" => Test::Ne(value.clone()),
        "$gt" => Test::Gt(value.clone()),
        "$gte" => Test::Gte(value.clone()),
        "$lt" => Test::Lt(value.clone()),
        "$lte" => Test::Lte(value.clone()),
        "$in" => {
            let choices = choices(path, name, value)?;
            if choices.is_empty() {
                return unfit(format!("{path}: $in with an empty list never matches"));
            }
            Test::In(choices)
        }
        "$nin" => Test::Nin(choices(path, name, value)?),
        "$exists" => Test::Exists(truth(value)),
        "$type" => Test::Type(types(path, value)?),
        "$size" => match whole(value).and_then(|size| usize::try_from(size).ok()) {
            Some(size) => Test::Size(size),
            None => return unfit(format!("{path}: $size needs a whole number that is not below 0")),
        },
        "$mod" => modulo(path, value)?,
        "$all" => {
            let Some(items) = value.as_array().filter(|items| !items.is_empty()) else {
                return unfit(format!(
                    "{path}: $all needs a list that is not empty; an empty one never matches"
                ));
            };
            let tests: Result<Vec<_>, _> = items.iter().map(|item| tests(path, item, depth)).collect();
            Test::All(tests?.into_iter().flatten().collect())
        }
        "$elemMatch" => element(path, value, depth)?,
        "$not" => match value {
            Bson::Document(inner) if !inner.is_empty() => Test::Not(operators(path, inner, depth + 1)?),
            Bson::RegularExpression(_) => Test::Not(tests(path, value, depth)?),
            _ => return unfit(format!("{path}: $not needs operators or a pattern")),
        },
        "$regex" => {
            let options = all.get_str("$options").unwrap_or_default();
            match value {
                Bson::String(pattern) => Test::Regex(regex(path, pattern, options)?),
                Bson::RegularExpression(pattern) => {
                    let options = if options.is_empty() { pattern.options.as_str() } else { options };
                    Test::Regex(regex(path, pattern.pattern.as_str(), options)?)
                }
                _ => return unfit(format!("{path}: $regex needs a text")),
            }
        }
        other => {
            return unfit(format!(
                "{path}: {other} is not understood here. What is: $eq $ne $gt $gte $lt $lte $in $nin $exists $type \
                 $size $mod $all $elemMatch $not $regex"
            ));
        }
    })
}

fn element(path: &str, value: &Bson, depth: usize) -> Result<Test, Unfit> {
    let Some(inner) = value.as_document() else {
        return unfit(format!("{path}: $elemMatch needs a filter"));
    };
    let of_values = inner
        .keys()
        .next()
        .is_some_and(|name| name.starts_with('$') && !matches!(name.as_str(), "$and" | "$or" | "$nor"));
    if of_values {
        return Ok(Test::ElementPasses(operators(path, inner, depth + 1)?));
    }
    Ok(Test::ElementIs(Box::new(filter(inner, depth + 1)?)))
}

fn choices(path: &str, name: &str, value: &Bson) -> Result<Vec<Choice>, Unfit> {
    let Some(items) = value.as_array() else {
        return unfit(format!("{path}: {name} needs a list"));
    };
    let read = items.iter().map(|item| match item {
        Bson::RegularExpression(pattern) => {
            regex(path, pattern.pattern.as_str(), pattern.options.as_str()).map(Choice::Pattern)
        }
        item => Ok(Choice::Value(item.clone())),
    });
    read.collect()
}

fn regex(path: &str, pattern: &str, options: &str) -> Result<Regex, Unfit> {
    let mut builder = RegexBuilder::new(pattern);
    builder.size_limit(PATTERN_BYTES_MAX);
    for option in options.chars() {
        match option {
            'i' => builder.case_insensitive(true),
            'm' => builder.multi_line(true),
            's' => builder.dot_matches_new_line(true),
            'x' => builder.ignore_whitespace(true),
            'u' => &mut builder,
            other => return unfit(format!("{path}: the option {other:?} of a pattern is not understood")),
        };
    }
    builder.build().map_err(|why| {
        let why = why.to_string();
        let why = why.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
        Unfit(format!("{path}: the pattern cannot be used here: {why}"))
    })
}

fn modulo(path: &str, value: &Bson) -> Result<Test, Unfit> {
    match value.as_array().map(Vec::as_slice) {
        Some([divisor, remainder]) => match (whole(divisor), whole(remainder)) {
            (Some(divisor), Some(remainder)) if divisor != 0 => Ok(Test::Mod { divisor, remainder }),
            _ => unfit(format!("{path}: $mod needs two whole numbers, and the first must not be 0")),
        },
        _ => unfit(format!("{path}: $mod needs two numbers")),
    }
}

fn types(path: &str, value: &Bson) -> Result<Vec<ElementType>, Unfit> {
    let one = |value: &Bson| match value {
        Bson::String(name) => named(name).ok_or_else(|| Unfit(format!("{path}: {name:?} is no type"))),
        number => whole(number)
            .and_then(|code| if code == -1 { Some(0xFF) } else { u8::try_from(code).ok() })
            .and_then(ElementType::from)
            .map(|kind| vec![kind])
            .ok_or_else(|| Unfit(format!("{path}: $type needs names or numbers of types"))),
    };
    let found: Result<Vec<Vec<ElementType>>, Unfit> = match value {
        Bson::Array(items) => items.iter().map(one).collect(),
        value => one(value).map(|found| vec![found]),
    };
    Ok(found?.concat())
}

fn named(name: &str) -> Option<Vec<ElementType>> {
    let one = match name {
        "number" => {
            return Some(vec![
                ElementType::Double,
                ElementType::Int32,
                ElementType::Int64,
                ElementType::Decimal128,
            ]);
        }
        "double" => ElementType::Double,
        "string" => ElementType::String,
        "object" => ElementType::EmbeddedDocument,
        "array" => ElementType::Array,
        "binData" => ElementType::Binary,
        "undefined" => ElementType::Undefined,
        "objectId" => ElementType::ObjectId,
        "bool" => ElementType::Boolean,
        "date" => ElementType::DateTime,
        "null" => ElementType::Null,
        "regex" => ElementType::RegularExpression,
        "int" => ElementType::Int32,
        "timestamp" => ElementType::Timestamp,
        "long" => ElementType::Int64,
        "decimal" => ElementType::Decimal128,
        _ => return None,
    };
    Some(vec![one])
}

fn truth(value: &Bson) -> bool {
    !matches!(value, Bson::Boolean(false) | Bson::Null | Bson::Int32(0) | Bson::Int64(0))
}

fn whole(value: &Bson) -> Option<i64> {
    match value {
        Bson::Int32(number) => Some(i64::from(*number)),
        Bson::Int64(number) => Some(*number),
        Bson::Double(number) if number.fract() == 0.0 => Some(*number as i64),
        _ => None,
    }
}

/// `{$gt: 5, $lt: 3}` never matches a single value. (Elements of an array may pass one each, which nobody means.)
fn bounds_fit(path: &str, tests: &[Test]) -> Result<(), Unfit> {
    for low in tests {
        let (Test::Gt(floor) | Test::Gte(floor)) = low else { continue };
        for high in tests {
            let (Test::Lt(ceiling) | Test::Lte(ceiling)) = high else { continue };
            if super::compare::order(floor, ceiling).is_none_or(std::cmp::Ordering::is_gt) {
                return unfit(format!("{path}: nothing is above {floor} and below {ceiling} at once"));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use mongodb::bson::doc;

    use super::*;

    fn check(query: Document, document: Document, expected: bool) {
        let filter = Filter::parse(&query).unwrap_or_else(|why| panic!("{query}: {why}"));
        assert_eq!(filter.matches(&document), expected, "{query} on {document}");
    }

    #[test]
    fn operators_match_as_the_server_does() {
        check(doc! {}, doc! { "a": 1 }, true);
        check(doc! { "a": 1 }, doc! { "a": 1_i64 }, true);
        check(doc! { "a": 1.0 }, doc! { "a": 1 }, true);
        check(doc! { "a": "1" }, doc! { "a": 1 }, false);
        check(doc! { "a": { "$gt": 1, "$lte": 3 } }, doc! { "a": 3 }, true);
        check(doc! { "a": { "$gt": 1 } }, doc! { "a": "x" }, false);
        check(doc! { "a": { "$ne": 1 } }, doc! {}, true);
        check(doc! { "a": { "$ne": 1 } }, doc! { "a": [1, 2] }, false);
        check(doc! { "a": { "$in": [1, 2] } }, doc! { "a": [5, 2] }, true);
        check(doc! { "a": { "$nin": [1, 2] } }, doc! { "a": 3 }, true);
        check(doc! { "a": { "$in": [Bson::Null] } }, doc! {}, true);
        check(doc! { "a": Bson::Null }, doc! {}, true);
        check(doc! { "a.b": { "$exists": true } }, doc! { "a": { "b": Bson::Null } }, true);
        check(doc! { "a.b": { "$exists": false } }, doc! { "a": {} }, true);
        check(doc! { "$or": [ { "a": 1 }, { "b": 2 } ] }, doc! { "b": 2 }, true);
        check(doc! { "$nor": [ { "a": 1 }, { "b": 2 } ] }, doc! { "b": 2 }, false);
        check(doc! { "$and": [ { "a": 1 }, { "b": 2 } ] }, doc! { "a": 1, "b": 2 }, true);
        check(doc! { "a": { "$not": { "$gt": 5 } } }, doc! { "a": 3 }, true);
        check(doc! { "a": { "$all": [1, 2] } }, doc! { "a": [2, 1, 0] }, true);
        check(doc! { "a": { "$size": 2 } }, doc! { "a": [2, 1] }, true);
        check(
            doc! { "a": { "$elemMatch": { "x": 1, "y": 2 } } },
            doc! { "a": [ { "x": 1 }, { "y": 2 } ] },
            false,
        );
        check(doc! { "a": { "$elemMatch": { "$gt": 3, "$lt": 5 } } }, doc! { "a": [1, 4] }, true);
        check(doc! { "a": { "$regex": "^x", "$options": "i" } }, doc! { "a": "Xy" }, true);
        check(doc! { "a": { "$type": "string" } }, doc! { "a": "Xy" }, true);
        check(doc! { "a": { "$type": ["number", "null"] } }, doc! { "a": 1 }, true);
        check(doc! { "a": { "$type": 10 } }, doc! {}, false);
        check(doc! { "a": { "$mod": [4, 1] } }, doc! { "a": 5 }, true);
        check(doc! { "a": { "b": 1 } }, doc! { "a": { "b": 1.0 } }, true);
        check(doc! { "a": { "b": 1 } }, doc! { "a": { "b": 1, "c": 2 } }, false);
        check(doc! { "a": [1, 2] }, doc! { "a": [1, 2] }, true);
        check(doc! { "items.sku": "x" }, doc! { "items": [ { "sku": "y" }, { "sku": "x" } ] }, true);
    }

    #[test]
    fn what_is_not_understood_is_refused_by_name() {
        for (query, word) in [
            (doc! { "$where": "true" }, "$where"),
            (doc! { "$expr": {} }, "$expr"),
            (doc! { "a": { "$near": 1 } }, "$near"),
            (doc! { "a": { "$in": [] } }, "never matches"),
            (doc! { "a": { "$gt": 5, "$lt": 3 } }, "above 5 and below 3"),
            (doc! { "$or": [] }, "$or needs"),
            (doc! { "a": { "$regex": "(?=x)" } }, "pattern cannot be used"),
            (doc! { "a..b": 1 }, "empty part"),
            (doc! { "a": { "$size": -1 } }, "$size"),
            (doc! { "a": { "$type": "text" } }, "no type"),
        ] {
            let why = Filter::parse(&query).unwrap_err().to_string();
            assert!(why.contains(word), "{query}: {why}");
        }
    }
}
