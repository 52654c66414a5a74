//! Rows of documents that were found: written only while the lane is ours. What can never be written is a dead letter,
//! and the rest goes on.

use std::collections::HashSet;
use std::sync::atomic::Ordering;

use mongodb::bson::Document;

use super::collision::Tries;
use crate::commit::{end, existing, letter, send, without_twins};
use crate::context::Context;
use crate::event::id_text;
use crate::job::{Dead, NewJob};
use crate::lane::Handle;
use crate::lease;
use crate::metrics::add;
use crate::sink::{Trouble, write_within};

/// Writes jobs some of which may be there already, each half by itself where they cannot be written together. Those
/// that are durable are in `written`, also when the rest has failed. False when the lane is somebody else's.
pub(super) async fn write(
    context: &Context,
    handle: &Handle,
    jobs: Vec<NewJob>,
    written: &mut Written,
) -> Result<bool, Trouble> {
    let mut waiting = vec![jobs];
    while let Some(mut jobs) = waiting.pop() {
        if jobs.is_empty() {
            continue;
        }
        match transaction(context, handle, &jobs, None).await {
            Ok(true) => {
                written.new += jobs.len();
                written.told.append(&mut jobs);
            }
            Ok(false) => return Ok(false),
            Err(trouble) if trouble.passes() => return Err(trouble),
            Err(trouble) => match apart(context, jobs, &trouble, written).await? {
                Apart::Fewer(jobs) => waiting.push(jobs),
                Apart::Halves(first, second) => waiting.extend([second, first]),
                Apart::Poison(job) => {
                    let dead = Dead { why: trouble.why(), at: context.home.now() };
                    if !transaction(context, handle, &[], Some(&letter(&job, &dead))).await? {
                        return Ok(false);
                    }
                    set_aside(context, handle, &job, &dead.why);
                    written.told.push(job.given_up(dead));
                }
            },
        }
    }
    Ok(true)
}

/// What became of jobs.
#[derive(Default)]
pub(super) struct Written {
    /// Those of which their documents are to be told: that they are durable, or can never be.
    pub(super) told: Vec<NewJob>,
    /// How many of them are new.
    pub(super) new: usize,
}

/// What is left to do with jobs that could not be written together.
enum Apart {
    /// Some were there already.
    Fewer(Vec<NewJob>),
    Halves(Vec<NewJob>, Vec<NewJob>),
    Poison(Box<NewJob>),
}

async fn apart(
    context: &Context,
    mut jobs: Vec<NewJob>,
    trouble: &Trouble,
    written: &mut Written,
) -> Result<Apart, Trouble> {
    let before = jobs.len();
    if trouble.is_duplicate() {
        let there: HashSet<_> = existing(&context.home, &jobs).await?;
        let (there, new): (Vec<_>, Vec<_>) = jobs.into_iter().partition(|job| there.contains(&job.id));
        // Rows that are there are as good as written.
        written.told.extend(there);
        jobs = without_twins(new);
        if jobs.len() < before {
            return Ok(Apart::Fewer(jobs));
        }
    }
    Ok(match jobs.pop() {
        Some(job) if jobs.is_empty() => Apart::Poison(Box::new(job)),
        last => {
            jobs.extend(last);
            let second = jobs.split_off(before / 2);
            Apart::Halves(jobs, second)
        }
    })
}

/// One transaction: the fence, a dead letter, rows. False when the lane is somebody else's.
async fn transaction(
    context: &Context,
    handle: &Handle,
    jobs: &[NewJob],
    letter: Option<&Document>,
) -> Result<bool, Trouble> {
    let mut tries = Tries::new();
    loop {
        match transaction_once(context, handle, jobs, letter).await {
            Err(trouble) if tries.again(context.home.world.as_ref(), &trouble).await => {}
            ended => return ended,
        }
    }
}

async fn transaction_once(
    context: &Context,
    handle: &Handle,
    jobs: &[NewJob],
    letter: Option<&Document>,
) -> Result<bool, Trouble> {
    let home = &context.home;
    let mut session = home.session().await?;
    session.start_transaction().await?;
    let written = async {
        if !lease::fence(home, &mut session, &context.instance, handle).await? {
            return Ok(None);
        }
        if let Some(letter) = letter {
            send(home, &mut session, letter).await?;
        }
        write_within(home, &mut session, jobs).await.map(Some)
    };
    match written.await {
        Ok(Some(within)) => {
            end(home, &mut session).await?;
            if let Some(within) = within {
                within.committed();
            }
            Ok(true)
        }
        other => {
            // It ends by itself when this does not arrive.
            let _ = session.abort_transaction().await;
            other.map(|_| false)
        }
    }
}

/// Counts a job that can never be written, and says so.
pub(super) fn set_aside(context: &Context, handle: &Handle, job: &NewJob, why: &str) {
    add(&context.metrics.dead, 1);
    handle.dead.fetch_add(1, Ordering::Relaxed);
    handle.failed(why);
    context.metrics.failed(&job.origin.listener, 0);
    tracing::error!(listener = %job.origin.listener, document = %id_text(&job.origin.document), error = why, "A document can never have its job, and is a dead letter");
}
