//! What is in the rows, and what is counted beside them in the same commit.

pub(crate) mod claim_memory;
pub(crate) mod dedupe;
pub(crate) mod due;
pub(crate) mod ended;
pub(crate) mod epoch;
pub(crate) mod head;
pub(crate) mod known;
pub(crate) mod past;
pub(crate) mod row;
pub(crate) mod row_write;
pub(crate) mod stretch;
pub(crate) mod tally;
