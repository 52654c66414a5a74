//! Which columns a mapping needs, and what types of Postgres they may have.

use super::mapping::{Mapping, Output};

/// What a column is for, and with that what type it may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// The id of a row: text, uuid or an integer.
    Id,
    /// Text.
    Text,
    /// A moment, as a time or as text.
    Time,
    /// An integer.
    Number,
    /// A fence: an integer of 64 bits.
    Fence,
    /// A whole output: text or JSON.
    Output,
    /// A part of an output, or something that is set beside: whatever its type is.
    Field,
    /// Something that is only read.
    Any,
}

/// Every column that must be there, with what it is for.
pub(super) fn columns(mapping: &Mapping) -> Vec<(&str, Use)> {
    let mut columns = vec![
        (mapping.id.as_str(), Use::Id),
        (&mapping.status, Use::Text),
        (&mapping.owner, Use::Text),
        (&mapping.locked_until, Use::Time),
        (&mapping.next_attempt, Use::Time),
        (&mapping.tries, Use::Number),
    ];
    columns.extend(mapping.payload.iter().map(|column| (column.as_str(), Use::Any)));
    columns.extend(mapping.fence.iter().map(|column| (column.as_str(), Use::Fence)));
    columns.extend(mapping.request.iter().map(|column| (column.as_str(), Use::Text)));
    columns.extend(mapping.crashes.iter().map(|column| (column.as_str(), Use::Number)));
    columns.extend(mapping.error.iter().map(|column| (column.as_str(), Use::Text)));
    columns.extend(mapping.order.iter().map(|column| (column.as_str(), Use::Any)));
    if let Some(stage) = &mapping.stage {
        columns.push((&stage.column, Use::Text));
        for step in &stage.steps {
            let used = if matches!(step.output, Output::Fields(_)) { Use::Field } else { Use::Output };
            columns.extend(step.output.columns().into_iter().map(|column| (column, used)));
        }
    }
    let beside = mapping.beside.done.iter().chain(&mapping.beside.failed);
    columns.extend(beside.map(|assign| (assign.column.as_str(), Use::Field)));
    let mut seen = std::collections::HashSet::new();
    columns.retain(|(column, _)| seen.insert(*column));
    columns
}
