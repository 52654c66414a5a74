//! When two values are the same, and which comes first: as the server has it, within one type and over all numbers.

use std::cmp::Ordering;

use mongodb::bson::Bson;

/// The order of two values; none where they are of different types, which the server does not compare either.
pub(crate) fn order(one: &Bson, other: &Bson) -> Option<Ordering> {
    match (one, other) {
        (Bson::String(one), Bson::String(other)) => Some(one.cmp(other)),
        (Bson::Boolean(one), Bson::Boolean(other)) => Some(one.cmp(other)),
        (Bson::DateTime(one), Bson::DateTime(other)) => Some(one.cmp(other)),
        (Bson::ObjectId(one), Bson::ObjectId(other)) => Some(one.bytes().cmp(&other.bytes())),
        (Bson::Timestamp(one), Bson::Timestamp(other)) => {
            Some((one.time, one.increment).cmp(&(other.time, other.increment)))
        }
        (Bson::Null | Bson::Undefined, Bson::Null | Bson::Undefined) => Some(Ordering::Equal),
        (Bson::Binary(one), Bson::Binary(other)) => Some(one.bytes.cmp(&other.bytes)),
        _ => numbers(one, other),
    }
}

/// Whether two values are the same; 1, 1.0 and NumberLong(1) are.
pub(crate) fn same(one: &Bson, other: &Bson) -> bool {
    match (one, other) {
        (Bson::Document(one), Bson::Document(other)) => {
            one.len() == other.len()
                && one.iter().zip(other.iter()).all(|((a, x), (b, y))| a == b && same(x, y))
        }
        (Bson::Array(one), Bson::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(x, y)| same(x, y))
        }
        _ => order(one, other).map_or_else(|| one == other, Ordering::is_eq),
    }
}

fn numbers(one: &Bson, other: &Bson) -> Option<Ordering> {
    match (whole(one), whole(other)) {
        (Some(one), Some(other)) => Some(one.cmp(&other)),
        _ => real(one)?.partial_cmp(&real(other)?),
    }
}

fn whole(value: &Bson) -> Option<i64> {
    match value {
        Bson::Int32(number) => Some(i64::from(*number)),
        Bson::Int64(number) => Some(*number),
        _ => None,
    }
}

/// As a float; a decimal by its digits, which is as near as a filter needs.
fn real(value: &Bson) -> Option<f64> {
    match value {
        Bson::Int32(number) => Some(f64::from(*number)),
        Bson::Int64(number) => Some(*number as f64),
        Bson::Double(number) => Some(*number),
        Bson::Decimal128(number) => number.to_string().parse().ok(),
        _ => None,
    }
}
