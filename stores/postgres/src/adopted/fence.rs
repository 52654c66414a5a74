//! The fence of a row: what tells one claim of it from another, and how the row itself says whose it is.
//!
//! A fence is the moment of its claim by the database's clock, in milliseconds since 2020 and in steps of 2^13, and no lower than the
//! one before it. So it rises for its row, stays below 2^53, and what a lost commit had handed out (a promotion, a restore,
//! a copy) is not handed out again: an adopted table has no room for an epoch. What is below a step tells owners apart,
//! so that a row says by itself whether it is still held by whoever has that fence, also where somebody else takes rows and
//! leaves the fence as it was. Where the table has no column for it, nothing remembers the one before once a row is given back: of
//! two claims of a row within one millisecond the second may then have the lower fence, and another one all the same.

use uuid::Uuid;

use super::mapping::Mapping;
use super::statements::{number, of, quote};

/// How many fences there are in a millisecond. With so many they stay below 2^53 until 2054.
const STEP: i64 = 1 << 13;
/// 2020-01-01T00:00:00Z in milliseconds.
const START_MS: i64 = 1_577_836_800_000;
/// How many digits of a request are in an owner that names it.
const REQUEST_DIGITS: usize = 16;
/// How many digits of a fence.
const FENCE_DIGITS: usize = 14;
/// How many digits an owner ends with where the table has no column for the fence.
const OWNER_DIGITS: usize = FENCE_DIGITS + REQUEST_DIGITS;

/// What stands for what in the templates.
pub(super) fn names(mapping: &Mapping) -> Vec<(&'static str, String)> {
    let request = mapping.request.as_deref();
    let set_request = request.map_or(String::new(), |column| format!(", {} = $6::text", quote(column)));
    let mut names = match &mapping.fence {
        Some(column) => in_a_column(column, &mapping.owner, request),
        None => in_the_owner(&mapping.owner),
    };
    names.push(("{set_request}", set_request));
    names
}

/// A table with a column for the fence: its owner is the worker, as others may want to read it.
fn in_a_column(column: &str, owner: &str, request: Option<&str>) -> Vec<(&'static str, String)> {
    let (fence, of_owner) = (of(column), format!("{}::text", of(owner)));
    let request_is = match request {
        Some(column) => format!("{of_owner} = $2 AND {} = $3", of(column)),
        // Nothing says which rows a request was given.
        None => "false".to_owned(),
    };
    let rise = next(&number(&Some(column.to_owned())), "$4::text");
    vec![
        ("{new_owner}", "$4::text".to_owned()),
        ("{set_fence}", format!(", {} = {rise}", quote(column))),
        ("{pass_fence}", format!(", {} = {} + 1", quote(column), number(&Some(column.to_owned())))),
        ("{owner_after}", "NULL".to_owned()),
        ("{fence}", number(&Some(column.to_owned()))),
        // A row that is over belongs to nobody.
        ("{same_lease}", format!("{fence} = a.fence")),
        ("{is_held}", format!("{fence} = a.fence AND a.fence % {STEP} = {}", tag(&of_owner))),
        ("{fence_is_one_of}", format!("{fence} = ANY ($1::bigint[])")),
        ("{request_is}", request_is),
    ]
}

/// A table without one: the owner of a row ends with the fence and the request of its claim.
fn in_the_owner(owner: &str) -> Vec<(&'static str, String)> {
    let of_owner = format!("{}::text", of(owner));
    let digits = format!("left(right({of_owner}, {OWNER_DIGITS}), {FENCE_DIGITS})");
    let spelled = |fence: &str| format!("lpad(to_hex({fence}), {FENCE_DIGITS}, '0')");
    let is = format!("{digits} = {}", spelled("a.fence"));
    let one_of = format!("{digits} IN (SELECT {} FROM unnest($1::bigint[]) f)", spelled("f"));
    let request_is =
        format!("left({of_owner}, -{OWNER_DIGITS}) = $2 AND right({of_owner}, {REQUEST_DIGITS}) = $3");
    vec![
        ("{new_owner}", format!("$4::text || {} || $6::text", spelled(&next("0", "$6::text")))),
        ("{set_fence}", String::new()),
        // It goes with the owner.
        ("{pass_fence}", String::new()),
        // One that is over keeps it, so that its end is known when it is asked again.
        ("{owner_after}", format!("CASE WHEN m.next_at IS NULL THEN {} END", of(owner))),
        ("{fence}", format!("('x' || {digits})::bit({})::bigint", FENCE_DIGITS * 4)),
        ("{same_lease}", is.clone()),
        ("{is_held}", is),
        ("{fence_is_one_of}", one_of),
        ("{request_is}", request_is),
    ]
}

/// The request, as an owner names it.
pub(super) fn request_digits(request: Uuid) -> String {
    let (high, low) = request.as_u64_pair();
    format!("{:0REQUEST_DIGITS$x}", high ^ low)
}

/// The fence after `last`, for a claim at `moment.now`.
fn next(last: &str, whose: &str) -> String {
    let (tag, now) = (tag(whose), format!("((extract(epoch FROM moment.now) * 1000)::bigint - {START_MS})"));
    format!("greatest({now}, {last} / {STEP} + 1) * {STEP} + {tag}")
}

/// Who it is, as a number below a step.
fn tag(whose: &str) -> String {
    format!("(hashtextextended({whose}, 0) & {})", STEP - 1)
}
