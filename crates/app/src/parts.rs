//! The parts of a running app: started together, ended in order.

use std::future::Future;

use futures::future::BoxFuture;
use tokio::task::{JoinError, JoinSet};

use crate::app::AppError;
use crate::stop::Stop;

/// Workers, doors and tasks that run until it is time to end.
///
/// When one of them ends before that, all are told to end: an app with half of
/// its parts looks alive and is not.
#[derive(Default)]
pub struct Parts {
    stop: Stop,
    ranks: Vec<Rank>,
}

/// Parts that are told to end at the same time.
struct Rank {
    stop: Stop,
    parts: Vec<Part>,
}

struct Part {
    name: &'static str,
    run: BoxFuture<'static, Result<(), AppError>>,
}

/// Why an app ended although nobody told it to.
#[derive(Debug, thiserror::Error)]
pub enum PartError {
    /// A part failed.
    #[error(transparent)]
    Failed(AppError),
    /// A part panicked; what it said is not repeated here.
    #[error("the {0} panicked, so that everything has ended; the log says where")]
    Panicked(&'static str),
    /// A part ended by itself.
    #[error("the {0} ended although nobody told it to, so that everything has ended")]
    Ended(&'static str),
}

impl Parts {
    /// Parts that end when `stop` is asked for.
    pub fn new(stop: Stop) -> Self {
        Self { stop, ranks: Vec::new() }
    }

    /// Adds a part that is told to end together with the one before it. It is
    /// given the word to wait for.
    #[must_use]
    pub fn with<F, E>(mut self, name: &'static str, part: impl FnOnce(Stop) -> F) -> Self
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<AppError>,
    {
        if self.ranks.is_empty() {
            self.ranks.push(Rank { stop: Stop::default(), parts: Vec::new() });
        }
        let rank = self.ranks.last_mut().expect("there is one");
        let run = part(rank.stop.clone());
        let run = Box::pin(async move { run.await.map_err(Into::into) });
        rank.parts.push(Part { name, run });
        self
    }

    /// Adds a part that is told to end only when all parts before it have ended.
    #[must_use]
    pub fn then<F, E>(mut self, name: &'static str, part: impl FnOnce(Stop) -> F) -> Self
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<AppError>,
    {
        self.ranks.push(Rank { stop: Stop::default(), parts: Vec::new() });
        self.with(name, part)
    }

    /// Runs all of them to their end. Answers the first thing that went wrong.
    pub fn run(self) -> BoxFuture<'static, Result<(), PartError>> {
        Box::pin(self.ran())
    }

    async fn ran(self) -> Result<(), PartError> {
        let Self { stop, ranks } = self;
        let mut running: Vec<(Stop, JoinSet<Ended>)> = Vec::new();
        for Rank { stop: told, parts } in ranks {
            let mut set = JoinSet::new();
            for Part { name, run } in parts {
                let (stop, told) = (stop.clone(), told.clone());
                set.spawn(async move {
                    let run = tokio::spawn(run);
                    let ended = run.await;
                    Ended { name, ended, early: !told.is_asked(), stop }.said()
                });
            }
            running.push((told, set));
        }
        stop.wait().await;
        let mut wrong = Vec::new();
        for (told, mut set) in running {
            told.ask();
            while let Some(ended) = set.join_next().await {
                wrong.extend(ended.ok().and_then(Ended::wrong));
            }
        }
        // What ended early is why all have ended; the rest follows from it.
        wrong.sort_by_key(|(early, _)| !early);
        wrong.into_iter().next().map_or(Ok(()), |(_, error)| Err(error))
    }
}

/// How a part ended.
struct Ended {
    name: &'static str,
    ended: Result<Result<(), AppError>, JoinError>,
    /// Before it was told to.
    early: bool,
    stop: Stop,
}

impl Ended {
    /// Tells the others, when nobody had told this one.
    fn said(self) -> Self {
        if self.early && !self.stop.is_asked() {
            let part = self.name;
            match &self.ended {
                Ok(Ok(())) => tracing::error!(part, "A part has ended by itself; everything ends"),
                Ok(Err(_)) => tracing::error!(part, "A part has failed; everything ends"),
                Err(_) => tracing::error!(part, "A part has panicked; everything ends"),
            }
            self.stop.ask();
        }
        self
    }

    fn wrong(self) -> Option<(bool, PartError)> {
        let Self { name, ended, early, stop: _ } = self;
        let error = match ended {
            Ok(Ok(())) if early => PartError::Ended(name),
            Ok(Ok(())) => return None,
            Ok(Err(error)) => PartError::Failed(error),
            Err(_) => PartError::Panicked(name),
        };
        Some((early, error))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    type Story = Arc<Mutex<Vec<&'static str>>>;

    /// A part that says when it ends.
    fn part(
        story: &Story,
        name: &'static str,
    ) -> impl FnOnce(Stop) -> BoxFuture<'static, Result<(), AppError>> {
        let story = story.clone();
        move |stop| {
            Box::pin(async move {
                stop.wait().await;
                story.lock().unwrap().push(name);
                Ok(())
            })
        }
    }

    #[tokio::test]
    async fn parts_end_in_order() {
        let (stop, story) = (Stop::default(), Story::default());
        let parts = Parts::new(stop.clone()).with("worker", part(&story, "worker"));
        let parts = parts.then("door", part(&story, "door")).then("log", part(&story, "log"));
        stop.ask();
        parts.run().await.unwrap();
        assert_eq!(*story.lock().unwrap(), ["worker", "door", "log"]);
    }

    #[tokio::test]
    async fn a_part_that_goes_down_takes_all_with_it() {
        let story = Story::default();
        let failed = Parts::default()
            .with("worker", part(&story, "worker"))
            .then("door", |_| async { Err::<(), AppError>("no room".into()) });
        assert_eq!(failed.run().await.unwrap_err().to_string(), "no room");
        let panicked = Parts::default().with("worker", part(&story, "worker")).with("task", |_| async {
            if story_is_told() { panic!("canary") } else { Ok::<(), AppError>(()) }
        });
        let error = panicked.run().await.unwrap_err().to_string();
        assert!(error.contains("the task panicked") && !error.contains("canary"), "{error}");
        let ended = Parts::default()
            .with("worker", part(&story, "worker"))
            .with("task", |_| async { Ok::<(), AppError>(()) });
        assert!(ended.run().await.unwrap_err().to_string().contains("the task ended"));
        assert_eq!(*story.lock().unwrap(), ["worker"; 3], "the others have ended as they should");
    }

    fn story_is_told() -> bool {
        true
    }
}
