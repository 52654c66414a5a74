//! The desk: events go over it in their order, and become jobs of the lanes that wait for them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use mongodb::bson::{DateTime, doc};

use super::batch::{Batch, Writing};
use super::lookup;
use super::plan::{OF_LOCKS, Plan};
use crate::commit::{Done, Step, commit, lost, move_lanes};
use crate::context::Context;
use crate::event::{Event, Heard, Unreadable, id_text};
use crate::home::{code, is_passing};
use crate::job::{Cause, Making, NewJob};
use crate::lane::{Following, Lane};
use crate::listener::applied;
use crate::metrics::add;
use crate::status_field::touches_only;
use crate::token::Token;

pub(super) const PAUSE_MS: u64 = 200;

/// Lanes that are read for together.
pub(crate) struct Desk {
    pub(crate) context: Arc<Context>,
    pub(crate) lanes: Vec<Lane>,
    /// Everything up to here has been worked on.
    pub(crate) token: Token,
    /// Whether it is the one that sees to listeners nobody has.
    pub(crate) is_shared: bool,
    /// When idle positions were last written, by the clock since boot.
    pub(crate) refreshed_boot_ms: u64,
    pub(crate) private: Vec<String>,
    /// Definitions have changed, and so may what the stream asks for.
    pub(crate) replan: bool,
}

impl Desk {
    pub(crate) fn new(context: Arc<Context>, lanes: Vec<Lane>, token: Token, is_shared: bool) -> Self {
        let refreshed_boot_ms = context.home.world.boot_ms();
        let mut desk =
            Self { context, lanes, token, is_shared, refreshed_boot_ms, private: Vec::new(), replan: false };
        desk.private = desk.plan().private();
        desk
    }

    /// What its lanes want to hear.
    pub(crate) fn plan(&self) -> Plan {
        Plan::of(self.lanes.iter().filter_map(|lane| lane.listener.as_deref()))
    }

    /// Works on a chunk. False when it is time to end, and what is not written is abandoned.
    pub(crate) async fn take(&mut self, events: Vec<Heard>, token: Token) -> bool {
        self.let_go();
        let is_at_end = events.is_empty();
        let mut some: Vec<Event> = Vec::new();
        add(&self.context.metrics.events, events.len());
        for heard in events {
            match heard {
                Heard::Change(event) if self.is_release(&event) => self.context.claim_now.notify_one(),
                Heard::Change(event) if self.is_definition(&event) => {
                    if !self.work(std::mem::take(&mut some)).await {
                        return false;
                    }
                    self.define(&event).await;
                }
                Heard::Change(event) => some.push(*event),
                Heard::Other(_) => {}
                Heard::Unreadable(event) => {
                    if !self.set_aside(&event).await {
                        return false;
                    }
                }
            }
        }
        if !self.work(some).await {
            return false;
        }
        self.token = self.token.clone().max(token);
        let now = self.context.home.world.boot_ms();
        for lane in &mut self.lanes {
            if lane.token < self.token {
                lane.token = self.token.clone();
            }
            let token = lane.token.clone();
            let written = lane.handle.pending.load(Ordering::Acquire) == 0;
            lane.handle.see(|seen| {
                // With nothing left to write, the status is where the jobs are.
                if written {
                    seen.status_token = token.clone();
                }
                seen.token = token;
                (seen.moved_boot_ms, seen.is_at_end) = (now, is_at_end);
            });
        }
        self.refresh().await;
        true
    }

    fn is_definition(&self, event: &Event) -> bool {
        event.collection == "listeners" && event.database == self.context.home.database
    }

    /// A lock was let go, by whoever, and nothing else of a listener has changed.
    fn is_release(&self, event: &Event) -> bool {
        let held = ["lockInfo", "fence"].map(str::to_owned);
        let of_locks =
            event.database == self.context.home.database && OF_LOCKS.contains(&event.collection.as_str());
        of_locks && event.update.as_ref().is_some_and(|update| touches_only(update, &held))
    }

    /// Forgets lanes that are to be let go.
    fn let_go(&mut self) {
        self.lanes.retain(|lane| {
            let stop = lane.handle.stop.load(Ordering::Relaxed);
            if stop {
                lane.handle.gone.store(true, Ordering::Relaxed);
            }
            !stop
        });
    }

    /// Events between two changes of definitions.
    async fn work(&mut self, mut events: Vec<Event>) -> bool {
        events
            .retain(|event| !event.update.as_ref().is_some_and(|update| touches_only(update, &self.private)));
        if events.is_empty() {
            return true;
        }
        while let Err(error) = lookup::complete(&self.context.home, &mut events, &self.lanes).await {
            tracing::warn!(code = code(&error), error = %error.kind, "Documents cannot be read now, and will be");
            if !self.context.pause(PAUSE_MS).await {
                return false;
            }
            if !is_passing(&error) {
                // What an event tells by itself is left.
                break;
            }
        }
        let mut by_collection: HashMap<String, Vec<usize>> = HashMap::new();
        for (place, lane) in self.lanes.iter().enumerate() {
            if let Some(listener) = &lane.listener {
                by_collection.entry(listener.collection.clone()).or_default().push(place);
            }
        }
        let is_well = self.make(&events, &by_collection).await;
        self.lanes.retain(|lane| !lane.handle.is_lost());
        is_well
    }

    /// Makes jobs of events, and writes them: the next batch is made while one is being written. No lane is taken away
    /// meanwhile, since batches know them by their place.
    async fn make(&mut self, events: &[Event], by_collection: &HashMap<String, Vec<usize>>) -> bool {
        let (jobs_max, bytes_max) = (self.context.work.batch_jobs_max, self.context.work.batch_bytes_max);
        let (mut batch, mut writing) = (Batch::default(), None);
        for event in events {
            for place in by_collection.get(&event.collection).into_iter().flatten() {
                let Some(job) = self.offer(*place, event) else { continue };
                let is_full = batch.jobs.len() >= jobs_max || batch.bytes + job.bytes > bytes_max;
                if is_full && !batch.is_empty() {
                    let full = std::mem::take(&mut batch);
                    if !self.written(writing.take()).await {
                        return false;
                    }
                    writing = Some(self.write(full));
                }
                let is_there = self.lanes[*place].has_its_job(&event.token, event.id());
                batch.add(*place, event, job, is_there);
            }
        }
        if !self.written(writing).await {
            return false;
        }
        batch.is_empty() || {
            let last = self.write(batch);
            self.written(Some(last)).await
        }
    }

    /// Makes a job of an event if a lane waits for it.
    fn offer(&mut self, place: usize, event: &Event) -> Option<NewJob> {
        let now_ms = self.context.home.now().timestamp_millis();
        let lane = &mut self.lanes[place];
        if event.token <= lane.token || !lane.is_active() || lane.handle.is_lost() {
            return None;
        }
        let listener = lane.listener.clone()?;
        if !listener.concerns(event) || !lane.id().takes(event.id()) || !listener.matches(event) {
            return None;
        }
        lane.handle.events.fetch_add(1, Ordering::Relaxed);
        let due = lane.due_ms(id_text(event.id()), now_ms);
        let making = Making {
            handle: &lane.handle,
            instance: &self.context.instance,
            due: DateTime::from_millis(due),
            payload_bytes_max: self.context.work.payload_bytes_max,
            target: self.context.home.target,
        };
        Some(NewJob::of(&listener, event, &Cause::Event(&event.token), &making))
    }

    /// Begins to make a batch durable.
    fn write(&self, batch: Batch) -> Writing {
        let Batch { jobs, again, last, bytes: _ } = batch;
        let steps: Vec<Step> =
            last.iter().map(|(place, token)| self.step(&self.lanes[*place], token)).collect();
        let context = self.context.clone();
        let task = tokio::spawn(async move {
            match jobs.is_empty() {
                true => Some(Done::default()),
                false => commit(&context.home, jobs, steps, &|| context.stop.is_asked()).await,
            }
        });
        Writing { task, last, again }
    }

    /// Waits until a batch is durable. False when it is time to end.
    async fn written(&mut self, writing: Option<Writing>) -> bool {
        let Some(Writing { task, last, again }) = writing else { return true };
        let done = match task.await {
            Ok(Some(done)) => done,
            Ok(None) => return false,
            Err(why) => {
                // Nothing is known of what it wrote. Whoever reads ends, and a successor finds out by the rows.
                tracing::error!(panicked = why.is_panic(), "A batch was not written to its end");
                return false;
            }
        };
        self.lose(&done.lost);
        for (place, token) in &last {
            let lane = &mut self.lanes[*place];
            if !lane.handle.is_lost() {
                lane.token = token.clone();
                lane.stored = token.clone();
                lane.definition_changed = false;
                lane.handle.see(|seen| seen.token = token.clone());
            }
        }
        self.count(&done.written);
        for job in &done.dead {
            let why = job.dead.as_ref().map_or("", |dead| dead.why.as_str());
            add(&self.context.metrics.dead, 1);
            job.handle.dead.fetch_add(1, Ordering::Relaxed);
            job.handle.failed(why);
            self.context.metrics.failed(&job.origin.listener, 0);
            tracing::error!(listener = %job.origin.listener, document = %id_text(&job.origin.document), error = %why, "A change can never become a job, and is a dead letter");
        }
        let mut told = done.written;
        if !done.dead.is_empty() {
            // The last of a document has the last word.
            told.extend(done.dead);
            told.sort_by(|one, other| one.token.cmp(&other.token));
        }
        self.tell(told).await;
        self.tell(again).await;
        true
    }

    fn count(&self, written: &[NewJob]) {
        let context = &self.context;
        if written.is_empty() {
            return;
        }
        add(&context.metrics.jobs, written.len());
        add(&context.metrics.batches, 1);
        let now_ms = context.home.now().timestamp_millis();
        for job in written {
            job.handle.jobs.fetch_add(1, Ordering::Relaxed);
            if let Some(wall) = job.origin.wall_ms {
                context.metrics.delayed(u64::try_from(now_ms - wall).unwrap_or(0));
            }
        }
    }

    /// Has the status of these and their history written. Waits where that is far behind: this is how the stream is held
    /// back.
    async fn tell(&self, mut jobs: Vec<NewJob>) {
        for job in &mut jobs {
            job.forget_form();
            job.handle.pending.fetch_add(1, Ordering::AcqRel);
        }
        if !jobs.is_empty() {
            let _ = self.context.statuses.send(jobs).await;
        }
    }

    pub(super) fn step(&self, lane: &Lane, token: &Token) -> Step {
        Step {
            handle: lane.handle.clone(),
            token: token.clone().max(lane.jobs_token.clone()),
            run_at_max_ms: lane.run_at_max_ms,
            applied: lane.definition_changed.then(|| applied(&lane.document)),
        }
    }

    /// Lanes that somebody else has: nothing of them is written any more.
    fn lose(&mut self, lost: &[String]) {
        if lost.is_empty() {
            return;
        }
        add(&self.context.metrics.locks_lost, lost.len());
        tracing::warn!(
            lanes = lost.len(),
            "Another instance has taken over; nothing more is written for its listeners"
        );
        for lane in self.lanes.iter().filter(|lane| lost.contains(&lane.handle.name)) {
            lane.handle.lose();
            lane.handle.gone.store(true, Ordering::Relaxed);
            self.context.registry.remove(&lane.handle);
        }
        self.context.claim_now.notify_one();
    }

    /// Writes positions of lanes that have heard nothing of late, so that they never grow old.
    async fn refresh(&mut self) {
        let now = self.context.home.world.boot_ms();
        let every = (self.context.work.heartbeat.as_millis() as u64 / 2).max(200);
        if now - self.refreshed_boot_ms >= every {
            self.store_positions().await;
        }
    }

    /// Writes where all lanes are.
    pub(crate) async fn store_positions(&mut self) {
        self.refreshed_boot_ms = self.context.home.world.boot_ms();
        let moved = |lane: &&Lane| lane.token > lane.stored || lane.definition_changed;
        let steps: Vec<Step> =
            self.lanes.iter().filter(moved).map(|lane| self.step(lane, &lane.token)).collect();
        if steps.is_empty() || !self.context.holds() {
            return;
        }
        match move_lanes(&self.context.home, &steps, None).await {
            Ok(moved) => {
                for lane in &mut self.lanes {
                    lane.stored = lane.token.clone();
                    lane.definition_changed = false;
                }
                if moved < steps.len() as i64
                    && let Ok(lost) = lost(&self.context.home, None, &steps).await
                {
                    self.lose(&lost);
                    self.lanes.retain(|lane| !lane.handle.is_lost());
                }
            }
            Err(error) => tracing::debug!(error = %error.kind, "Idle positions could not be written"),
        }
    }

    /// An event that cannot be read is a dead letter of each listener that may have waited for it. False when it is time
    /// to end: then it is read again.
    async fn set_aside(&self, event: &Unreadable) -> bool {
        let Unreadable { token, place, why, bytes } = event;
        tracing::error!(error = why, bytes, "An event cannot be read, and is a dead letter");
        let told = token.as_ref().map_or(why.as_str(), Token::text);
        for lane in &self.lanes {
            let Some(listener) = lane.listener.as_ref().filter(|listener| listener.is_active) else {
                continue;
            };
            let is_elsewhere =
                place.as_ref().is_some_and(|(database, name)| !listener.watches(database, name));
            if is_elsewhere || token.as_ref().is_some_and(|token| *token <= lane.token) {
                continue;
            }
            let id =
                windlass_mongo::agenda::row_id(&[b"unreadable", listener.id().as_bytes(), told.as_bytes()]);
            let letter = doc! {
                "listener": listener.id(), "state": "dead", "reason": "unreadable", "error": why,
                "at": self.context.home.now(), "token": token.as_ref().map(Token::text), "bytes": *bytes as i64,
                "database": place.as_ref().map(|place| &place.0), "collection": place.as_ref().map(|place| &place.1),
            };
            let (id, letter) = (doc! { "_id": id }, doc! { "$setOnInsert": letter });
            let dead = &self.context.home.dead;
            while let Err(error) = dead.update_one(id.clone(), letter.clone()).upsert(true).await {
                tracing::warn!(code = code(&error), error = %error.kind, "A dead letter cannot be written now");
                if !is_passing(&error) {
                    break;
                }
                if !self.context.pause(PAUSE_MS).await {
                    return false;
                }
            }
            add(&self.context.metrics.dead, 1);
            lane.handle.dead.fetch_add(1, Ordering::Relaxed);
            lane.handle.failed(why);
        }
        true
    }

    /// Says where the lanes are followed.
    pub(crate) fn following(&self, following: Following) {
        for lane in self.lanes.iter().filter(|lane| lane.listener.is_some()) {
            lane.handle.see(|seen| seen.following = following);
        }
    }
}
