//! What the conformance suite does not look at: faults of the database, the
//! way in by SQL, and adopted tables. All on a real Postgres.

mod adopted;
mod adopted_leases;
mod adopted_model;
mod adopted_plan;
mod audit;
mod claims;
mod counted;
mod encryption;
mod epochs;
mod failover;
mod faults;
mod hosts;
mod line;
mod moved;
mod offers;
mod outage;
mod pooler;
mod risks;
mod scene;
mod shelves;
mod sql_enqueue;
mod sql_gate;
mod upgrade;
