//! Listeners that are made, changed, split, paused or deleted while they are followed, each at its point of the history.

use std::sync::atomic::Ordering;

use mongodb::bson::{Bson, Document, doc};

use super::desk::{Desk, PAUSE_MS};
use crate::commit::move_lanes;
use crate::event::{Event, Operation};
use crate::home::{code, is_passing};
use crate::lane::{Following, LaneId};
use crate::limits;
use crate::listener::{Listener, OnResume, applied};

impl Desk {
    /// A listener was made, changed or deleted, at this point of the history.
    pub(super) async fn define(&mut self, event: &Event) {
        let mut is_ours = false;
        for place in (0..self.lanes.len()).rev() {
            let lane = &mut self.lanes[place];
            if lane.id().listener != *event.id() {
                continue;
            }
            is_ours = true;
            // What is read again for the status was applied by the owner before.
            if event.token <= lane.token || event.token <= lane.jobs_token {
                continue;
            }
            if event.operation == Operation::Delete {
                let lane = self.lanes.swap_remove(place);
                lane.handle.gone.store(true, Ordering::Relaxed);
                self.context.registry.remove(&lane.handle);
                let gone = doc! { "_id": lane.id().text(), "fence": lane.handle.fence };
                let _ = self.context.home.positions.delete_one(gone).await;
                let before = doc! { "listener": lane.id().listener.clone(), "splitAt": { "$exists": true } };
                let _ = self.context.home.positions.delete_many(before).await;
                tracing::info!(listener = %lane.id().text(), "A listener was deleted");
                continue;
            }
            let was_limited = lane.listener.as_ref().is_some_and(|listener| listener.concurrency.is_some());
            change(&mut lane.document, event);
            lane.understand();
            let (listener, context) = (lane.listener.clone(), self.context.clone());
            (lane.token, lane.definition_changed) = (event.token.clone(), true);
            self.replan = true;
            while let Some(listener) = &listener
                && let Err(trouble) = limits::set_budget(&context.home, listener, was_limited).await
            {
                tracing::warn!(error = trouble.why(), "The limit of a listener cannot be set now");
                if !trouble.passes() || !context.pause(PAUSE_MS).await {
                    break;
                }
            }
            let is_split =
                lane.listener.as_ref().is_some_and(|listener| !LaneId::of(listener).contains(lane.id()));
            let is_paused = lane.listener.is_some() && !lane.is_active();
            // One that begins where those before it stood comes by edits that it is born of.
            if is_paused || (is_split && !self.is_split_so(place).await) {
                self.put_down(place).await;
            }
        }
        self.private = self.plan().private();
        if is_ours {
            // One that was mended is followed as the others are.
            self.following(if self.is_shared { Following::Live } else { Following::CatchingUp });
            // It may be one now that must not run, or that is in the way of another.
            self.context.claim_now.notify_one();
        }
        if !is_ours && self.is_shared {
            self.welcome(event).await;
        }
    }

    /// Whether a lane is one of its listener's as that is now.
    async fn is_split_so(&self, place: usize) -> bool {
        let lane = self.lanes[place].id();
        let now = self.current(&lane.listener).await;
        let now = now.and_then(|document| Listener::read(&document).ok());
        now.is_some_and(|listener| LaneId::of(&listener).contains(lane))
    }

    /// A listener as it is now. Passing trouble is waited out; nothing when there is none, or when it is time to end.
    async fn current(&self, id: &Bson) -> Option<Document> {
        loop {
            match self.context.home.listeners.find_one(doc! { "_id": id.clone() }).await {
                Ok(found) => return found,
                Err(error) if is_passing(&error) && self.context.pause(PAUSE_MS).await => {}
                Err(error) => {
                    tracing::warn!(code = code(&error), error = %error.kind, "A listener cannot be read");
                    return None;
                }
            }
        }
    }

    /// A lane that was paused, or split anew: its position is kept, and its lock let go.
    async fn put_down(&mut self, place: usize) {
        let lane = self.lanes.swap_remove(place);
        let steps = [self.step(&lane, &lane.token)];
        for _ in 0..10 {
            match move_lanes(&self.context.home, &steps, None).await {
                Err(error) if is_passing(&error) => {
                    if !self.context.pause(PAUSE_MS).await {
                        break;
                    }
                }
                _ => break,
            }
        }
        tracing::info!(listener = %lane.id().text(), "A listener was paused or split; it is put down");
        lane.handle.stop.store(true, Ordering::Relaxed);
        lane.handle.gone.store(true, Ordering::Relaxed);
        self.context.claim_now.notify_one();
    }

    /// A listener that nobody has here may be new, or resumed: it begins at this point of the history. That must be
    /// written: whoever takes it later begins where it says.
    async fn welcome(&self, event: &Event) {
        if event.operation == Operation::Delete {
            // Whoever makes one of the same id anew begins there, and not where this one was put down. One that somebody
            // has comes to this point by itself.
            let put_down = vec![doc! { "applied.isActive": false }, doc! { "refused": true }];
            let behind = doc! { "$lt": event.token.text() };
            let left = doc! { "listener": event.id().clone(), "token": behind, "$or": put_down };
            let positions = &self.context.home.positions;
            while let Err(error) = positions.delete_many(left.clone()).await {
                if !is_passing(&error) || !self.context.pause(PAUSE_MS).await {
                    break;
                }
            }
            return;
        }
        let Some(document) = self.current(event.id()).await else { return };
        let Ok(listener) = Listener::read(&document) else { return };
        let start = doc! {
            "listener": listener.key.clone(), "token": event.token.text(), "clusterTime": event.cluster_time,
            "statusToken": event.token.text(), "at": self.context.home.now(), "applied": applied(&document),
        };
        if event.operation == Operation::Insert {
            for lane in LaneId::of(&listener) {
                let mut new = start.clone();
                new.insert("fence", 0_i64);
                let new = doc! { "$setOnInsert": new };
                self.place(doc! { "q": { "_id": lane.text() }, "u": new, "upsert": true }).await;
                // Whoever took it before this was written, and let it go, has left a position that says nothing.
                let silent = doc! { "_id": lane.text(), "token": { "$exists": false } };
                self.place(doc! { "q": silent, "u": { "$set": start.clone() } }).await;
            }
        } else if listener.is_active {
            // What came while it was refused is left out, and what came while it was paused unless it says otherwise;
            // also for lanes of before it was split anew, behind which those of now begin.
            let mut left_out = vec![doc! { "refused": true }];
            if listener.on_resume == OnResume::Skip {
                left_out.push(doc! { "applied.isActive": false });
            }
            let behind = doc! { "$lt": event.token.text() };
            let waiting = doc! { "listener": listener.key.clone(), "$or": left_out, "token": behind };
            let begun = doc! { "$set": start, "$unset": { "refused": "" } };
            self.place(doc! { "q": waiting, "u": begun, "multi": true }).await;
        }
        if listener.is_active {
            self.context.claim_now.notify_one();
        }
    }

    /// Writes a position of a lane that nobody has. Passing trouble is waited out, until it is time to end.
    async fn place(&self, update: Document) {
        let home = &self.context.home;
        let command = doc! { "update": home.positions.name(), "updates": [update] };
        while let Err(error) = home.client.database(&home.database).run_command(command.clone()).await {
            tracing::warn!(code = code(&error), error = %error.kind, "Where a listener begins cannot be written now");
            if !is_passing(&error) || !self.context.pause(PAUSE_MS).await {
                return;
            }
        }
    }
}

/// A listener's document after a change of it.
fn change(document: &mut Document, event: &Event) {
    match (&event.document, &event.update) {
        (_, Some(update)) => update.overlay(document),
        (Some(whole), None) => *document = whole.clone(),
        (None, None) => {}
    }
    if document.get("_id").is_none() {
        document.insert("_id", event.key.get("_id").cloned().unwrap_or(Bson::Null));
    }
}
