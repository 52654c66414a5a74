//! The shared stream: one for all lanes of this instance that are at its position.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use windlass_app::AppError;

use super::desk::Desk;
use super::gap;
use super::plan::Plan;
use super::tail::{Chunk, Opening, Tail};
use crate::context::Context;
use crate::lane::{Following, Lane};
use crate::metrics::add;
use crate::token::Token;

/// How long the shared stream stands still for lanes that are about to join it.
const HOLD: Duration = Duration::from_secs(3);
const PAUSE_MS: u64 = 500;

/// Lanes that want to join.
pub(crate) enum Wish {
    /// Stand still, and say where.
    Hold {
        at: oneshot::Sender<Token>,
        joining: oneshot::Receiver<Vec<Lane>>,
        back: oneshot::Sender<Vec<Lane>>,
    },
}

pub(crate) struct Shared {
    desk: Desk,
    plan: Plan,
    tail: Tail,
    wishes: mpsc::Receiver<Wish>,
}

/// Reads until it is time to end.
pub(crate) async fn run(
    context: Arc<Context>,
    start: Token,
    wishes: mpsc::Receiver<Wish>,
) -> Result<(), AppError> {
    let desk = Desk::new(context.clone(), Vec::new(), start, true);
    let plan = desk.plan();
    let tail = open(&context, &plan, &desk.token);
    let mut shared = Shared { desk, plan, tail, wishes };
    shared.read().await;
    // What was worked on is where a successor begins.
    shared.desk.store_positions().await;
    for lane in &shared.desk.lanes {
        lane.handle.gone.store(true, Ordering::Relaxed);
    }
    Ok(())
}

fn open(context: &Context, plan: &Plan, at: &Token) -> Tail {
    let home = &context.home;
    let opening = Opening {
        pipeline: plan.pipeline(&home.database, &home.own_names()),
        start: at.clone(),
        images_before: plan.images_before,
        is_open: context.is_open.clone(),
    };
    Tail::start(home, opening)
}

impl Shared {
    async fn read(&mut self) {
        let context = self.desk.context.clone();
        let mut wishes_open = true;
        loop {
            tokio::select! {
                biased;
                () = context.stop.wait() => return,
                wish = self.wishes.recv(), if wishes_open => match wish {
                    Some(wish) => self.grant(wish).await,
                    None => wishes_open = false,
                },
                chunk = self.tail.next() => if !self.take(chunk).await {
                    return;
                },
            }
        }
    }

    /// False when it is time to end.
    async fn take(&mut self, chunk: Option<Chunk>) -> bool {
        match chunk {
            Some(Chunk::Events { events, token }) => {
                if !self.desk.take(events, token).await {
                    return false;
                }
                self.desk.context.heard();
                self.publish();
                if std::mem::take(&mut self.desk.replan) {
                    self.replan();
                }
            }
            Some(Chunk::Lost { code }) => self.lost(code).await,
            Some(Chunk::Skipped { from, to }) => {
                tracing::error!(%from, %to, "An event is larger than the server can tell, and was stepped over");
                self.gaps(10334).await;
            }
            None => {
                if !self.desk.context.pause(PAUSE_MS).await {
                    return false;
                }
                self.reopen();
            }
        }
        true
    }

    fn publish(&self) {
        self.desk.context.shared.send_replace(Some(self.desk.token.clone()));
    }

    fn reopen(&mut self) {
        add(&self.desk.context.metrics.reopened, 1);
        self.tail = open(&self.desk.context, &self.plan, &self.desk.token);
    }

    /// Opens the stream anew where it is, if its lanes want to hear something else than it tells.
    fn replan(&mut self) {
        let wanted = self.desk.plan();
        self.desk.private = wanted.private();
        if !self.plan.covers(&wanted) {
            self.plan = wanted;
            self.reopen();
        }
    }

    /// Lets lanes join that are nearly here: nothing is read until they have come as far.
    async fn grant(&mut self, wish: Wish) {
        let Wish::Hold { at, joining, back } = wish;
        if at.send(self.desk.token.clone()).is_err() {
            return;
        }
        let context = self.desk.context.clone();
        let joined = tokio::select! {
            joined = joining => joined.ok(),
            () = context.home.world.sleep_ms(HOLD.as_millis() as u64) => None,
            () = context.stop.wait() => None,
        };
        context.heard();
        let Some(lanes) = joined else { return };
        let (here, behind): (Vec<Lane>, Vec<Lane>) =
            lanes.into_iter().partition(|lane| lane.token >= self.desk.token);
        if !here.is_empty() {
            tracing::debug!(lanes = here.len(), "Listeners are up to date, and join the shared stream");
            self.desk.lanes.extend(here);
            self.desk.following(Following::Live);
            self.replan();
        }
        let _ = back.send(behind);
    }

    /// The history of the shared position is gone: all of its lanes have a gap, and go on from now.
    async fn lost(&mut self, code: i32) {
        self.gaps(code).await;
        let context = self.desk.context.clone();
        loop {
            match context.home.after_everything().await {
                Ok(now) => {
                    self.desk.token = Token::before(now);
                    break;
                }
                Err(error) => {
                    tracing::warn!(error = %error.kind, "The server does not answer");
                    if !context.pause(PAUSE_MS).await {
                        return;
                    }
                }
            }
        }
        self.publish();
        self.reopen();
    }

    async fn gaps(&mut self, code: i32) {
        let context = self.desk.context.clone();
        for lane in &mut self.desk.lanes {
            while let Err(error) = gap::record(&context, lane, code).await {
                tracing::warn!(error = %error.kind, "A gap cannot be recorded now, and will be");
                if !context.pause(PAUSE_MS).await {
                    return;
                }
            }
        }
    }
}
