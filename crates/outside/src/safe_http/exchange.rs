//! What hyper says went wrong, in our words.

use std::error::Error;
use std::io;

use super::error::HttpError;
use super::origin::Origin;

/// Reads the cause out of an error of hyper and what lies beneath it.
pub(super) fn failure(origin: &Origin, error: &(dyn Error + 'static)) -> HttpError {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(ours) = error.downcast_ref::<HttpError>() {
            return ours.clone();
        }
        if let Some(known) = error.downcast_ref::<hyper::Error>().and_then(|hyper| of_hyper(origin, hyper)) {
            return known;
        }
        next = error.source();
    }
    HttpError::Cut { origin: origin.clone() }
}

fn of_hyper(origin: &Origin, error: &hyper::Error) -> Option<HttpError> {
    let origin = origin.clone();
    if error.is_user() {
        let why = error.source().and_then(|source| source.downcast_ref::<io::Error>());
        return Some(HttpError::Source { origin, why: why.map_or(io::ErrorKind::Other, io::Error::kind) });
    }
    if error.is_parse() {
        let why =
            if error.is_parse_too_large() { "its head is too large" } else { "its head cannot be parsed" };
        return Some(HttpError::Garbled { origin, why });
    }
    None
}
