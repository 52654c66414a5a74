//! The schema, by version. Migrations of tables are never edited once they have
//! shipped. The functions are always those of this program: the newest migration
//! puts them in the place of those of the version before. From the tenth schema on, programs of
//! the version before go on while it is installed: it adds, and takes away only what no
//! running program asks for by name. Those that start find that they are too old.

use windlass_core::error::StoreError;
use windlass_core::policy::budget::Budget;

use crate::error::Fault;
use crate::link::Link;
use crate::survey::PICKING_MS;

/// One step of the schema: its parts are run in one transaction.
struct Migration {
    version: i32,
    parts: &'static [&'static str],
}

const MIGRATIONS: [Migration; 13] = [
    Migration { version: 4, parts: &[include_str!("../migrations/0004_init.sql")] },
    Migration { version: 5, parts: &[include_str!("../migrations/0005_claims.sql")] },
    Migration { version: 6, parts: &[include_str!("../migrations/0006_records.sql")] },
    Migration { version: 7, parts: &[include_str!("../migrations/0007_looks.sql")] },
    Migration { version: 8, parts: &[include_str!("../migrations/0008_rooms.sql")] },
    Migration { version: 9, parts: &[include_str!("../migrations/0009_epochs.sql")] },
    Migration { version: 10, parts: &[include_str!("../migrations/0010_delayed.sql")] },
    Migration { version: 11, parts: &[include_str!("../migrations/0011_pauses.sql")] },
    Migration { version: 12, parts: &[include_str!("../migrations/0012_tickets.sql")] },
    Migration { version: 13, parts: &[include_str!("../migrations/0013_minutes_and_actions.sql")] },
    Migration { version: 14, parts: &[include_str!("../migrations/0014_grants.sql")] },
    Migration { version: 15, parts: &[include_str!("../migrations/0015_picker.sql")] },
    Migration {
        version: 16,
        parts: &[
            include_str!("../migrations/0016_places.sql"),
            include_str!("../sql/functions/basics.sql"),
            include_str!("../sql/functions/epoch.sql"),
            include_str!("../sql/functions/keys.sql"),
            include_str!("../sql/functions/places.sql"),
            include_str!("../sql/functions/enqueue.sql"),
            include_str!("../sql/functions/grants.sql"),
            include_str!("../sql/functions/regate.sql"),
            include_str!("../sql/functions/take.sql"),
            include_str!("../sql/functions/claim.sql"),
            include_str!("../sql/functions/survey.sql"),
            include_str!("../sql/functions/worker.sql"),
            include_str!("../sql/functions/complete.sql"),
            include_str!("../sql/functions/moves.sql"),
            include_str!("../sql/functions/save.sql"),
            include_str!("../sql/functions/records.sql"),
            include_str!("../sql/functions/public.sql"),
        ],
    },
];

/// Schemas before this one were never released, and cannot be brought up to date.
const OLDEST: i32 = 4;

/// The oldest server that has what we need (`xid8`, `gen_random_uuid`).
const SERVER_MIN: i32 = 130_000;

/// Checks the server and brings the schema up to date.
pub(crate) async fn migrate(link: &Link) -> Result<(), Fault> {
    check_server(link).await?;
    let newest = MIGRATIONS[MIGRATIONS.len() - 1].version;
    if installed(link).await? == Some(newest) {
        return Ok(());
    }
    link.begin().await?;
    // The lock ends with the transaction: a pooler may stand in between.
    link.rows(sql!("schema", "lock"), &[]).await?;
    link.simple(sql!("schema", "begin")).await?;
    let have = installed(link).await?.unwrap_or(0);
    if (1..OLDEST).contains(&have) {
        return Err(StoreError::Schema(format!(
            "it is of version {have}, from before the first release. Let its jobs finish with the program that made \
             it, then DROP SCHEMA windlass CASCADE"
        ))
        .into());
    }
    if have > newest {
        return Err(StoreError::Schema(format!(
            "it is of version {have}, and this program knows versions up to {newest}. Use a newer program"
        ))
        .into());
    }
    for migration in MIGRATIONS.iter().filter(|migration| migration.version > have) {
        for part in migration.parts {
            link.simple(&replacing(part)).await?;
        }
        let version = migration.version;
        link.rows(sql!("schema", "note"), &[(&version, tokio_postgres::types::Type::INT4)]).await?;
    }
    link.commit().await
}

/// Functions take the place of those of the version before, which programs may be calling: one that is called with other
/// arguments, or answers with something else, than that of the version before needs another name.
fn replacing(part: &str) -> String {
    part.replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION")
        .replace("{planned}", PLANNED)
        .replace("{picking_ms}", &PICKING_MS.to_string())
        .replace("{second_ms}", &Budget::SECOND_BUCKET_MS.to_string())
        .replace("{minute_ms}", &Budget::MINUTE_BUCKET_MS.to_string())
}

/// How a function plans that looks jobs up by what it is given: over their indexes, one by one, whatever the statistics say
/// of tables that are empty one minute and full the next.
const PLANNED: &str = "SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off \
     SET enable_mergejoin = off SET enable_bitmapscan = off SET enable_material = off SET jit = off";

/// The version of the schema; nothing when there is none.
pub(crate) async fn installed(link: &Link) -> Result<Option<i32>, Fault> {
    let row = link.row(sql!("schema", "exists"), &[]).await?;
    if !row.try_get::<_, bool>(0)? {
        return Ok(None);
    }
    let row = link.row(sql!("schema", "version"), &[]).await?;
    Ok(row.try_get::<_, Option<i32>>(0)?)
}

async fn check_server(link: &Link) -> Result<(), Fault> {
    let row = link.row(sql!("server", "version"), &[]).await?;
    let version: i32 = row.try_get(0)?;
    let encoding: String = row.try_get(1)?;
    let isolation: String = row.try_get(2)?;
    let standby: bool = row.try_get(3)?;
    if version < SERVER_MIN {
        let major = version / 10_000;
        return refuse(format!("Postgres {major} is too old; 13 or newer is needed"));
    }
    if encoding != "UTF8" {
        return refuse(format!("the database is encoded as {encoding}; create one with ENCODING 'UTF8'"));
    }
    if isolation != "read committed" {
        return refuse(format!(
            "its default transaction isolation is {isolation:?}; run ALTER DATABASE … SET \
             default_transaction_isolation = 'read committed'"
        ));
    }
    if standby {
        let why = "this server is a standby; use the address of the primary".to_owned();
        return Err(StoreError::CannotWrite(why).into());
    }
    Ok(())
}

fn refuse(why: String) -> Result<(), Fault> {
    Err(StoreError::Schema(why).into())
}
