//! What the conformance suite does not look at: faults of the database, the
//! way in by SQL, and adopted tables. All on a real Postgres.

mod adopted;
mod adopted_plan;
mod claims;
mod encryption;
mod faults;
mod line;
mod offers;
mod outage;
mod scene;
mod sql_enqueue;
mod sql_gate;
mod upgrade;
