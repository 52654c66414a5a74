//! What can become of a page.

use crate::retry_after::RetryAfter;
use crate::safe_http::{HttpError, Origin};

/// Why there is no text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArticleError {
    /// The site's `robots.txt` asks us to stay away from this page.
    #[error("the robots.txt of {origin} does not allow this page")]
    Robots {
        /// The site.
        origin: Origin,
    },
    /// Whether the site allows it cannot be said: its `robots.txt` could not be had.
    #[error("the robots.txt could not be read, so the page was not asked for: {0}")]
    RobotsUnknown(HttpError),
    /// What came is no HTML.
    #[error("{origin} answered with something that is not HTML")]
    NotHtml {
        /// Who answered.
        origin: Origin,
    },
    /// There is no readable text in the page.
    #[error("the page has no readable text")]
    Empty,
    /// The page could not be taken apart.
    #[error("the page could not be taken apart")]
    Unreadable,
    /// The call failed.
    #[error(transparent)]
    Http(#[from] HttpError),
}

impl ArticleError {
    /// A short code that never changes, for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Robots { .. } => "robots",
            Self::RobotsUnknown(_) => "robots_unknown",
            Self::NotHtml { .. } => "not_html",
            Self::Empty => "empty",
            Self::Unreadable => "unreadable",
            Self::Http(error) => error.code(),
        }
    }

    /// Whether the same page may be there later without anything else changing.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::RobotsUnknown(_) => true,
            Self::Http(error) => error.is_transient(),
            Self::Robots { .. } | Self::NotHtml { .. } | Self::Empty | Self::Unreadable => false,
        }
    }

    /// The status code, when an answer came.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Http(error) | Self::RobotsUnknown(error) => error.status(),
            _ => None,
        }
    }

    /// When the site wants to be asked again, if it said so.
    pub fn retry_after(&self) -> Option<RetryAfter> {
        match self {
            Self::Http(error) | Self::RobotsUnknown(error) => error.retry_after(),
            _ => None,
        }
    }
}
