//! Whether a transaction pooler stands in between: then a session is not ours, and
//! prepared statements, LISTEN and settings of a session do not work.
//!
//! A connection says a setting of its own when it begins. A pooler of transactions either refuses that, or leaves it out
//! of the sessions that it shares; and a session that lacks it is not ours.

use std::time::Duration;

use tokio_postgres::error::SqlState;

use crate::hosts::Hosts;

/// The setting that a session of ours has.
pub(crate) const SESSION: &str = "windlass.session";
/// How long a pooler may take to answer; one that takes longer is told by what fails later.
const ASK_TIME: Duration = Duration::from_secs(5);

/// Whether a transaction pooler answers where the database is. An error is for whoever opens the store to meet.
pub(crate) async fn is_pooled(hosts: &Hosts) -> bool {
    tokio::time::timeout(ASK_TIME, lacks_session(hosts)).await.unwrap_or(false)
}

async fn lacks_session(hosts: &Hosts) -> bool {
    let (client, connection) = match hosts.connect().await {
        Ok(connected) => connected,
        Err(error) => return refuses_settings(&error),
    };
    let asked = async {
        let query = format!("SELECT current_setting('{SESSION}', true)");
        let said = client.simple_query(&query).await?;
        let set = said.iter().any(|message| {
            matches!(message, tokio_postgres::SimpleQueryMessage::Row(row) if row.get(0).is_some_and(|set| !set.is_empty()))
        });
        Ok::<bool, tokio_postgres::Error>(!set)
    };
    tokio::select! {
        lacks = asked => lacks.unwrap_or(false),
        _ = connection => false,
    }
}

/// What pgbouncer says to settings that it does not know.
fn refuses_settings(error: &tokio_postgres::Error) -> bool {
    error.as_db_error().is_some_and(|refused| {
        *refused.code() == SqlState::PROTOCOL_VIOLATION && refused.message().contains("startup parameter")
    })
}
