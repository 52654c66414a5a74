//! History that is lost. It is never lost in silence: the gap is recorded with its window, the lane goes on from now,
//! and a scan makes one job for each document that matches and has none.

use mongodb::bson::{DateTime, Document, doc};
use mongodb::error::Error;
use windlass_mongo::agenda::row_id;

use crate::context::Context;
use crate::event::{Operation, id_text};
use crate::lane::Lane;
use crate::listener::applied;
use crate::metrics::add;
use crate::token::Token;

/// Records a gap from a lane's position to now, and moves the lane behind it. The record and the move are one
/// transaction, so that neither is without the other.
pub(crate) async fn record(context: &Context, lane: &mut Lane, code: i32) -> Result<(), Error> {
    let home = &context.home;
    let now = Token::before(home.after_everything().await?);
    if !lane.is_active() {
        // Nothing was wanted of what is lost.
        (lane.token, lane.jobs_token) = (now.clone(), now);
        lane.definition_changed = true;
        return reread(context, lane).await;
    }
    let id = row_id(&[b"gap", lane.id().text().as_bytes(), lane.token.text().as_bytes()]).to_hex();
    // What the listener says now is what the scan asks for.
    reread(context, lane).await?;
    let gap = description(context, lane, &now, code);
    let mut session = home.session().await?;
    session.start_transaction().await?;
    home.gaps
        .update_one(doc! { "_id": &id }, doc! { "$setOnInsert": gap })
        .upsert(true)
        .session(&mut session)
        .await?;
    let ours = doc! { "_id": lane.id().text(), "fence": lane.handle.fence };
    let moved = doc! { "$set": {
        "token": now.text(), "statusToken": now.text(), "clusterTime": now.cluster_time(), "at": home.now(),
        "applied": applied(&lane.document),
    } };
    let moved = home.positions.update_one(ours, moved).session(&mut session).await?;
    if moved.matched_count == 0 {
        // Somebody else has the lane, and finds the gap by himself.
        session.abort_transaction().await?;
        lane.handle.stop.store(true, std::sync::atomic::Ordering::Relaxed);
        return Ok(());
    }
    session.commit_transaction().await?;
    add(&context.metrics.gaps, 1);
    add(&context.metrics.open_gaps, 1);
    context.metrics.failed(&id_text(&lane.id().listener), code);
    lane.handle.failed(&format!("history was lost ({code}); gap {id} is recorded and scanned"));
    tracing::error!(listener = %lane.id().text(), gap = %id, code, "History was lost: the gap is recorded, and documents in it are looked for");
    (lane.token, lane.jobs_token, lane.stored) = (now.clone(), now.clone(), now.clone());
    lane.handle.see(|seen| (seen.token, seen.status_token) = (now.clone(), now));
    context.recover_now.notify_one();
    Ok(())
}

async fn reread(context: &Context, lane: &mut Lane) -> Result<(), Error> {
    let document = context.home.listeners.find_one(doc! { "_id": lane.id().listener.clone() }).await?;
    if let Some(document) = document {
        lane.document = document;
        lane.understand();
    }
    Ok(())
}

fn description(context: &Context, lane: &Lane, now: &Token, code: i32) -> Document {
    let seconds = |token: &Token| DateTime::from_millis(i64::from(token.cluster_time().time) * 1_000);
    let deletes =
        lane.listener.as_ref().is_some_and(|listener| listener.operations.contains(&Operation::Delete));
    doc! {
        "listener": id_text(&lane.id().listener),
        "lane": lane.id().text(),
        "from": seconds(&lane.token),
        "to": seconds(now),
        "fromToken": lane.token.text(),
        "toToken": now.text(),
        "code": code,
        "state": "open",
        "scanned": 0_i64,
        "jobs": 0_i64,
        "deletes": if deletes { "unrecoverable" } else { "not watched" },
        "at": context.home.now(),
    }
}
