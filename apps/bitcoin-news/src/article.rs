//! An article as the store keeps it: what the provider said, and how far each step is.

use serde::{Deserialize, Serialize};
use windlass_outside::news::{NewsArticle, Sentiment};

use crate::reason::Reason;

/// An article.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Article {
    /// What the provider said.
    pub news: NewsArticle,
    /// When it was first seen.
    pub queued_ms: i64,
    /// When what is shown of it last changed.
    pub changed_ms: i64,
    /// When a step of it last came to something.
    pub processed_ms: Option<i64>,
    /// What it means.
    pub sentiment: Step<Sentiment>,
    /// The text of its page, which is kept apart.
    pub content: Step<()>,
    /// What its page says, in short.
    pub summary: Step<String>,
    /// Where it is.
    pub state: State,
    /// Rises each time that it is put back, so that a job of an earlier round does nothing.
    pub round: u32,
}

/// How far a step is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Step<T> {
    /// To be done.
    Open {
        /// How often it was tried, counted before each call.
        attempts: u32,
        /// How often it had to wait for somebody else, which costs no attempt.
        parks: u32,
        /// Not before this moment.
        due_ms: i64,
        /// Why the last try came to nothing.
        reason: Option<Reason>,
        /// A call is under way, or was when its process died.
        calling: bool,
    },
    /// It has a value.
    Done {
        /// The value.
        value: T,
        /// How many attempts it took.
        attempts: u32,
    },
    /// It ended without one.
    Empty {
        /// Why.
        reason: Reason,
        /// How many attempts it took.
        attempts: u32,
    },
}

/// Which step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// Ask the model what it means.
    Sentiment,
    /// Fetch its page.
    Content,
    /// Ask the model what the page says.
    Summary,
}

/// Where an article is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum State {
    /// It waits for its first attempt.
    Pending,
    /// It is being worked on.
    Current {
        /// Since when.
        since_ms: i64,
    },
    /// A step of it is tried again later.
    Later {
        /// Since when.
        since_ms: i64,
    },
    /// It is over.
    Done {
        /// When.
        at_ms: i64,
    },
    /// It is over, with empty values.
    Failed {
        /// When.
        at_ms: i64,
        /// Why.
        reason: Reason,
    },
    /// It is over, and nobody worked on it to its end.
    Skipped {
        /// When.
        at_ms: i64,
        /// Why.
        reason: Reason,
    },
    /// An operator took it away.
    Dropped {
        /// When.
        at_ms: i64,
    },
}

impl State {
    /// The labels of articles that are not over.
    pub const OPEN: [&'static str; 3] = ["pending", "current", "later"];

    /// The label of its record.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Current { .. } => "current",
            Self::Later { .. } => "later",
            Self::Done { .. } => "done",
            Self::Failed { .. } => "failed",
            Self::Skipped { .. } => "skipped",
            Self::Dropped { .. } => "dropped",
        }
    }

    /// Whether nothing more is done with it.
    pub fn is_over(&self) -> bool {
        !matches!(self, Self::Pending | Self::Current { .. } | Self::Later { .. })
    }

    /// Why it ended as it did, where there is something to say.
    pub fn reason(&self) -> Option<&Reason> {
        match self {
            Self::Failed { reason, .. } | Self::Skipped { reason, .. } => Some(reason),
            _ => None,
        }
    }
}

impl<T> Step<T> {
    /// A step that nobody has tried.
    pub const fn open() -> Self {
        Self::Open { attempts: 0, parks: 0, due_ms: 0, reason: None, calling: false }
    }

    /// Its value.
    pub fn value(&self) -> Option<&T> {
        match self {
            Self::Done { value, .. } => Some(value),
            Self::Open { .. } | Self::Empty { .. } => None,
        }
    }

    /// Whether it is to be done.
    pub fn is_open(&self) -> bool {
        matches!(self, Self::Open { .. })
    }

    /// How often it was tried.
    pub fn attempts(&self) -> u32 {
        match self {
            Self::Open { attempts, .. } | Self::Done { attempts, .. } | Self::Empty { attempts, .. } => {
                *attempts
            }
        }
    }

    /// Why it has no value.
    pub fn reason(&self) -> Option<&Reason> {
        match self {
            Self::Open { reason, .. } => reason.as_ref(),
            Self::Empty { reason, .. } => Some(reason),
            Self::Done { .. } => None,
        }
    }
}

impl Article {
    /// An article that was just seen.
    pub fn new(news: NewsArticle, now_ms: i64) -> Self {
        let sentiment = match news.sentiment {
            Some(value) => Step::Done { value, attempts: 0 },
            None => Step::open(),
        };
        let content = match news.link {
            Some(_) => Step::open(),
            None => Step::Empty { reason: Reason::no_link(), attempts: 0 },
        };
        Self {
            news,
            queued_ms: now_ms,
            changed_ms: now_ms,
            processed_ms: None,
            sentiment,
            content,
            summary: Step::open(),
            state: State::Pending,
            round: 0,
        }
    }

    /// Its id.
    pub fn id(&self) -> &str {
        &self.news.id
    }

    /// Its place in the feed: when it was published, or seen where nobody says.
    pub fn published_ms(&self) -> i64 {
        self.news.published_ms.unwrap_or(self.queued_ms)
    }

    /// Whether a step of it has come to something, so that it stands in the index.
    pub fn has_begun(&self) -> bool {
        self.processed_ms.is_some() || self.state.is_over()
    }

    /// Why it is where it is: the reason of its end, or of the step that holds it back.
    pub fn reason(&self) -> Option<&Reason> {
        let steps = || {
            let open = |is_open: bool, reason| if is_open { reason } else { None };
            open(self.sentiment.is_open(), self.sentiment.reason())
                .or_else(|| open(self.content.is_open(), self.content.reason()))
                .or_else(|| open(self.summary.is_open(), self.summary.reason()))
        };
        let ended = || self.summary.reason().or_else(|| self.sentiment.reason());
        self.state.reason().or_else(|| if self.state.is_over() { ended() } else { steps() })
    }
}
